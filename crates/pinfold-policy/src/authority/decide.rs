//! Decisions: what a resolved path allows, and why not.

use std::path::Path;
use std::time::SystemTime;

use super::grant::{Effect, Grant, HardLinks, Reason, Restriction, RootId};
use super::resolve::{Block, Located, Place, Resolved};
use super::tree::{Kind, Tree};
use super::value::Authority;
use crate::access::Access;
use crate::glob::Glob;
use crate::path::{HostPath, InsidePath, PathError};

/// What an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed<'a> {
    /// The governing grant; none for a directory that merely leads to one.
    pub grant: Option<&'a Grant>,
    /// The restriction that makes changes go to a private copy.
    pub private: Option<&'a Restriction>,
}

/// What a user answers, or is proposed to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead.
    Yes,
    /// Do not.
    No,
}

/// Whether somebody can answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPresence {
    /// Somebody is at the terminal.
    Present,
    /// Nobody is.
    Absent,
}

/// An authority's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The access is granted.
    Allow(Allowed<'a>),
    /// The access is refused.
    Deny(DenyReason),
    /// A user may grant it, and only a user: see [`Decision::settle`].
    Ask {
        prompt: String,
        /// The proposed answer.
        default: Answer,
    },
}

impl Decision<'_> {
    /// Turns a question that nobody can answer into a refusal.
    #[must_use]
    pub fn settle(self, presence: UserPresence) -> Self {
        match (self, presence) {
            (Self::Ask { prompt, .. }, UserPresence::Absent) => {
                Self::Deny(DenyReason::NobodyToAsk { prompt })
            }
            (decision, _) => decision,
        }
    }

    /// Returns whether the access is granted here and now.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// Why an access is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DenyReason {
    /// No grant covers the path.
    #[error("nothing grants {inside}")]
    NotGranted {
        /// The path inside.
        inside: InsidePath,
    },
    /// The grant does not include the access.
    #[error("root {root} does not grant {missing} on {inside}")]
    AccessNotGranted {
        /// The governing root.
        root: RootId,
        /// What it lacks.
        missing: Access,
        /// The path inside.
        inside: InsidePath,
    },
    /// The directory is there only to lead to a grant.
    #[error("{inside} only leads to granted directories")]
    OnlyLeads { inside: InsidePath },
    /// A restriction hides it.
    #[error("{inside} is hidden: {reason}")]
    Hidden {
        /// The path inside.
        inside: InsidePath,
        reason: Reason,
    },
    /// A restriction keeps it as it is.
    #[error("{inside} is read-only: {reason}")]
    Protected {
        /// The path inside.
        inside: InsidePath,
        reason: Reason,
    },
    /// It cannot be moved or removed: it is a mount, or leads to something protected.
    #[error("{inside} cannot be moved or removed while {holds} is mounted or protected")]
    Pinned {
        /// The path inside.
        inside: InsidePath,
        /// What holds it.
        holds: HostPath,
    },
    /// The grant's time is over.
    #[error("the grant of root {root} has expired")]
    Expired { root: RootId },
    /// A glob in the root's rules.
    #[error("{inside} matches \"{glob}\", which root {root} denies")]
    Glob {
        /// The path inside.
        inside: InsidePath,
        glob: Glob,
        root: RootId,
    },
    /// The root's rules refuse files with several names.
    #[error("{inside} has {links} names, and root {root} refuses hard links")]
    HardLink {
        /// The path inside.
        inside: InsidePath,
        /// How many names.
        links: u64,
        root: RootId,
    },
    /// The root's rules limit a file's size.
    #[error("{inside} has {size} bytes, more than the {limit} that root {root} allows")]
    TooLarge {
        /// The path inside.
        inside: InsidePath,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
        root: RootId,
    },
    /// The path cannot be walked.
    #[error("{at}: {why}")]
    Blocked {
        /// The component that stopped it.
        at: InsidePath,
        why: Block,
    },
    /// A question without a user.
    #[error("no user to ask: {prompt}")]
    NobodyToAsk { prompt: String },
}

impl DenyReason {
    /// Returns what a user can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotGranted { inside } | Self::OnlyLeads { inside } => {
                Some(format!("grant it with --read {inside} or --write {inside}"))
            }
            Self::AccessNotGranted { inside, missing, .. } => {
                let flag = if missing.intersects(Access::CHANGING) { "--write" } else { "--read" };
                Some(format!("grant it with {flag} {inside}"))
            }
            Self::Hidden { reason, .. } | Self::Protected { reason, .. } => {
                let name = reason.opt_in.as_deref()?;
                Some(format!("add \"{name}\" to opt_in under [files] in your config.toml"))
            }
            Self::NobodyToAsk { .. } => Some("run it from a terminal".to_owned()),
            Self::Pinned { .. }
            | Self::Expired { .. }
            | Self::Glob { .. }
            | Self::HardLink { .. }
            | Self::TooLarge { .. }
            | Self::Blocked { .. } => None,
        }
    }
}

