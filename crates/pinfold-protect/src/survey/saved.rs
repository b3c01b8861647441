//! A walk that is written down, for the start after a kill.

use std::sync::OnceLock;

use super::seen::{Seen, State, Walk};

impl<Z: Tag> Walk<Z> {
    /// Returns the walk as bytes, for [`Self::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.seen.len() * 96);
        for Seen { path, state, zone } in &self.seen {
            bytes.extend_from_slice(&(path.len() as u32).to_le_bytes());
            bytes.extend_from_slice(path);
            bytes.extend_from_slice(&state.inode.0.to_le_bytes());
            bytes.extend_from_slice(&state.inode.1.to_le_bytes());
            bytes.extend_from_slice(&state.changed.0.to_le_bytes());
            bytes.extend_from_slice(&state.changed.1.to_le_bytes());
            bytes.push(zone.tag());
        }
        bytes
    }

    /// Returns a walk that was written down; `None` if the bytes are no whole one. What it could not
    /// look into is among what the session masked.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut seen = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
            let (path, rest) = bytes.get(4..)?.split_at_checked(length)?;
            let number = |at: usize| Some(u64::from_le_bytes(*rest.get(at..)?.first_chunk()?));
            let inode = (number(0)?, number(8)?);
            let changed = (i64::from_le_bytes(*rest.get(16..)?.first_chunk()?), number(24)?);
            let zone = Z::of_tag(*rest.get(32)?)?;
            seen.push(Seen { path: path.to_vec(), state: State { inode, changed }, zone });
            bytes = rest.get(33..)?;
        }
        Some(Self { seen, unseen: Vec::new(), paths: OnceLock::new() })
    }
}

/// A note about a directory that can be written down.
pub trait Tag: Sized {
    /// Returns the note as one byte.
    fn tag(&self) -> u8;
    /// Returns the note of a byte.
    fn of_tag(tag: u8) -> Option<Self>;
}
