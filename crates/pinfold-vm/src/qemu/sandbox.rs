//! The sandbox that QEMU runs in.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_boundary::namespace::{Namespace, explain, inside_ids};
use pinfold_boundary::{
    Door, Entry, Identity, Inside, Landlock, LaunchPlan, Place, Program, ResourceLimits, Stdio,
    StdioEnd,
};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::Order;
use rustix::pipe::PipeFlags;

use super::error::QemuError;
use crate::architecture::Architecture;
use crate::said::Said;

/// Where the kernel and the initramfs lie for QEMU, and where it connects the guest's port.
pub(super) const CHANNEL: &str = "/run/pinfold/channel";
/// Where it connects to the file server.
pub(super) const FILES: &str = "/run/pinfold/files";
/// Where it connects its monitor.
pub(super) const MONITOR: &str = "/run/pinfold/monitor";
/// The memory of the guest: its standard input, since a file in memory has no path.
pub(super) const MEMORY: &str = "/proc/self/fd/0";
pub(super) const KERNEL: &str = "/run/pinfold/kernel";
pub(super) const INITRAMFS: &str = "/run/pinfold/initramfs";

/// Where systems have programs and libraries (hier(7)), Nix and Guix theirs, and what ld.so(8) reads.
const SYSTEM: [&str; 9] = [
    "/bin",
    "/etc/ld.so.cache",
    "/gnu",
    "/lib",
    "/lib64",
    "/nix",
    "/sbin",
    "/usr",
    "/etc/alternatives",
];

/// What a machine reads.
#[derive(Debug, Default)]
pub(super) struct Files<'a> {
    pub(super) kernel: Option<&'a Path>,
    pub(super) initramfs: Option<&'a Path>,
    pub(super) has_channel: bool,
    pub(super) has_tree: bool,
    pub(super) has_monitor: bool,
}

impl Files<'_> {
    /// Returns where it connects to the host.
    fn doors(&self) -> Vec<Door> {
        let all =
            [(self.has_channel, CHANNEL), (self.has_tree, FILES), (self.has_monitor, MONITOR)];
        let doors = all.into_iter().filter(|(is_there, _)| *is_there);
        doors.map(|(_, path)| Door::Unix(InsidePath::from_static(path))).collect()
    }
}

/// Sockets at which QEMU connects.
#[derive(Debug, Default)]
pub(super) struct Doors {
    pub(super) channel: Option<OwnedFd>,
    pub(super) files: Option<OwnedFd>,
    pub(super) monitor: Option<OwnedFd>,
}

impl Doors {
    /// Returns those of a machine, in the order in which they were asked for.
    fn of(files: &Files<'_>, sockets: Vec<OwnedFd>) -> Self {
        let mut sockets = sockets.into_iter();
        let mut next = |is_there: bool| is_there.then(|| sockets.next()).flatten();
        Self {
            channel: next(files.has_channel),
            files: next(files.has_tree),
            monitor: next(files.has_monitor),
        }
    }
}

/// Where packages that were unpacked below a directory have libraries and firmware. Those of the system itself are
/// found by themselves.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    libraries: Vec<PathBuf>,
    modules: Option<PathBuf>,
    pub(super) firmware: Vec<PathBuf>,
}

pub(super) fn libraries_below(root: &Path) -> Unpacked {
    if root == Path::new("/") {
        return Unpacked::default();
    }
    let own = Architecture::HOST.libraries;
    let libraries = [root.join("usr/lib").join(own), root.join("lib").join(own)];
    Unpacked {
        modules: Some(libraries[0].join("qemu")),
        libraries: libraries.into(),
        firmware: vec![root.join("usr/share/qemu"), root.join("usr/share/seabios")],
    }
}

/// What a program has for its standard streams.
pub(super) struct Ends {
    pub(super) doors: Doors,
    pub(super) output: Said,
    pub(super) errors: Said,
}

/// What a program is started with open.
pub(super) struct Given {
    pub(super) input: OwnedFd,
    /// KVM's device.
    pub(super) kvm: Option<OwnedFd>,
}

/// Starts a program of QEMU's in a sandbox of its own.
///
/// Its output is a pipe and no socket: a console writes single bytes, of which a socket that nobody reads takes some
/// hundreds, and a guest that panics waits for the rest.
///
/// # Errors
/// Returns why the sandbox did not start.
pub(super) fn start(
    root: &Path,
    files: &Files<'_>,
    limits: ResourceLimits,
    argv: Vec<OsString>,
    given: Given,
) -> Result<(Inside, Ends), QemuError> {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
    let ((output, console), (errors, messages)) = (pipe()?, pipe()?);
    let plan = plan_of(tree(root, files)?, files.doors(), limits);
    let has_doors = !plan.doors.is_empty();
    let unpacked = libraries_below(root);
    let mut env = Vec::new();
    if let Some(modules) = unpacked.modules {
        let libraries = unpacked
            .libraries
            .iter()
            .map(|path| path.as_os_str())
            .collect::<Vec<_>>()
            .join(":".as_ref());
        env.push(("LD_LIBRARY_PATH".into(), libraries));
        env.push(("QEMU_MODULE_DIR".into(), modules.into()));
    }
    let program = Program { argv, env, cwd: InsidePath::root(), ignored: 0 };
    let Given { input, kvm } = given;
    let ends = [input, console, messages].map(StdioEnd::Descriptor);
    let stdio = Stdio { further: kvm, ..Stdio::plain(ends) };
    let mut inside = Namespace.start(plan)?;
    let doors = if has_doors { inside.doors().map_err(explain)?.sockets } else { Vec::new() };
    inside.command(&program, stdio).map_err(explain)?;
    inside.seal(Vec::new()).map_err(explain)?;
    if inside.channel.send(&Order::Start(Vec::new()), &[]).is_err() {
        return Err(explain(inside.last_words()).into());
    }
    let doors = Doors::of(files, doors);
    Ok((inside, Ends { doors, output: output.into(), errors: errors.into() }))
}

fn tree(root: &Path, files: &Files<'_>) -> Result<Vec<Entry>, QemuError> {
    let mut tree = Vec::new();
    for path in SYSTEM.map(Path::new) {
        let place = match fs::read_link(path) {
            Ok(target) => Place::Symlink(target.into()),
            Err(_) if path.exists() => Place::ReadOnly(HostPath::new(path)?),
            Err(_) => continue,
        };
        tree.push(Entry { path: InsidePath::new(path)?, place });
    }
    if root != Path::new("/") {
        let place = Place::ReadOnly(HostPath::new(root)?);
        tree.push(Entry { path: InsidePath::new(root)?, place });
    }
    for (path, file) in [(KERNEL, files.kernel), (INITRAMFS, files.initramfs)] {
        if let Some(file) = file {
            let place = Place::ReadOnly(HostPath::new(file)?);
            tree.push(Entry { path: InsidePath::from_static(path), place });
        }
    }
    Ok(tree)
}

/// Returns a plan for something that sees no more than this.
pub(super) fn plan_of(tree: Vec<Entry>, doors: Vec<Door>, limits: ResourceLimits) -> LaunchPlan {
    let (uid, gid) = inside_ids();
    LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::root() },
        hostname: "machine".to_owned(),
        doors,
        limits,
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    }
}
