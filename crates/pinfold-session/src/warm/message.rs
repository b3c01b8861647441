//! What a run and a keeper say to each other. A keeper that has nothing for the run hangs up. Both are the same program, which the keeper makes sure of.

use pinfold_boundary::Handover;
use pinfold_wire::{DecodeError, Wire};
use serde::{Deserialize, Serialize};

use crate::talk::{decode, encode};

/// From the keeper, at first: where among its descriptors the run finds what it has to show.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// A number below /proc/[pid]/fd.
    pub(super) descriptor: i32,
}

/// From the run: this is what its inside would be.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Take {
    /// What it has read there ([`super::proof`]).
    pub(super) proof: [u8; 32],
    /// The [`super::fingerprint`].
    pub(super) fingerprint: [u8; 32],
}

/// From the keeper: here it is. The control channel, init and the session's record come along.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Given {
    /// The session that it was prepared for.
    pub(super) session: String,
    pub(super) handover: Handover,
}

impl Wire for Greeting {
    fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        decode(message)
    }
}

impl Wire for Given {
    fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        decode(message)
    }
}

impl Wire for Take {
    fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        decode(message)
    }
}
