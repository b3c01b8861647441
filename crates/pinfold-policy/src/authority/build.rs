//! The builder, which refuses contradictions.

use std::fmt;
use std::time::SystemTime;

use super::grant::{Effect, Grant, HardLinks, Restriction, Root, Rules, Symlinks};
use super::subject::Subject;
use super::value::{Authority, MountPoint};
use crate::access::Access;
use crate::origin::Origin;
use crate::path::{HostPath, InsidePath};

/// A contradiction among grants and restrictions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// Two host paths claim the same place inside.
    #[error("{inside} is granted twice: from {first} and from {second}; remove one")]
    SamePlace {
        /// The place inside.
        inside: InsidePath,
        /// Who claims it.
        first: Box<Claim>,
        /// Who else claims it.
        second: Box<Claim>,
    },
    /// A grant's time is over.
    #[error("the grant of {host} by {origin} has expired; renew or remove it")]
    Expired {
        /// The granted path.
        host: HostPath,
        /// Who granted it.
        origin: Origin,
    },
    /// One root is granted twice, and the grants end at different times.
    #[error("{host} is granted by {first} and by {second} until different times; keep one")]
    DifferentEnds {
        /// The granted path.
        host: HostPath,
        /// Who granted it.
        first: Origin,
        /// Who else granted it.
        second: Origin,
    },
    /// A grant of no access at all.
    #[error("the grant of {host} by {origin} allows nothing; name an access or remove it")]
    Empty {
        /// The granted path.
        host: HostPath,
        /// Who granted it.
        origin: Origin,
    },
    /// A grant lies in what a restriction takes away.
    #[error(
        "the grant of {grant} lies in {}, which is {} ({}) by {}; remove one of them",
        .restriction.host, .restriction.effect, .restriction.reason, .restriction.source
    )]
    Restricted {
        grant: Box<Claim>,
        /// What takes it away.
        restriction: Box<Restriction>,
    },
    /// A restriction that nothing enforces because nothing grants its place.
    #[error("{host}, {effect} by {origin}, is not in a grant; remove it or grant its directory")]
    Unreachable {
        /// The restricted path.
        host: HostPath,
        /// What the restriction does.
        effect: Effect,
        /// Who said so.
        origin: Origin,
    },
}

/// A granted host path and who granted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The granted path.
    pub host: HostPath,
    /// Who granted it.
    pub origin: Origin,
}

impl Claim {
    fn of(grant: &Grant) -> Box<Self> {
        Box::new(Self { host: grant.root.host.clone(), origin: grant.source.clone() })
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.host, self.origin)
    }
}

/// Collects grants and restrictions. Order does not matter.
#[derive(Clone, Debug)]
pub struct AuthorityBuilder {
    subject: Subject,
    grants: Vec<Grant>,
    restrictions: Vec<Restriction>,
}

impl AuthorityBuilder {
    pub(super) fn new(subject: Subject) -> Self {
        Self { subject, grants: Vec::new(), restrictions: Vec::new() }
    }

    /// Adds a grant. The same root granted twice is the union of both accesses.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grants.push(grant);
        self
    }

    /// Adds a restriction.
    #[must_use]
    pub fn restrict(mut self, restriction: Restriction) -> Self {
        self.restrictions.push(restriction);
        self
    }

    /// Checks everything against everything.
    ///
    /// # Errors
    /// Returns an error when two hosts claim one path in the sandbox, one root is granted until different times,
    /// a grant has expired at `now` or is empty, a grant lies in what a restriction takes away (on the
    /// host, or where it appears inside), or a restriction lies in no grant.
    pub fn build(self, now: SystemTime) -> Result<Authority, AuthorityError> {
        let grants = merge_grants(self.grants, now)?;
        let restrictions = merge_restrictions(self.restrictions);
        let authority = Authority { subject: self.subject, grants, restrictions };
        let mounted: Vec<MountPoint<'_>> = authority.mount_points().collect();
        for restriction in &authority.restrictions {
            check_restriction(restriction, &authority.grants, &mounted)?;
        }
        Ok(authority)
    }
}

