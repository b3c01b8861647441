//! QEMU, as a process that sees nothing of the user's.
//!
//! It runs in a sandbox of the boundary `namespace`: no network, a process table of its own, programs and libraries
//! of the host to be read, the kernel and the initramfs. In there it has QEMU's own filter of system calls as well. It
//! reaches the byte channel and its file server, a monitor until a restored guest runs, and pipes for the console and for
//! what it says itself. The guest's memory is its standard input.

mod arguments;
mod error;
mod monitor;
mod moved;
mod said;
mod sandbox;
mod spec;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_boundary::namespace::explain;
use pinfold_boundary::{CpuShare, Inside, ResourceLimits};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::template::new_memory;

use arguments::{Beginning, arguments};
use error::version;
use moved::Asleep;
pub(crate) use moved::duplicate;
use said::Said;
pub(crate) use said::one_line;
use sandbox::{Doors, Files};
use spec::{MIB, PROGRAM, TRANSLATED};

pub use error::{QemuError, Version};
pub use spec::Spec;

/// QEMU has a thread for each processor of the guest, and some for itself.
const TASKS: u64 = 128;
/// Bytes that QEMU uses besides the guest's memory and what it has translated.
const OVERHEAD: u64 = 256 << 20;
/// How long QEMU may take to say its version, or to connect the channel, which it does before it loads the kernel.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// The host's ends of what connects a machine.
#[derive(Debug)]
pub struct Ends {
    /// The byte channel, which ends when the machine does.
    pub channel: OwnedFd,
    /// Where QEMU connects to the file server, before the guest starts, if there is one.
    pub files: Option<OwnedFd>,
}

/// QEMU's program.
#[derive(Debug, Clone)]
pub struct Qemu {
    root: PathBuf,
}

impl Qemu {
    /// Finds QEMU below a directory: `/`, or one into which its packages were unpacked.
    ///
    /// # Errors
    /// Returns an error if it is missing, or the host is not x86-64.
    pub fn find(root: &Path) -> Result<Self, QemuError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(QemuError::Architecture(std::env::consts::ARCH));
        }
        let program = root.join(PROGRAM);
        if program.exists() {
            Ok(Self { root: root.into() })
        } else {
            Err(QemuError::Missing(program))
        }
    }

    /// Asks it for its version, in a sandbox. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if it is too old.
    pub fn version(&self) -> Result<Version, QemuError> {
        let said = ask(&self.root, &["--version"])?;
        match version(&said) {
            None => Err(QemuError::NoVersion { program: self.root.join(PROGRAM), said }),
            Some(found) if !found.is_new_enough() => Err(QemuError::TooOld { found }),
            Some(version) => Ok(version),
        }
    }

    /// Asks whether it is new enough, and has the device by which a guest gets its tree. The calling process must have
    /// one thread.
    ///
    /// # Errors
    /// Returns an error if it is not or has not.
    pub fn has_file_systems(&self) -> Result<(), QemuError> {
        let found = self.version()?;
        let said = ask(&self.root, &["-device", "vhost-user-fs-pci,help"])?;
        if said.contains("tag=") { Ok(()) } else { Err(QemuError::NoFileSystems { found }) }
    }

    /// Boots a machine whose processor is emulated. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if QEMU does not start, with what it says. What it says of the kernel comes later: the channel ends
    /// then, and [`Machine::last_words`] returns it.
    pub fn boot(&self, spec: &Spec) -> Result<(Machine, Ends), QemuError> {
        let memory = new_memory(spec.memory_bytes())?;
        let (machine, doors) = self.start(spec, Beginning::Boot, memory)?;
        machine.connect(doors)
    }

    fn start(
        &self,
        spec: &Spec,
        beginning: Beginning,
        memory: OwnedFd,
    ) -> Result<(Machine, Doors), QemuError> {
        let files = Files {
            kernel: Some(&spec.kernel),
            initramfs: Some(&spec.initramfs),
            has_channel: beginning.has_channel(),
            has_tree: spec.has_tree,
            has_monitor: beginning.has_monitor(),
        };
        let all = spec.memory_bytes() + u64::from(TRANSLATED) * MIB + OVERHEAD;
        let limits = ResourceLimits {
            memory: Some(all),
            pids: Some(TASKS + u64::from(spec.cpus)),
            // Whole processors bound it themselves.
            cpus: spec
                .share
                .map(|share| CpuShare { required: share.required && !spec.is_whole(), ..share }),
            ..ResourceLimits::default()
        };
        let argv = arguments(&self.root, spec, beginning);
        let (inside, ends) = sandbox::start(&self.root, &files, limits, argv, memory)?;
        let machine = Machine { inside, console: ends.output, errors: ends.errors, asleep: None };
        Ok((machine, ends.doors))
    }
}

/// Runs QEMU for something that it says. It ends at the latest when patience does.
fn ask(root: &Path, words: &[&str]) -> Result<String, QemuError> {
    let argv = [root.join(PROGRAM).into()].into_iter().chain(words.iter().map(OsString::from));
    let limits = ResourceLimits { memory: Some(OVERHEAD), pids: Some(TASKS), ..Default::default() };
    let input = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (inside, ends) = sandbox::start(root, &Files::default(), limits, argv.collect(), input)?;
    let mut ended = [PollFd::from_borrowed_fd(inside.ended(), PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, Some(&PATIENCE)))?;
    inside.kill();
    let said = format!("{}{}", ends.output.until_end(), ends.errors.until_end());
    // A program that could not be executed has said nothing.
    if said.is_empty() { Err(explain(inside.last_words()).into()) } else { Ok(said) }
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

/// A machine that runs. Dropping it ends it, with everything of it.
#[derive(Debug)]
pub struct Machine {
    inside: Inside,
    console: Said,
    errors: Said,
    asleep: Option<Asleep>,
}

impl Machine {
    /// Waits until QEMU has connected the channel.
    fn connect(self, doors: Doors) -> Result<(Self, Ends), QemuError> {
        let channel = doors.channel.map(|door| accept(&door, &self.inside)).transpose()?.flatten();
        match channel {
            Some(channel) => Ok((self, Ends { channel, files: doors.files })),
            None => Err(QemuError::Refused(self.say_last())),
        }
    }

    /// Ends the machine, and returns the last lines of what QEMU and the guest's console said, without control
    /// characters.
    #[must_use]
    pub fn last_words(self) -> String {
        self.say_last()
    }

    /// Returns what holds QEMU.
    pub(crate) fn inside(&self) -> &Inside {
        &self.inside
    }

    pub(crate) fn say_last(&self) -> String {
        self.inside.kill();
        [self.errors.until_end(), self.console.until_end()].concat()
    }
}

#[cfg(test)]
mod tests;
