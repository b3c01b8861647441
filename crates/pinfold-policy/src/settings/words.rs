//! Settings that are one of some words.

/// A word that is not one of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{}\"; known: {}", .word.escape_debug(), .known.join(", "))]
pub struct UnknownWord {
    /// What the word was to name.
    pub what: &'static str,
    pub word: String,
    /// The words that are known.
    pub known: &'static [&'static str],
}

/// Makes an enum whose variants are words: in files, on the command line and in messages.
#[macro_export]
macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident, $what:literal:
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every word, in the order in which they are shown.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// Returns the word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::settings::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::settings::UnknownWord {
                        what: $what,
                        word: word.to_owned(),
                        known: Self::WORDS,
                    }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// How an identity's secrets are used.
    IdentityMode, "identity mode":
    /// Outside, for the sandbox.
    Brokered = "brokered",
    /// Inside.
    Inject = "inject",
}

words! {
    /// What an agent's tools may do with the diary of its identity. Later is more.
    MemoryGrant, "use of memory":
    /// Nothing: there are no such tools.
    None = "none",
    /// Search and read it.
    Read = "read",
    /// Also add entries and make packs.
    Write = "write",
}

words! {
    /// How far the sessions of a group are trusted. Later is further.
    GroupTrust, "trust":
    /// Tokens for GitHub stay outside: git has them for the repository's own remotes.
    Member = "member",
    /// Tokens for GitHub are of use for everything that they allow.
    Admin = "admin",
}

words! {
    /// Where a session runs (requirement 2.1).
    BoundaryName, "boundary":
    /// Namespaces, Landlock and seccomp, embedded.
    Namespace = "namespace",
    /// A container engine.
    Container = "container",
    /// A hardened transient unit under a dedicated user.
    Systemd = "systemd",
    /// A micro-VM.
    Vm = "vm",
    /// An existing cluster engine.
    Cluster = "cluster",
    /// A plug-in executable.
    External = "external",
    /// Landlock and a filter for system calls alone, for machines that refuse user namespaces.
    Landlock = "landlock",
}

words! {
    /// What executes the instructions of a machine.
    AcceleratorName, "accelerator":
    /// KVM where a guest comes up with it, else QEMU's translator.
    Auto = "auto",
    /// The processor itself, by the kernel's KVM.
    Kvm = "kvm",
    /// QEMU's translator.
    Tcg = "tcg",
}

words! {
    /// What runs a container (requirement 2.3).
    EngineName, "engine":
    /// Docker, through its daemon.
    Docker = "docker",
    /// Podman, which needs no daemon.
    Podman = "podman",
    /// Apple's `container`, on macOS.
    Apple = "apple",
    /// The OCI runtime runc.
    Runc = "runc",
    /// The OCI runtime crun.
    Crun = "crun",
    /// The OCI runtime youki.
    Youki = "youki",
    /// gVisor's OCI runtime.
    Runsc = "runsc",
}

impl BoundaryName {
    /// The boundaries that this program has, for help and errors. What runs a cluster is another program.
    pub const AVAILABLE: &[&str] =
        &["namespace", "container", "vm", "systemd", "landlock", "external"];

    /// Returns how strong the wall is, where that can be compared: 0 shares the host's kernel and its
    /// processes and names, 1 its kernel, 2 neither.
    pub(super) fn strength(self) -> Option<u8> {
        match self {
            Self::Landlock => Some(0),
            Self::Namespace | Self::Container | Self::Systemd => Some(1),
            Self::Vm => Some(2),
            Self::Cluster | Self::External => None,
        }
    }

    /// Returns whether this wall is at least as strong as another.
    #[must_use]
    pub fn stands_for(self, asked: Self) -> bool {
        self == asked || asked.strength().is_some_and(|asked| self.strength() >= Some(asked))
    }
}

words! {
    /// How the workspace enters (requirement 1.3).
    WorkspaceMode, "workspace mode":
    /// The checkout itself.
    SharedMount = "shared_mount",
    /// A worktree of its own, for a branch.
    DedicatedWorktree = "dedicated_worktree",
    /// An empty directory, gone with the session.
    ScratchMount = "scratch_mount",
    /// A copy-on-write view of the checkout.
    Overlay = "overlay",
}

words! {
    /// What becomes of a view's changes when the session ends.
    ApplyMode, "apply mode":
    /// Harmless changes are applied if the command succeeded; the rest waits.
    Auto = "auto",
    /// A question at the terminal decides; without a terminal everything waits.
    Ask = "ask",
    /// Everything waits for `pinfold apply`.
    Never = "never",
}

words! {
    /// What a shadowed path is inside.
    ShadowMode, "shadow mode":
    /// A private, writable, empty directory, gone with the session.
    Tmpfs = "tmpfs",
    /// Nothing that can be written to.
    Deny = "deny",
}

words! {
    /// What happens where the kernel lacks Landlock. Later is stricter.
    LandlockMode, "landlock mode":
    /// Its absence is recorded; the mounts carry the verdicts.
    BestEffort = "best-effort",
    /// Its absence is an error.
    Required = "required",
}

words! {
    /// How long a budget lasts.
    Window, "window":
    /// One session.
    Session = "session",
    /// A day, which begins at 00:00 UTC.
    Day = "day",
    /// A month, which begins on its first day at 00:00 UTC.
    Month = "month",
}

words! {
    /// What becomes of an agent's own state. Later keeps more.
    AgentState, "state":
    /// It is gone with the session.
    Ephemeral = "ephemeral",
    /// It is kept for the next session in the same workspace.
    Repository = "repository",
    /// It is kept for the next session of the agent, wherever that is.
    Persistent = "persistent",
}
