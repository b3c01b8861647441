//! What the two ends say to each other.

mod last_steps;
mod launch_order;
mod line;
mod order;
mod report;
mod streams;

pub use last_steps::LastSteps;
pub use launch_order::{LaunchOrder, Mask, MaskKind};
pub use line::{LineIn, LineOut};
pub use order::{Bounds, Order, Program};
pub(crate) use order::{read_list, write_list};
pub use report::{Ended, Limit, NotReturned, Report, Step};
pub(crate) use report::{read_ended, write_ended};
pub use streams::{Attributes, FURTHER, StreamEnd, Streams, Window};

use crate::codec::DecodeError;

/// A message that can cross the channel.
pub trait Wire: Sized {
    /// Returns the message as bytes.
    fn encode(&self) -> Vec<u8>;

    /// Reads a message back.
    ///
    /// # Errors
    /// Returns an error for what is not exactly one well-formed message.
    fn decode(message: &[u8]) -> Result<Self, DecodeError>;
}
