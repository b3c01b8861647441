//! What a sandbox consists of. No word here belongs to one boundary alone.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::{Attributes, StreamEnd, Streams, Window};

mod codec;

/// Everything that a boundary needs to make a sandbox. What is to run in it is said later
/// ([`crate::Inside::command`]).
#[derive(Debug)]
pub struct LaunchPlan {
    /// The file tree, parents before children. What is not here does not exist inside.
    pub tree: Vec<Entry>,
    /// Who the sandbox is.
    pub identity: Identity,
    /// The host name inside.
    pub hostname: String,
    /// The doors, in the sandbox's own network.
    pub doors: Vec<Door>,
    /// What the sandbox may use up.
    pub limits: ResourceLimits,
    /// How much of the second wall is needed.
    pub landlock: Landlock,
    /// Whether the sandbox may make namespaces of its own. Landlock has no rules for files then.
    pub nested: bool,
    /// Whether nobody outside can execute what it writes.
    pub leaves_nothing: bool,
}

/// Something at a path inside.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where, inside.
    pub path: InsidePath,
    pub place: Place,
}

/// What can lie at a path inside.
#[derive(Debug, Clone)]
pub enum Place {
    /// A file or directory of the host, read-only.
    ReadOnly(HostPath),
    /// The same of the host's system, which nobody has named: what is closed to others stays closed.
    System(HostPath),
    /// A file or directory of the host, writable.
    Writable(HostPath),
    /// A copy-on-write view of directories of the host put over each other, which themselves stay as
    /// they are.
    Overlay {
        /// The directories, the uppermost first.
        lower: Vec<Lower>,
        /// Where changes land.
        changes: Changes,
    },
    /// A private, writable, empty directory, gone with the session.
    Private,
    /// A generated file. `writable` ones belong to the sandbox.
    File {
        /// What it holds.
        content: Vec<u8>,
        /// Its permission bits.
        mode: u32,
        /// Whether a file that is there already stays as it is.
        keep: bool,
    },
    /// A symbolic link.
    Symlink(OsString),
}

/// A directory of the host in a view, which shows what changes have not covered. No symbolic link may
/// be on its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lower {
    /// Its files belong to the sandbox's user, whichever owner they have outside.
    Owned(HostPath),
    /// Its files keep their owner, so the sandbox may do with them what everybody may. The kernel
    /// refuses to change one with `EOVERFLOW`; to put another in its place is a matter of the
    /// directory.
    Foreign(HostPath),
}

impl Lower {
    /// Returns where it is on the host.
    #[must_use]
    pub fn host(&self) -> &HostPath {
        match self {
            Self::Owned(host) | Self::Foreign(host) => host,
        }
    }

    /// Returns whether the sandbox's user owns what is in it.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        matches!(self, Self::Owned(_))
    }
}

/// Where changes to a view land.
#[derive(Debug, Clone)]
pub enum Changes {
    /// In this directory, which holds `upper`, where they are, and `work`, an empty one for the
    /// kernel; on a file system with extended attributes.
    Kept(HostPath),
    /// In memory, gone with the session.
    Private,
}

/// A command with its surroundings.
#[derive(Debug)]
pub struct Program {
    /// The program and its arguments. A name without a slash is looked for along `PATH` inside.
    pub argv: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory inside.
    pub cwd: InsidePath,
    /// Signals that it ignores from the beginning: bit n - 1 for signal n.
    pub ignored: u64,
}

impl Program {
    /// Returns it as it crosses a channel.
    #[must_use]
    pub fn to_wire(&self) -> pinfold_wire::Program {
        let bytes = |text: &OsString| text.as_bytes().to_vec();
        let variable = |(name, value): &(OsString, OsString)| {
            [name.as_bytes(), b"=", value.as_bytes()].concat()
        };
        pinfold_wire::Program {
            argv: self.argv.iter().map(bytes).collect(),
            env: self.env.iter().map(variable).collect(),
            cwd: self.cwd.as_path().as_os_str().as_bytes().to_vec(),
            ignored: self.ignored,
        }
    }
}

