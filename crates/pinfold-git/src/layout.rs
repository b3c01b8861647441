//! Names that git gives to things, as far as several modules need them.

/// Where the private git directories appear in the sandbox.
pub const PRIVATE: &str = "/run/pinfold/git";

/// Where the objects of the host's git directories appear in the sandbox.
pub const OBJECTS: &str = "/run/pinfold/objects";

/// Where private copies of protected directories appear in the sandbox.
pub const PROTECTED: &str = "/run/pinfold/git/protected";

/// The setting that marks repositories that sessions made.
pub const REBUILT: &str = "pinfold.rebuilt";

/// The files that git reads its configuration from.
pub const CONFIGS: [&str; 2] = ["config", "config.worktree"];
