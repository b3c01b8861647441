//! Machines that were booted once: their memory and devices are taken, and given to others.

use pinfold_boundary::namespace::{FileServer, serve};
use pinfold_boundary::{Group, Inside, LaunchError, ResourceLimits};
use pinfold_wire::{Ended, Report};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::arguments::Beginning;
use super::monitor::Monitor;
use super::sandbox::plan_of;
use super::{Qemu, QemuError, QemuMachine, accept};
use crate::machine::{Machine as _, Server, Snapshot};
use crate::spec::Spec;
use crate::template::{MOST_DEVICES, new_memory};

/// How long the report of QEMU's end may take once its monitor has ended.
const LAST_REPORT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

impl Qemu {
    /// Boots a machine until it waits for its host, and takes its memory and devices.
    ///
    /// # Errors
    /// Returns an error if it does not come so far.
    pub(super) fn take(&self, spec: &Spec, server: Server) -> Result<Snapshot, QemuError> {
        let memory = new_memory(spec.memory_bytes())?;
        let mut machine =
            self.start(spec, Beginning::Template, rustix::io::fcntl_dupfd_cloexec(&memory, 0)?)?;
        let _files = machine
            .files()
            .map(|listener| serve_nothing(server(listener), machine.inside.group()))
            .transpose()?;
        let devices = machine.connect_monitor().and_then(|mut monitor| {
            monitor.run_until_open(self.kvm.as_ref().map(|kvm| kvm.patience))?;
            monitor.take_devices(MOST_DEVICES)
        });
        match devices {
            Ok(devices) => Ok(Snapshot { memory, devices }),
            Err(error) => Err(machine.with_last_words(error)),
        }
    }
}

/// Serves a tree in which nothing is.
fn serve_nothing(
    server: Box<dyn FileServer>,
    group: Option<&Group>,
) -> Result<Inside, LaunchError> {
    let plan = plan_of(Vec::new(), Vec::new(), ResourceLimits::default());
    let mut files = serve(plan, server, None, group)?;
    files.seal(Vec::new())?;
    match files.channel.receive::<Report>()?.map(|received| received.message) {
        Some(Report::Born) => Ok(files),
        _ => Err(LaunchError::Silent),
    }
}

impl QemuMachine {
    /// Has a machine that was restored run.
    ///
    /// # Errors
    /// Returns [`QemuError::State`] if QEMU refuses the state of the devices, and what else it says if it cannot.
    pub(super) fn run_with(&mut self, devices: &[u8]) -> Result<(), QemuError> {
        // Nobody speaks to the monitor of a guest that runs.
        let woken = self.connect_monitor().and_then(|mut monitor| monitor.give_devices(devices));
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

    fn connect_monitor(&mut self) -> Result<Monitor, QemuError> {
        let door = self.doors.monitor.take();
        let connection = door.map(|door| accept(&door, &self.inside)).transpose()?.flatten();
        match connection {
            Some(connection) => Monitor::open(connection),
            None => Err(QemuError::Monitor("it has ended".to_owned())),
        }
    }

    /// Ends it, and adds what QEMU and the guest said to an error of its monitor.
    fn with_last_words(&self, error: QemuError) -> QemuError {
        error.with_words(&self.end())
    }
}
