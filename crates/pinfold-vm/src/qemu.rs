//! QEMU, as a process that sees nothing of the user's.
//!
//! It runs in a sandbox of the boundary `namespace`: no network, a process table of its own, programs and libraries
//! of the host to be read, the kernel and the initramfs. In there it has QEMU's own filter of system calls as well. It
//! reaches the byte channel and its file server, a monitor until a restored guest runs, and pipes for the console and for
//! what it says itself. The guest's memory is its standard input. With KVM it has the device open, by a descriptor.

mod arguments;
mod error;
mod monitor;
mod moved;
mod sandbox;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_boundary::namespace::{explain, memory_of_a_server};
use pinfold_boundary::{CpuShare, Inside, ResourceLimits};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::architecture::Architecture;
use crate::kvm::{self, Kvm};
use crate::machine::{Machine, MachineError, Origin, Server, Snapshot};
use crate::said::Said;
use crate::spec::{MIB, Spec};
use crate::template::new_memory;

use arguments::{Beginning, arguments};
use error::version;
use sandbox::{Doors, Files, Given};

pub use error::{QemuError, Version};

/// Code that QEMU has translated, in MiB, where it emulates the processor.
const TRANSLATED: u32 = 128;
/// QEMU has a thread for each processor of the guest, and some for itself, as has the file server.
const TASKS: u64 = 160;
/// Bytes that QEMU uses besides the guest's memory and what it has translated.
const OVERHEAD: u64 = 256 << 20;
/// How long QEMU may take to say its version, or to connect the channel, which it does before it loads the kernel.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// QEMU's program for machines with one kind of processor.
#[derive(Debug, Clone)]
pub struct Qemu {
    root: PathBuf,
    architecture: &'static Architecture,
    kvm: Option<Accelerated>,
}

/// What a machine whose instructions the processor executes needs.
#[derive(Debug, Clone)]
struct Accelerated {
    device: Kvm,
    /// How long a guest may take to come up.
    patience: Duration,
}

impl Qemu {
    /// Finds QEMU below a directory: `/`, or one into which its packages were unpacked.
    ///
    /// # Errors
    /// Returns an error if it is missing.
    pub fn find(root: &Path, architecture: &'static Architecture) -> Result<Self, QemuError> {
        let found = Self { root: root.into(), architecture, kvm: None };
        let program = found.program();
        if program.exists() { Ok(found) } else { Err(QemuError::Missing { program, architecture }) }
    }

    /// Returns the same with KVM, by which a guest has to come up in so long.
    #[must_use]
    pub fn with_kvm(&self, device: Kvm, patience: Duration) -> Self {
        Self { kvm: Some(Accelerated { device, patience }), ..self.clone() }
    }

    /// Returns whether the processor itself executes instructions.
    pub(crate) fn has_kvm(&self) -> bool {
        self.kvm.is_some()
    }

    fn program(&self) -> PathBuf {
        self.root.join(self.architecture.program)
    }

    /// Asks it for its version, in a sandbox. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if it is too old.
    pub fn version(&self) -> Result<Version, QemuError> {
        let (said, architecture) = (self.ask(&["--version"])?, self.architecture);
        match version(&said) {
            None => Err(QemuError::NoVersion { program: self.program(), said }),
            Some(found) if !found.is_new_enough() => Err(QemuError::TooOld { found, architecture }),
            Some(version) => Ok(version),
        }
    }

    /// Asks whether it is new enough, and has the device by which a guest gets its tree. The calling process must have
    /// one thread.
    ///
    /// # Errors
    /// Returns an error if it is not or has not.
    pub fn has_file_systems(&self) -> Result<(), QemuError> {
        let (found, architecture) = (self.version()?, self.architecture);
        let said = self.ask(&["-device", "vhost-user-fs-pci,help"])?;
        if said.contains("tag=") {
            Ok(())
        } else {
            Err(QemuError::NoFileSystems { found, architecture })
        }
    }

    /// Runs it for something that it says. It ends at the latest when patience does.
    fn ask(&self, words: &[&str]) -> Result<String, QemuError> {
        let argv = [self.program().into()].into_iter().chain(words.iter().map(OsString::from));
        let limits =
            ResourceLimits { memory: Some(OVERHEAD), pids: Some(TASKS), ..Default::default() };
        let input = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let files = Files::default();
        let given = Given { input, kvm: None };
        let (inside, ends) = sandbox::start(&self.root, &files, limits, argv.collect(), given)?;
        let mut ended = [PollFd::from_borrowed_fd(inside.ended(), PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, Some(&PATIENCE)))?;
        inside.kill();
        let said = format!("{}{}", ends.output.until_end(), ends.errors.until_end());
        // A program that could not be executed has said nothing.
        if said.is_empty() { Err(explain(inside.last_words()).into()) } else { Ok(said) }
    }

