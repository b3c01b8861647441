//! What an attempt reports while it runs.

use super::QueueError;
use crate::refused::Refused;
use pinfold_content::Timestamp;

/// A message of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// When it was made, by the worker's clock; when it was stored if none.
    pub at: Option<Timestamp>,
    /// A word for programs, such as `text_delta`.
    pub kind: String,
    /// A JSON text.
    pub payload: String,
}

/// A message that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number, counted from 0 for each attempt, without gaps.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// A word for programs, such as `text_delta`.
    pub kind: String,
    /// A JSON text.
    pub payload: String,
}

impl NewMessage {
    /// The most messages of one call.
    pub const MOST: usize = 500;
    /// The longest payload, in bytes.
    pub const LONGEST: usize = 256 << 10;
    /// The longest kind, in bytes.
    const LONGEST_KIND: usize = 64;

    /// Checks messages that a worker sends.
    pub(super) fn check(messages: &[Self]) -> Result<(), QueueError> {
        if messages.len() > Self::MOST {
            return Err(Refused::Invalid("too many messages at once").into());
        }
        for message in messages {
            if message.payload.len() > Self::LONGEST || message.kind.len() > Self::LONGEST_KIND {
                return Err(Refused::Invalid("a message is too long").into());
            }
            if serde_json::from_str::<serde::de::IgnoredAny>(&message.payload).is_err() {
                return Err(Refused::Invalid("the payload of a message is not JSON").into());
            }
        }
        Ok(())
    }
}