/// The user inside.
#[derive(Debug, Clone)]
pub struct Identity {
    /// User id inside.
    pub uid: u32,
    /// Group id inside.
    pub gid: u32,
    /// The home directory.
    pub home: InsidePath,
}

/// A socket that init opens inside and that is served outside.
#[derive(Debug, Clone)]
pub enum Door {
    /// A listening Unix socket at this path, in a directory that nothing inside can write to.
    Unix(InsidePath),
    /// A TCP listener at this address of the sandbox's own network.
    Listener(SocketAddr),
    /// A UDP socket for what is sent to this port of any IPv4 address.
    Datagrams(u16),
    /// TCP listeners on this port of each loopback address, to which every connection to another
    /// address is handed over where the boundary can. They come last: one, or two with IPv6.
    Outward(u16),
}

/// The command's standard streams.
#[derive(Debug)]
pub struct Stdio {
    /// Input, output and error output.
    pub ends: [StdioEnd; 3],
    /// How large the terminal is, if one of the ends is a terminal.
    pub window: Option<Window>,
    /// What the terminal is set to at first; else to what is usual.
    pub attributes: Option<Attributes>,
    /// What the command has open besides them, as number [`pinfold_wire::FURTHER`].
    pub further: Option<OwnedFd>,
}

impl Stdio {
    /// Streams without a terminal.
    #[must_use]
    pub fn plain(ends: [StdioEnd; 3]) -> Self {
        Self { ends, window: None, attributes: None, further: None }
    }

    /// Returns them as they cross a channel, and the descriptors that go along.
    #[must_use]
    pub fn to_wire(&self) -> (Streams, Vec<BorrowedFd<'_>>) {
        let mut descriptors = Vec::with_capacity(4);
        let ends = self.ends.each_ref().map(|end| match end {
            StdioEnd::Terminal => StreamEnd::Terminal,
            StdioEnd::Same(earlier) => StreamEnd::Same(*earlier),
            StdioEnd::Descriptor(fd) => {
                descriptors.push(fd.as_fd());
                StreamEnd::Descriptor
            }
        });
        descriptors.extend(self.further.as_ref().map(OwnedFd::as_fd));
        let (window, attributes) = (self.window, self.attributes);
        let has_further = self.further.is_some();
        (Streams { ends, window, attributes, is_relayed: false, has_further }, descriptors)
    }
}

/// One standard stream.
#[derive(Debug)]
pub enum StdioEnd {
    /// The sandbox's own terminal.
    Terminal,
    /// This descriptor.
    Descriptor(OwnedFd),
    /// The same as an earlier stream, by its number.
    Same(u8),
}

/// CPU time for each wall-clock time.
#[derive(Debug, Clone, Copy)]
pub struct CpuShare {
    /// Thousandths of a CPU.
    pub thousandths: u32,
    /// Whether to refuse where it cannot be enforced; else it is left out.
    pub required: bool,
}

/// What the sandbox may use up; `None` means that nothing is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceLimits {
    /// Memory of the whole tree in bytes.
    pub memory: Option<u64>,
    /// CPU time.
    pub cpus: Option<CpuShare>,
    /// Tasks (processes and threads).
    pub pids: Option<u64>,
    /// Bytes in the private directories.
    pub disk: Option<u64>,
    /// Bytes of private changes to views.
    pub changes: Option<u64>,
    /// Open files of one process.
    pub files: Option<u64>,
}

/// How much of the Landlock wall a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landlock {
    /// Refuse to start without it.
    Required,
    /// Use what the kernel has; its absence is reported.
    BestEffort,
    /// Use what the kernel has of this ABI, as an older kernel would: the verdicts are tested at
    /// each.
    #[doc(hidden)]
    AtMost(u32),
}
