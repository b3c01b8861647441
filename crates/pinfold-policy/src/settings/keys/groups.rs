//! The keys of groups, and of the files that describe them.

use super::shapes::{ID_PATTERN, TEXTS};
use crate::document::{Key, Shape};
use crate::settings::words::GroupTrust;

/// `[groups.NAME]`.
pub(crate) const GROUP: &[Key] = &[
    Key::new(
        "trust",
        Shape::Choice(GroupTrust::WORDS),
        "Whether its sessions get tokens for GitHub (admin), or git alone has them (member, \
         default).",
    ),
    Key::new(
        "folder",
        Shape::Pattern(ID_PATTERN),
        "Its directories' name; the group's by default.",
    ),
    Key::new("repo_access", Shape::Text, "A worktree that its sessions work on."),
    Key::new("timeout", Shape::Text, "Wall-clock time of its sessions, such as \"10m\"."),
    Key::new(
        "concurrency",
        Shape::Count,
        "How many of its tasks are worked on at once; 1 by default.",
    ),
    Key::new(
        "mounts",
        Shape::List(&Shape::Table(GROUP_MOUNT)),
        "What else its sessions see, as far as mount-allowlist.toml lets them.",
    ),
];

/// An entry of a group's `mounts`.
pub(crate) const GROUP_MOUNT: &[Key] = &[
    Key::new(
        "host_path",
        Shape::Text,
        "Where it is: an absolute path, or one that begins with ~/.",
    ),
    Key::new(
        "container_path",
        Shape::Text,
        "Where it appears below /workspace/extra; its own name by default.",
    ),
    Key::new("readonly", Shape::Flag, "Whether it is read-only, which it is by default."),
];

/// A `containerConfig` of Pynchy's.
pub(crate) const CONTAINER_CONFIG: &[Key] = &[
    Key::new("additional_mounts", Shape::List(&Shape::Table(GROUP_MOUNT)), "Mounts."),
    Key::new("timeout", Shape::Count, "Milliseconds."),
];

/// `[group_home]`.
pub(crate) const GROUP_HOME: &[Key] = &[
    Key::new("root", Shape::Text, "The directory with groups/, data/ and config.toml."),
    Key::new("scripts", Shape::Text, "What appears as /workspace/scripts, read-only."),
    Key::new("runner", Shape::Text, "What appears as /app/src, read-only."),
    Key::new("env", TEXTS, "The names of a group's env file that its sessions see."),
];

/// `mount-allowlist.toml`.
pub(crate) const ALLOWLIST: &[Key] = &[
    Key::new(
        "allowed_roots",
        Shape::List(&Shape::Table(ALLOWED_ROOT)),
        "Directories that groups' mounts may lie in.",
    ),
    Key::new("blocked_patterns", TEXTS, "Texts that no path of a mount may contain."),
    Key::new("non_admin_read_only", Shape::Flag, "Whether only groups of admins may write."),
];

/// An entry of `allowed_roots`.
pub(crate) const ALLOWED_ROOT: &[Key] = &[
    Key::new("path", Shape::Text, "The directory."),
    Key::new("allow_read_write", Shape::Flag, "Whether mounts may be written to; no by default."),
    Key::new("description", Shape::Text, "What it is, for people."),
];
