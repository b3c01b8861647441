//! The run's side: to find a keeper, and to take what it offers if it fits.

use std::fs::{self, File};
use std::io;
use std::time::Duration;

use pinfold_boundary::Inside;
use pinfold_wire::{Channel, Received};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fingerprint::fingerprint;
use super::message::{Given, Greeting, Take};
use super::{prefix, proof, sockets};
use crate::outcome::RunError;
use crate::run::{Design, Request};
use crate::state::{SessionId, SessionState};
use crate::talk::{self, Json};

/// How long a keeper may take to answer. One that is preparing an inside takes some milliseconds;
/// after this time the run makes its own.
const PATIENCE: Duration = Duration::from_millis(100);

/// An inside that fits this request, from whichever keeper has one.
///
/// # Errors
/// What the settings or the workspace do not allow. A keeper that fails is none.
pub(crate) fn take(request: &Request) -> Result<Option<(Design, SessionState, Inside)>, RunError> {
    // The keeper looks at this process while it finds out what it wants.
    let keepers: Vec<Channel> = keepers(request).collect();
    if keepers.is_empty() {
        return Ok(None);
    }
    let (design, plan) = Design::find(request, &SessionId::anybodys())?;
    // What is not there for the plan was not there for a keeper's.
    let Ok(fingerprint) = fingerprint(&plan, &request.places) else { return Ok(None) };
    for keeper in keepers {
        let Some((session, inside, record)) = ask(&keeper, fingerprint) else { continue };
        let design = design.adopted(&request.places, &session);
        let state = SessionState::adopt(&request.places, session, record);
        return Ok(Some((design, state, inside)));
    }
    Ok(None)
}

/// Connections to the keepers of this workspace. Most runs have none, and find that out by one
/// directory that is not there.
fn keepers(request: &Request) -> impl Iterator<Item = Channel> {
    let directory = sockets(&request.places);
    let names = fs::read_dir(&directory).into_iter().flatten().flatten();
    let prefix = prefix(&request.workspace.root);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(move |name| name.starts_with(&prefix)).filter_map(move |name| {
        match talk::connect(&directory, &name, PATIENCE) {
            Ok(keeper) => Some(keeper),
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    // A keeper that was killed has left it.
                    let _ = fs::remove_file(directory.join(&name));
                }
                None
            }
        }
    })
}

/// The inside, if the keeper has one that is this.
fn ask(keeper: &Channel, fingerprint: [u8; 32]) -> Option<(SessionId, Inside, File)> {
    let Greeting { descriptor } = receive(keeper)?.message.0;
    let process = rustix::net::sockopt::socket_peercred(keeper).ok()?.pid;
    let process = u32::try_from(process.as_raw_nonzero().get()).ok()?;
    let proof = proof::read(process, descriptor).ok()?;
    keeper.send(&Json(Take { proof, fingerprint }), &[]).ok()?;
    let Received { message: Json(Given { session, handover }), descriptors } = receive(keeper)?;
    let [channel, init, record] = descriptors.try_into().ok()?;
    let session = SessionId::parse(&session)?;
    Some((session, Inside::adopt(channel, init, handover), File::from(record)))
}

fn receive<M: Serialize + DeserializeOwned>(keeper: &Channel) -> Option<Received<Json<M>>> {
    let mut ready = [PollFd::new(keeper, PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.as_nanos() as i64 };
    match rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&patience))) {
        Ok(1) => keeper.receive().ok().flatten(),
        _ => None,
    }
}
