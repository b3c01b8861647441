//! What init passes out elsewhere, where a kernel of its own lets no descriptor out.
//!
//! For gVisor and for machines, a process that stays behind makes a terminal outside for each inside ([`line`]). gVisor's
//! sockets are those of the network namespace in which it was started, so that process also makes those by which ports
//! inside are reached. For machines, another one connects to doors ([`connections`]).

pub(crate) mod connections;
mod line;

use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::{Channel, Order, Report};
use rustix::io::Errno;
use rustix::process::WaitOptions;

use crate::namespace::{close_all_others_for, new_filesystem, null};
use crate::sys::{self, Side};
use line::Line;

/// What is asked for, and where it is reported.
struct Outlets<'a> {
    orders: &'a Channel,
    reports: &'a Channel,
    /// Terminals of this session's alone, at no path.
    terminals: OwnedFd,
    /// What stands for standard streams: its root may become one without it at any time.
    null: OwnedFd,
}

/// Leaves a process behind that answers each order of one channel on the other. Nothing inside
/// reaches it, and it ends with the process that the caller is about to become, the first of its
/// namespace.
///
/// # Errors
/// Returns the error of `fsopen(2)` and `clone3(2)`.
pub(crate) fn leave_behind(orders: &Channel, reports: &Channel) -> Result<(), Errno> {
    let options = [("ptmxmode", "0600"), ("mode", "0600")];
    let terminals = new_filesystem("devpts", &options, 0)?;
    let outlets = Outlets { orders, reports, terminals, null: null()? };
    copied(|| {
        // Where it cannot be made harmless, ports and terminals stay out of reach.
        let kept = [orders.as_fd(), outlets.terminals.as_fd()];
        if close_all_others_for(&outlets.null, &kept, reports).is_ok()
            && sys::drop_capabilities().is_ok()
        {
            outlets.answer();
        }
    })
}

/// Has a copy of this process do something, and end.
///
/// # Errors
/// Returns the error of `clone3(2)`.
fn copied(work: impl FnOnce()) -> Result<(), Errno> {
    match sys::clone_into(0, None)? {
        Side::Parent { .. } => Ok(()),
        Side::Child => {
            work();
            // SAFETY: _exit(2) has no preconditions; destructors belong to the parent's copy.
            unsafe { libc::_exit(0) }
        }
    }
}

impl Outlets<'_> {
    /// Answers requests until the supervisor is gone.
    fn answer(&self) {
        while let Ok(Some(received)) = self.orders.receive::<Order>() {
            // Lines that are over.
            while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
            match (received.message, received.descriptors.into_iter().next()) {
                (Order::Socket, None) => {
                    if let Ok(socket) = pinfold_init::outlet() {
                        let _ = self.reports.send(&Report::Socket, &[socket.as_fd()]);
                    }
                }
                (Order::Terminal { task, window }, Some(channel)) => {
                    let line = Line { task, window, channel: channel.into() };
                    if let Err(errno) = self.connect(&line) {
                        line.fail(self.reports, errno);
                    }
                }
                _ => {}
            }
        }
    }

    /// Starts a process between a terminal inside and one outside.
    fn connect(&self, line: &Line) -> Result<(), Errno> {
        copied(|| {
            let kept = [line.channel.as_fd(), self.terminals.as_fd()];
            match close_all_others_for(&self.null, &kept, self.reports) {
                Ok(()) => line.serve(&self.terminals, self.reports),
                Err(errno) => line.fail(self.reports, errno),
            }
        })
    }
}
