//! The host's side of doors: what a guest says that a program has connected to becomes a connection.

use std::os::fd::OwnedFd;

use pinfold_boundary::DoorRequest;
use pinfold_mux::{HostFerry, Local};
use pinfold_wire::{Channel, Report, Wire as _};
use rustix::net::SocketType;
use rustix::net::sockopt;

/// Where connections to a sandbox's doors are asked for.
#[derive(Debug)]
pub(super) struct Doors(Channel);

impl From<Channel> for Doors {
    fn from(connections: Channel) -> Self {
        Self(connections)
    }
}

impl Doors {
    /// Connects what the guest has opened. The guest is hostile: what names no door is refused.
    pub(super) fn serve(&self, ferry: &mut HostFerry) {
        for (id, label) in ferry.take_opened() {
            match self.connect(&label) {
                Some(local) => ferry.attach_stream(id, local),
                None => ferry.refuse_stream(id),
            }
        }
    }

    fn connect(&self, label: &[u8]) -> Option<Local> {
        let request = DoorRequest::decode(label).ok()?;
        self.0.send(&request, &[]).ok()?;
        let received = self.0.receive::<Report>().ok()??;
        let socket: OwnedFd = received.descriptors.into_iter().next()?;
        match sockopt::socket_type(&socket).ok()? {
            SocketType::DGRAM => Local::messages(socket),
            _ => Local::socket(socket),
        }
        .ok()
    }
}

#[cfg(test)]
mod tests;