fn merge_grants(mut grants: Vec<Grant>, now: SystemTime) -> Result<Vec<Grant>, AuthorityError> {
    grants.sort_by(|a, b| {
        let key = |grant: &Grant| grant.root.inside.depth();
        key(a).cmp(&key(b)).then_with(|| a.root.inside.cmp(&b.root.inside))
    });
    let mut merged: Vec<Grant> = Vec::with_capacity(grants.len());
    for grant in grants {
        let Grant { root: Root { host, .. }, source, .. } = &grant;
        if grant.has_expired(now) {
            return Err(AuthorityError::Expired { host: host.clone(), origin: source.clone() });
        }
        if grant.access.union(grant.ask).is_empty() {
            return Err(AuthorityError::Empty { host: host.clone(), origin: source.clone() });
        }
        match merged.last_mut() {
            Some(last) if last.root.inside == grant.root.inside => unite(last, grant)?,
            _ => merged.push(grant),
        }
    }
    Ok(merged)
}

/// Unites two grants of one root: what either allows is allowed, and the stricter rules hold.
fn unite(last: &mut Grant, grant: Grant) -> Result<(), AuthorityError> {
    if last.root.host != grant.root.host {
        return Err(AuthorityError::SamePlace {
            inside: grant.root.inside.clone(),
            first: Claim::of(last),
            second: Claim::of(&grant),
        });
    }
    if last.expires != grant.expires {
        return Err(AuthorityError::DifferentEnds {
            host: grant.root.host,
            first: last.source.clone(),
            second: grant.source,
        });
    }
    if !last.access.contains(grant.access) {
        last.source = grant.source;
    }
    last.access |= grant.access;
    last.ask = (last.ask | grant.ask) - last.access;
    last.rules = stricter(std::mem::take(&mut last.rules), grant.rules);
    Ok(())
}

fn stricter(mut a: Rules, b: Rules) -> Rules {
    a.symlinks = match (a.symlinks, b.symlinks) {
        (Symlinks::Reject, _) | (_, Symlinks::Reject) => Symlinks::Reject,
        (Symlinks::InRoot, _) | (_, Symlinks::InRoot) => Symlinks::InRoot,
        (Symlinks::Follow, Symlinks::Follow) => Symlinks::Follow,
    };
    a.hard_links = match (a.hard_links, b.hard_links) {
        (HardLinks::Allow, HardLinks::Allow) => HardLinks::Allow,
        _ => HardLinks::RejectInWritable,
    };
    a.max_file_size = match (a.max_file_size, b.max_file_size) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    };
    for glob in b.deny {
        if !a.deny.contains(&glob) {
            a.deny.push(glob);
        }
    }
    a
}

fn merge_restrictions(mut restrictions: Vec<Restriction>) -> Vec<Restriction> {
    restrictions.sort_by(|a, b| {
        let depth = a.host.depth().cmp(&b.host.depth());
        depth.then_with(|| a.host.cmp(&b.host)).then_with(|| b.effect.cmp(&a.effect))
    });
    restrictions.dedup_by(|later, first| later.host == first.host);
    restrictions
}

fn check_restriction(
    restriction: &Restriction,
    grants: &[Grant],
    mounted: &[MountPoint<'_>],
) -> Result<(), AuthorityError> {
    let changes = |grant: &Grant| grant.access.union(grant.ask).intersects(Access::CHANGING);
    let takes_away = |grant: &Grant, place: &HostPath| match restriction.effect {
        Effect::Hide => true,
        // A user who names a path wants its changes; a path that nobody named may have a private
        // copy.
        Effect::Private if *place == restriction.host && grant.source == Origin::Default => false,
        Effect::ReadOnly | Effect::Private => changes(grant),
    };
    let on_the_host = grants.iter().map(|grant| (grant, &grant.root.host));
    let inside = mounted.iter().map(|point| (point.grant, &point.host));
    let lost = on_the_host
        .chain(inside)
        .find(|(grant, place)| place.starts_with(&restriction.host) && takes_away(grant, place));
    if let Some((grant, _)) = lost {
        return Err(AuthorityError::Restricted {
            grant: Claim::of(grant),
            restriction: Box::new(restriction.clone()),
        });
    }
    if grants.iter().any(|grant| restriction.host.starts_with(&grant.root.host)) {
        return Ok(());
    }
    Err(AuthorityError::Unreachable {
        host: restriction.host.clone(),
        effect: restriction.effect,
        origin: restriction.source.clone(),
    })
}
