//! Answering the requests of a session at its control socket: what `pinfold approvals` does, and
//! whatever else shows requests to the user.

use std::time::Duration;

use pinfold_ask::{Answer, ApproverRequest, Happening, Pending, Visit};
use pinfold_host::directories::Places;
use pinfold_host::ipc::{self, Json};
use pinfold_wire::Channel;

use super::client;
use crate::outcome::RunError;

/// How long a session may take to answer. One that is frozen or traced gives no answer, and one that ends takes minutes.
const PATIENCE: Duration = Duration::from_secs(3);

/// Somebody who is there to answer the requests of a session: as long as this lives, requests wait.
///
/// Answers go by [`Attendance::answer`], also those to requests that [`Attendance::list`] has shown.
#[derive(Debug)]
pub struct Attendance(Channel);

impl Attendance {
    /// Attends to the session whose name begins so, or the only one; none where nothing can be asked.
    ///
    /// # Errors
    /// Returns an error if there is no such session.
    pub fn watch(places: &Places, session: Option<&str>) -> Result<Option<Self>, RunError> {
        let (name, channel) = client::approvals(places, session)?;
        say(&channel, ApproverRequest::Watch)?;
        match hear_in_time(&channel, &name)? {
            // From here on requests wait.
            Some(Happening::Done) => Ok(Some(Self(channel))),
            Some(Happening::NoDoor) => Ok(None),
            _ => Err(client::gone()),
        }
    }

    /// Begins to attend to a session and does not wait until it takes notice, since one that is suspended takes none:
    /// [`Happening::Done`] or [`Happening::NoDoor`] is the first that is heard.
    ///
    /// # Errors
    /// Returns an error if there is no such session.
    pub fn begin(places: &Places, session: &str) -> Result<Self, RunError> {
        let channel = client::approvals_in_time(places, session)?;
        say(&channel, ApproverRequest::Watch)?;
        Ok(Self(channel))
    }

    /// Returns the next that happens; `None` once the session has ended. Waits for it; [`AsFd`] of the
    /// value says when there is something.
    ///
    /// # Errors
    /// Returns what the session says instead.
    ///
    /// [`AsFd`]: std::os::fd::AsFd
    pub fn hear(&self) -> Result<Option<Happening>, RunError> {
        hear(&self.0)
    }

    /// Returns what waits in a session now; none where nothing can be asked.
    ///
    /// # Errors
    /// Returns an error if there is no such session.
    pub fn list(places: &Places, session: Option<&str>) -> Result<Option<Vec<Pending>>, RunError> {
        let (name, channel) = client::approvals(places, session)?;
        say(&channel, ApproverRequest::List)?;
        let mut all = Vec::new();
        loop {
            match hear_in_time(&channel, &name)? {
                Some(Happening::Asked(pending)) => all.push(pending),
                Some(Happening::Done) => return Ok(Some(all)),
                Some(Happening::NoDoor) => return Ok(None),
                Some(_) => {}
                None => return Err(client::gone()),
            }
        }
    }

    /// Answers a request of a session; `by` is for the audit log.
    ///
    /// # Errors
    /// Returns an error if it does not wait any more, no rule can say as much, or there is no such
    /// session.
    pub fn answer(
        places: &Places,
        session: Option<&str>,
        id: u64,
        answer: Answer,
        by: &str,
    ) -> Result<(), RunError> {
        let (name, channel) = client::approvals(places, session)?;
        say(&channel, ApproverRequest::Answer { id, answer, by: by.to_owned() })?;
        match hear_in_time(&channel, &name)? {
            Some(Happening::Done) => Ok(()),
            Some(Happening::NoDoor) => Err(no_door()),
            _ => Err(client::gone()),
        }
    }
}

impl std::os::fd::AsFd for Attendance {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn say(channel: &Channel, request: ApproverRequest) -> Result<(), RunError> {
    channel.send(&Json(request), &[]).map_err(|_| client::gone())
}

/// Returns what the session of this name reports next, if it does so in time.
///
/// # Errors
/// Returns that it does not answer, or what it says instead.
fn hear_in_time(channel: &Channel, session: &str) -> Result<Option<Happening>, RunError> {
    if ipc::wait(channel, PATIENCE).map_err(RunError::System)? {
        hear(channel)
    } else {
        Err(client::no_answer(session))
    }
}

/// Returns what the session reports next; nothing once it has ended.
fn hear(channel: &Channel) -> Result<Option<Happening>, RunError> {
    match channel.receive::<Json<Happening>>() {
        Ok(received) => match received.map(|received| received.message.0) {
            Some(Happening::Failed(why)) => Err(RunError::refused(why, None)),
            happening => Ok(happening),
        },
        Err(error) => Err(RunError::refused(format!("the session cannot be heard: {error}"), None)),
    }
}

/// Returns the question of a session's link, or answers it; then nothing comes back.
///
/// # Errors
/// Returns an error if there is no such session, or no such question of its waits.
pub(crate) fn by_link(
    places: &Places,
    session: &str,
    token: &str,
    visit: Visit,
) -> Result<Option<Pending>, RunError> {
    let (name, channel) = client::approvals(places, Some(session))?;
    say(&channel, ApproverRequest::Link { token: token.to_owned(), visit })?;
    match hear_in_time(&channel, &name)? {
        Some(Happening::Asked(pending)) => Ok(Some(pending)),
        Some(Happening::Done) => Ok(None),
        Some(Happening::NoDoor) => Err(no_door()),
        _ => Err(client::gone()),
    }
}

/// Returns that nothing can be asked of a user for this session.
#[must_use]
pub fn no_door() -> RunError {
    let why = "this session's sandbox cannot ask for commands on the host (--host-exec) or for hosts (--ask)";
    RunError::refused(why, None)
}
