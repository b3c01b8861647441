//! Many streams over one byte channel, between a host and a guest that may lie.
//!
//! A micro-VM has no descriptors to pass, only a byte channel: a Unix socket on the host, a port of virtio-serial
//! in the guest. [`Multiplexer`] moves bytes between that channel and local descriptors, one for each stream.
//! [`HostFerry`] and [`GuestFerry`] carry messages with descriptors over one.
//! [`Endpoint`] is the protocol alone, without any input or output.
//!
//! - **Credits.** Each direction of a stream has a window. A reader that stalls stops its own stream and no other.
//!   Opening a stream takes a credit, too.
//! - **Bounds.** A frame, what is held for a stream, the number of streams and what waits for the channel have
//!   fixed limits ([`MOST_HELD`]), whatever the peer does. Nothing is allocated by a length that the peer states.
//! - **Ends.** Each direction ends by itself, either finished or aborted. A receiver may ask the sender to stop.
//! - **Lies.** What an honest peer never sends ends the channel with a [`MuxError`], and every stream with it.
//!
//! Both ends are the same executable, so the protocol has one version.

mod descriptor;
mod endpoint;
mod error;
mod ferry;
mod frame;
mod local;
mod multiplexer;
mod stream;

pub use endpoint::{Endpoint, Event, NONCE, Side};
pub use error::{MuxError, OpenError};
pub use ferry::{GuestFerry, HostFerry};
pub use frame::{MAX_LABEL, StreamId};
pub use local::Local;
pub use multiplexer::{MAX_MESSAGE, Multiplexer, Notice};

/// Bytes of one direction of a stream that are under way or held for their reader. Three quarters of it have room
/// for a message of [`MAX_MESSAGE`] bytes with its length, because credit may lag by a quarter.
pub const WINDOW: u32 = 96 * 1024;

/// Streams that each side may have open.
pub const STREAMS: u32 = 128;

/// Bytes that one endpoint holds at most for a peer that sends all it may and reads nothing: the windows of all
/// streams, and what waits for the channel.
pub const MOST_HELD: usize = 2 * STREAMS as usize * WINDOW as usize + endpoint::MOST_WAITING;

#[cfg(test)]
mod tests;
