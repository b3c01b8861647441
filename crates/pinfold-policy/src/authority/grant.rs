//! Grants, and the restrictions inside them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::subject::RootKind;
use crate::access::Access;
use crate::glob::Glob;
use crate::origin::Origin;
use crate::path::{HostPath, InsidePath};

/// A root's name in decisions and audit records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootId(Arc<str>);

impl RootId {
    /// Returns a name; any text that reads well after "root".
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file or directory of the host and the place where it appears inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The root's name.
    pub id: RootId,
    /// What it is for.
    pub kind: RootKind,
    /// Where it is on the host. Links on the way are already resolved.
    pub host: HostPath,
    /// Where it appears inside.
    pub inside: InsidePath,
}

/// What to do with a symbolic link met on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Follow it as the kernel does, to wherever it leads inside.
    #[default]
    Follow,
    /// Follow it only while it stays in the same root. Mounts cannot express this: only the
    /// direct file API enforces it.
    InRoot,
    /// Refuse it (`MOUNT_ATTR_NOSYMFOLLOW`, mount_setattr(2)).
    Reject,
}

/// What to do with a file that has several names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// Treat it as any file.
    #[default]
    Allow,
    /// Refuse it in a root that can be written: its other name may lie outside. Only the direct
    /// file API enforces this.
    RejectInWritable,
}

/// Rules for what is met in a root, beyond the access itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Symbolic links.
    pub symlinks: Symlinks,
    /// Hard links.
    pub hard_links: HardLinks,
    /// The largest file that may be read, written or run, in bytes.
    pub max_file_size: Option<u64>,
    /// What is denied by name, relative to the root. Boundaries enforce globs through the
    /// restrictions made from the names that exist at the start; a name made later inside is
    /// refused by the direct file API only.
    pub deny: Vec<Glob>,
}

impl Rules {
    /// Returns whether mounts and Landlock can carry these rules in full.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// An access to a root, who gave it, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is granted.
    pub root: Root,
    /// What may be done without asking.
    pub access: Access,
    /// What may be done once a user has agreed.
    pub ask: Access,
    /// Who gave it.
    pub source: Origin,
    /// When it ends; never if absent.
    pub expires: Option<SystemTime>,
    /// Rules for what is met in it.
    pub rules: Rules,
}

impl Grant {
    /// Returns a grant that asks nobody, never ends and has the default rules.
    #[must_use]
    pub fn new(root: Root, access: Access, source: Origin) -> Self {
        Self { root, access, ask: Access::empty(), source, expires: None, rules: Rules::default() }
    }

    /// Returns the host path of a path in the sandbox under this grant.
    #[must_use]
    pub fn host_of(&self, inside: &InsidePath) -> Option<HostPath> {
        self.root.host.join(inside.strip_prefix(&self.root.inside)?).ok()
    }

    /// Returns the sandbox path of a host path under this grant.
    #[must_use]
    pub fn inside_of(&self, host: &HostPath) -> Option<InsidePath> {
        self.root.inside.join(host.strip_prefix(&self.root.host)?).ok()
    }

    /// Returns whether the grant has ended.
    #[must_use]
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

/// What a restriction does to a path that a grant covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The sandbox sees and writes a private copy; the host's file does not change.
    Private,
    /// The sandbox sees it and cannot change it.
    ReadOnly,
    /// The sandbox cannot see what it holds.
    Hide,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private copy",
            Self::ReadOnly => "read-only",
            Self::Hide => "hidden",
        })
    }
}

/// The class of reason a restriction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It holds a secret.
    Secret,
    /// A program on the host would execute it, or what it names.
    HostExecutes,
    /// The user or the administrator denied it.
    Denied,
    /// It belongs to pinfold.
    Own,
}

impl Why {
    /// Returns whether something of this class must not come to lie elsewhere, with another thing in its
    /// place, even if it is hidden.
    pub(super) fn keeps_the_name(self) -> bool {
        match self {
            Self::HostExecutes | Self::Own => true,
            Self::Secret | Self::Denied => false,
        }
    }
}

/// Why a restriction exists, and how to lift it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub why: Why,
    /// One line for a user, a lower-case fragment.
    pub text: Cow<'static, str>,
    /// The name that lifts it in the user's `files.opt_in`, where it may be lifted.
    pub opt_in: Option<Cow<'static, str>>,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A deny inside an allow. It holds for the host path and all below it, however it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// The file or directory on the host; it need not exist.
    pub host: HostPath,
    /// What happens to it.
    pub effect: Effect,
    pub reason: Reason,
    /// Who said so.
    pub source: Origin,
}
