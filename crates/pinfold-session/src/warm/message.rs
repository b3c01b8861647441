//! What a run and a keeper say to each other. A keeper that has nothing for the run hangs up. Both are the same program, which the keeper makes sure of.

use pinfold_boundary::Handover;
use serde::{Deserialize, Serialize};

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
