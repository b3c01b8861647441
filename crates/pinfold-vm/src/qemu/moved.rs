//! Machines that were booted once: their memory and devices are taken, and given to others.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_boundary::namespace::{FileServer, serve};
use pinfold_boundary::{Inside, LaunchError, ResourceLimits};
use pinfold_wire::{Ended, Report};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::arguments::{Beginning, arguments};
use super::monitor::Monitor;
use super::sandbox::{Doors, plan_of};
use super::spec::{PROGRAM, Spec};
use super::{Ends, Machine, Qemu, QemuError, accept};
use crate::template::{MOST_DEVICES, Snapshot, Template, new_memory};

/// How long the report of QEMU's end may take once its monitor has ended.
const LAST_REPORT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// What a machine that is not awake gets.
#[derive(Debug)]
pub(super) struct Asleep {
    /// Where QEMU connects its monitor.
    monitor: OwnedFd,
    devices: Vec<u8>,
}

impl Qemu {
    /// Returns the template of a machine.
    ///
    /// # Errors
    /// Returns the error of a file of which it is made.
    pub(crate) fn template(&self, spec: &Spec, directory: &Path) -> io::Result<Template> {
        // Another version is another file.
        let words = arguments(&self.root, spec, Beginning::Template);
        let program = self.root.join(PROGRAM);
        Template::of(directory, &words, &[&program, &spec.kernel, &spec.initramfs])
    }

    /// Boots a machine until it waits for its host, and takes its memory and devices. A tree is served to it in which
    /// nothing is. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if it does not come so far.
    pub(crate) fn snapshot(
        &self,
        spec: &Spec,
        server: fn(OwnedFd) -> Box<dyn FileServer>,
    ) -> Result<Snapshot, QemuError> {
        let memory = new_memory(spec.memory_bytes())?;
        let (machine, doors) = self.start(spec, Beginning::Template, duplicate(&memory)?)?;
        let _files = doors.files.map(|listener| serve_nothing(server(listener))).transpose()?;
        let devices = machine.connect_monitor(doors.monitor).and_then(|mut monitor| {
            monitor.run_until_open()?;
            monitor.take_devices(MOST_DEVICES)
        });
        match devices {
            Ok(devices) => Ok(Snapshot { memory, devices }),
            Err(error) => Err(machine.with_last_words(error)),
        }
    }

    /// Starts a machine that sleeps, with this memory. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if QEMU does not start.
    pub(crate) fn restore(&self, spec: &Spec, memory: OwnedFd) -> Result<Restoring, QemuError> {
        let (machine, doors) = self.start(spec, Beginning::Restored, memory)?;
        Ok(Restoring { machine, doors })
    }
}

/// Serves a tree in which nothing is.
fn serve_nothing(server: Box<dyn FileServer>) -> Result<Inside, LaunchError> {
    let plan = plan_of(Vec::new(), Vec::new(), ResourceLimits::default());
    let mut files = serve(plan, server, None)?;
    files.seal(Vec::new())?;
    match files.channel.receive::<Report>()?.map(|received| received.message) {
        Some(Report::Born) => Ok(files),
        _ => Err(LaunchError::Silent),
    }
}

pub(crate) fn duplicate(memory: &OwnedFd) -> Result<OwnedFd, QemuError> {
    Ok(rustix::io::fcntl_dupfd_cloexec(memory, 0)?)
}

/// A machine that has its memory, and not yet its devices.
#[derive(Debug)]
pub(crate) struct Restoring {
    machine: Machine,
    doors: Doors,
}

impl Restoring {
    /// Gives it what its devices will be when it wakes.
    ///
    /// # Errors
    /// Returns an error if QEMU has ended.
    pub(crate) fn with(self, devices: Vec<u8>) -> Result<(Machine, Ends), QemuError> {
        let Self { mut machine, mut doors } = self;
        let monitor = doors.monitor.take();
        machine.asleep = monitor.map(|monitor| Asleep { monitor, devices });
        machine.connect(doors)
    }
}

impl Machine {
    /// Has a machine that was restored run. One that boots runs already.
    ///
    /// # Errors
    /// Returns [`QemuError::State`] if QEMU refuses the state of the devices, and what else it says if it cannot.
    pub(crate) fn wake(&mut self) -> Result<(), QemuError> {
        let Some(Asleep { monitor, devices }) = self.asleep.take() else { return Ok(()) };
        // Nobody speaks to the monitor of a guest that runs.
        let woken = self
            .connect_monitor(Some(monitor))
            .and_then(|mut monitor| monitor.give_devices(&devices));
        woken.map_err(|error| {
            let error = match error {
                QemuError::Monitor(what) if self.has_given_up() => QemuError::State(what),
                error => error,
            };
            self.with_last_words(error)
        })
    }

    /// Returns whether QEMU has ended by itself with an error. What kills it, such as a want of memory, ends it by a signal.
    fn has_given_up(&self) -> bool {
        let mut ended = [PollFd::from_borrowed_fd(self.inside.ended(), PollFlags::IN)];
        let count =
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, Some(&LAST_REPORT)));
        if count != Ok(1) {
            return false;
        }
        while let Ok(Some(received)) = self.inside.channel.receive::<Report>() {
            if let Report::Ended(ended) = received.message {
                return matches!(ended, Ended::Code(1..));
            }
        }
        false
    }

    fn connect_monitor(&self, door: Option<OwnedFd>) -> Result<Monitor, QemuError> {
        let connection = door.map(|door| accept(&door, &self.inside)).transpose()?.flatten();
        match connection {
            Some(connection) => Monitor::open(connection),
            None => Err(QemuError::Monitor("it has ended".to_owned())),
        }
    }

    /// Ends it, and adds what QEMU and the guest said to an error of its monitor.
    fn with_last_words(&self, error: QemuError) -> QemuError {
        error.with_words(&self.say_last())
    }
}
