//! Why a channel ended, or a stream was not opened.

use rustix::io::Errno;
use thiserror::Error;

/// Why the channel ended. All but the first two are lies of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MuxError {
    /// Nobody is at the other end any more.
    #[error("the other end of the channel is closed")]
    Closed,
    /// The system refused to read from, write to or wait for the channel.
    #[error("cannot use the channel: {0}")]
    Io(#[from] Errno),
    /// The channel does not begin with the greeting.
    #[error("the other end does not speak this protocol, or answers an earlier start")]
    Greeting,
    /// A frame has a kind that does not exist.
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    /// A frame has a length that its kind does not allow.
    #[error("frame of kind {kind} with {length} bytes")]
    Length {
        kind: u8,
        /// The length that the frame states.
        length: u16,
    },
    /// A frame is of a stream that was not opened, or has ended.
    #[error("frame for stream {0}, which is not open")]
    UnknownStream(u32),
    /// A stream was opened with a number that is not the next.
    #[error("stream opened with number {given}; the next number is {next}")]
    StreamNumber {
        /// The number in the frame.
        given: u32,
        /// The number that is next.
        next: u64,
    },
    /// More streams were opened than was allowed.
    #[error("more streams opened than allowed")]
    TooManyStreams,
    /// More was sent than the receiver allowed.
    #[error("stream {0} got more bytes than allowed")]
    CreditOverrun(u32),
    /// More was allowed than a window has room for, or nothing.
    #[error("invalid credit of {0}")]
    Credit(u32),
    /// A direction of a stream went on after its end, or was stopped twice.
    #[error("frame for stream {0} after the end of its direction")]
    AfterEnd(u32),
    /// A message has a length that is not allowed.
    #[error("message of {0} bytes")]
    Message(u32),
}

/// Why a stream cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The peer has not greeted yet.
    #[error("the other end of the channel has not answered yet")]
    NotReady,
    /// As many are open as may be. It can be tried again when one has closed.
    #[error("too many streams are open")]
    TooMany,
    /// The label is longer than [`crate::MAX_LABEL`].
    #[error("the label of a stream is too long")]
    Label,
    /// All numbers are used.
    #[error("the channel has no stream numbers left")]
    Exhausted,
}
