//! Sockets of the network that an engine's own kernel uses, for who reaches a port inside.
//!
//! Elsewhere init passes them. Out of gVisor no descriptor comes, but its sockets are those of the network
//! namespace in which it was started, so a process that stays behind there makes them.

use std::os::fd::AsFd as _;

use pinfold_wire::{Channel, Order, Report};
use rustix::io::Errno;

use crate::namespace::close_all_others;
use crate::sys::{self, Side};

/// Leaves a process behind that answers each [`Order::Socket`] of one channel on the other. Nothing inside
/// reaches it, and it ends with the process that the caller is about to become, the first of its
/// namespace.
///
/// # Errors
/// What clone3(2) says.
pub(super) fn leave_behind(orders: &Channel, reports: &Channel) -> Result<(), Errno> {
    match sys::clone_into(0, None)? {
        Side::Parent { .. } => Ok(()),
        Side::Child => {
            // Where it cannot be made harmless, ports stay out of reach.
            if close_all_others(&[orders.as_fd()], reports).is_ok()
                && sys::drop_capabilities().is_ok()
            {
                answer(orders, reports);
            }
            // SAFETY: _exit(2) has no preconditions; destructors belong to the parent's copy.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Until the supervisor is gone.
fn answer(orders: &Channel, reports: &Channel) {
    while let Ok(Some(received)) = orders.receive::<Order>() {
        if received.message == Order::Socket
            && let Ok(socket) = pinfold_init::outlet()
        {
            let _ = reports.send(&Report::Socket, &[socket.as_fd()]);
        }
    }
}