impl Authority {
    /// Decides an access now. See [`Self::decide_at`].
    #[must_use]
    pub fn decide(&self, access: Access, resolved: &Resolved) -> Decision<'_> {
        self.decide_at(access, resolved, SystemTime::now())
    }

    /// Decides an access to a resolved path at a given time. `resolved` must come from this
    /// authority; for [`Access::OF_THE_NAME`] from [`Self::resolve_name`].
    #[must_use]
    pub fn decide_at(&self, access: Access, resolved: &Resolved, now: SystemTime) -> Decision<'_> {
        match &resolved.place {
            Place::Granted(located) => match self.grants.get(located.grant) {
                Some(grant) => self.decide_granted(access, located, grant, now),
                None => Decision::Deny(DenyReason::NotGranted { inside: located.inside.clone() }),
            },
            Place::Synthetic(_) if Access::SYNTHETIC.contains(access) => {
                Decision::Allow(Allowed { grant: None, private: None })
            }
            Place::Synthetic(inside) => {
                Decision::Deny(DenyReason::OnlyLeads { inside: inside.clone() })
            }
            Place::Absent(inside) => {
                Decision::Deny(DenyReason::NotGranted { inside: inside.clone() })
            }
            Place::Hidden { inside, host } => Decision::Deny(self.hidden(inside, host)),
            Place::Blocked { at, why } => {
                Decision::Deny(DenyReason::Blocked { at: at.clone(), why: why.clone() })
            }
        }
    }

    /// Walks and decides: accesses to the name do not follow a final link, the others do, and all
    /// must be allowed.
    ///
    /// # Errors
    /// Returns an error when the path is relative or contains a NUL byte.
    pub fn decide_path(
        &self,
        tree: &dyn Tree,
        access: Access,
        path: impl AsRef<Path>,
    ) -> Result<(Resolved, Decision<'_>), PathError> {
        let path = path.as_ref();
        let of_the_name = access & Access::OF_THE_NAME;
        let of_the_file = access - Access::OF_THE_NAME;
        if !of_the_name.is_empty() {
            let resolved = self.resolve_name(tree, path)?;
            let decision = self.decide(of_the_name, &resolved);
            if of_the_file.is_empty() || !decision.is_allowed() {
                return Ok((resolved, decision));
            }
        }
        let resolved = self.resolve(tree, path)?;
        let decision = self.decide(of_the_file, &resolved);
        Ok((resolved, decision))
    }

    fn hidden(&self, inside: &InsidePath, host: &HostPath) -> DenyReason {
        let inside = inside.clone();
        match self.restriction_of(host) {
            Some(Restriction { reason, .. }) => {
                DenyReason::Hidden { inside, reason: reason.clone() }
            }
            None => DenyReason::NotGranted { inside },
        }
    }

    fn decide_granted<'a>(
        &'a self,
        access: Access,
        located: &Located,
        grant: &'a Grant,
        now: SystemTime,
    ) -> Decision<'a> {
        let restriction = self.restriction_of(&located.host);
        let refusal = check_expiry(grant, now)
            .or_else(|| check_restriction(access, located, restriction))
            .or_else(|| self.check_pins(access, located))
            .or_else(|| check_rules(access, located, grant));
        if let Some(reason) = refusal {
            return Decision::Deny(reason);
        }
        let missing = access - grant.access;
        if missing.is_empty() {
            let private = restriction.filter(|found| found.effect == Effect::Private);
            return Decision::Allow(Allowed { grant: Some(grant), private });
        }
        if grant.ask.contains(missing) {
            let prompt = format!("allow {missing} on {}?", located.inside);
            return Decision::Ask { prompt, default: Answer::No };
        }
        Decision::Deny(DenyReason::AccessNotGranted {
            root: grant.root.id.clone(),
            missing,
            inside: located.inside.clone(),
        })
    }

    /// Checks that no mount is moved or removed, nor may a directory through which the host finds what
    /// is protected.
    fn check_pins(&self, access: Access, located: &Located) -> Option<DenyReason> {
        if !access.intersects(Access::OF_THE_NAME) {
            return None;
        }
        let holds = self.holds(&located.inside, &located.host)?;
        Some(DenyReason::Pinned { inside: located.inside.clone(), holds })
    }
}

fn check_expiry(grant: &Grant, now: SystemTime) -> Option<DenyReason> {
    grant.has_expired(now).then(|| DenyReason::Expired { root: grant.root.id.clone() })
}

fn check_restriction(
    access: Access,
    located: &Located,
    restriction: Option<&Restriction>,
) -> Option<DenyReason> {
    let restriction = restriction?;
    let (inside, reason) = (located.inside.clone(), restriction.reason.clone());
    match restriction.effect {
        Effect::Hide => Some(DenyReason::Hidden { inside, reason }),
        Effect::ReadOnly if access.intersects(Access::CHANGING) => {
            Some(DenyReason::Protected { inside, reason })
        }
        Effect::ReadOnly | Effect::Private => None,
    }
}

fn check_rules(access: Access, located: &Located, grant: &Grant) -> Option<DenyReason> {
    let (inside, root) = (located.inside.clone(), grant.root.id.clone());
    if let Some(below) = located.host.strip_prefix(&grant.root.host)
        && let Some(glob) = grant.rules.deny.iter().find(|glob| glob.covers(below))
    {
        return Some(DenyReason::Glob { inside, glob: glob.clone(), root });
    }
    let entry = located.entry.filter(|entry| entry.kind == Kind::File)?;
    let writable = grant.access.intersects(Access::CHANGING);
    if grant.rules.hard_links == HardLinks::RejectInWritable && writable && entry.links > 1 {
        return Some(DenyReason::HardLink { inside, links: entry.links, root });
    }
    let uses_content = access.intersects(Access::READ | Access::WRITE | Access::EXECUTE);
    match grant.rules.max_file_size {
        Some(limit) if uses_content && entry.size > limit => {
            Some(DenyReason::TooLarge { inside, size: entry.size, limit, root })
        }
        _ => None,
    }
}