    fn start(
        &self,
        spec: &Spec,
        beginning: Beginning,
        memory: OwnedFd,
    ) -> Result<QemuMachine, QemuError> {
        let files = Files {
            kernel: Some(&spec.kernel),
            initramfs: Some(&spec.initramfs),
            has_channel: beginning.has_channel(),
            has_tree: spec.has_tree,
            has_monitor: beginning.has_monitor(),
        };
        let translated = if self.kvm.is_some() { 0 } else { u64::from(TRANSLATED) * MIB };
        let own = spec.memory_bytes() + translated + OVERHEAD;
        let served = if spec.has_tree { memory_of_a_server() + spec.changes } else { 0 };
        let limits = ResourceLimits {
            memory: Some(own + served),
            pids: Some(TASKS + u64::from(spec.cpus)),
            // Whole processors bound QEMU themselves.
            cpus: spec
                .share
                .map(|share| CpuShare { required: share.required && !spec.is_whole(), ..share }),
            ..ResourceLimits::default()
        };
        let argv = arguments(self, spec, beginning);
        let kvm = self.kvm.as_ref().map(|kvm| kvm.device.device()).transpose()?;
        let given = Given { input: memory, kvm };
        let (inside, ends) = sandbox::start(&self.root, &files, limits, argv, given)?;
        let doors = ends.doors;
        Ok(QemuMachine { inside, console: ends.output, errors: ends.errors, doors })
    }
}

/// Waits for QEMU to connect. Returns `None` if it has ended instead, or takes too long.
fn accept(door: &OwnedFd, inside: &Inside) -> Result<Option<OwnedFd>, Errno> {
    let ended = inside.ended();
    let mut ready = [PollFd::new(door, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&PATIENCE)))?;
    if !ready[0].revents().contains(PollFlags::IN) {
        return Ok(None);
    }
    rustix::net::accept_with(door, SocketFlags::CLOEXEC).map(Some)
}

/// A machine that QEMU runs, with an emulated processor or KVM.
#[derive(Debug)]
pub struct QemuMachine {
    inside: Inside,
    console: Said,
    errors: Said,
    doors: Doors,
}

impl Machine for QemuMachine {
    type Program = Qemu;

    fn origin(qemu: &Qemu, spec: &Spec) -> Origin {
        // Another version is another file.
        let files = [qemu.program(), spec.kernel.clone(), spec.initramfs.clone()];
        let mut words = arguments(qemu, spec, Beginning::Template);
        if qemu.kvm.is_some() {
            words.extend(kvm::host());
        }
        Origin { words, files: files.into() }
    }

    fn boot(qemu: &Qemu, spec: &Spec) -> Result<Self, MachineError> {
        qemu.version()?;
        let memory = new_memory(spec.memory_bytes()).map_err(QemuError::from)?;
        Ok(qemu.start(spec, Beginning::Boot, memory)?)
    }

    fn snapshot(qemu: &Qemu, spec: &Spec, server: Server) -> Result<Snapshot, MachineError> {
        qemu.version()?;
        Ok(qemu.take(spec, server)?)
    }

    fn restore(qemu: &Qemu, spec: &Spec, memory: OwnedFd) -> Result<Self, MachineError> {
        Ok(qemu.start(spec, Beginning::Restored, memory)?)
    }

    fn wake(&mut self, devices: &[u8]) -> Result<(), MachineError> {
        Ok(self.run_with(devices)?)
    }

    fn channel(&mut self) -> Result<OwnedFd, MachineError> {
        let door = self.doors.channel.take();
        match door.map(|door| accept(&door, &self.inside)).transpose().map_err(QemuError::from)? {
            Some(Some(channel)) => Ok(channel),
            _ => Err(QemuError::Refused(self.end()).into()),
        }
    }

    fn files(&mut self) -> Option<OwnedFd> {
        self.doors.files.take()
    }

    fn process(&self) -> &Inside {
        &self.inside
    }

    fn end(&self) -> String {
        self.inside.kill();
        [self.errors.until_end(), self.console.until_end()].concat()
    }
}

#[cfg(test)]
mod tests;
