//! Insides that are prepared before somebody wants one (`pinfold warm`).
//!
//! A keeper, a process of the same user, makes insides up to the point where the workspace is to
//! be looked over, and waits. A run that finds a keeper for its workspace decides by itself what its
//! inside has to be, under a name that stands for any session's, and gets one only if that is what
//! the keeper has, down to the files behind every path (`fingerprint`), if whatever an inside inherits
//! is the same for both processes (`ambience`), and if nothing confines the run that does not confine
//! the keeper (`proof`). Then the descriptors change hands, and what follows is a run like any other:
//! everything that depends on the content of the workspace, on secrets or on the caller's terminal
//! happens in the run's own process. No inside is ever offered again once it was handed over.

mod ambience;
mod fingerprint;
mod keeper;
mod message;
mod offer;
mod proof;

pub use keeper::{Keeper, Kept};
pub(crate) use offer::take;

use std::path::PathBuf;

use pinfold_policy::path::HostPath;
use ring::digest::{SHA256, digest};

use crate::places::Places;

/// Where keepers listen.
fn sockets(places: &Places) -> PathBuf {
    places.state.join("warm")
}

/// How the sockets of the keepers for a workspace begin.
fn prefix(workspace: &HostPath) -> String {
    let hash = digest(&SHA256, workspace.as_bytes());
    hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).chain(["-".to_owned()]).collect()
}
