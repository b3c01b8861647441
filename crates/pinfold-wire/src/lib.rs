//! The messages between a session's supervisor and the init inside.
//!
//! Both ends run the same executable, so the format needs no versions; what it needs is that
//! the supervisor can read whatever a hostile init sends. Every length is bounded, every
//! descriptor that was not asked for is closed, and nothing here panics on any input.

mod channel;
mod codec;
mod door;
mod message;

pub use channel::{Channel, ChannelError, MAX_DESCRIPTORS, Received};
pub use codec::{DecodeError, MAX_MESSAGE, Reader, Writer};
pub use door::{Call, Frames, HostCommand, MAX_DATA, MAX_REQUEST, Reply, framed};
pub use message::{
    Attributes, Bounds, Ended, FURTHER, LastSteps, LaunchOrder, Limit, LineIn, LineOut, Mask,
    MaskKind, NotReturned, Order, Program, Report, Step, StreamEnd, Streams, Window, Wire,
};

#[cfg(test)]
mod tests;
