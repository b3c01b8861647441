//! Answering at a session's control socket: what `pinfold approvals` does, and whatever else shows
//! requests to a person.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use pinfold_host::directories::Places;
use pinfold_host::io::{small_thread, timespec};
use pinfold_host::ipc::Json;
use pinfold_wire::Channel;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::Timeout;
use serde::{Deserialize, Serialize};

use super::approvals::{Answer, Approvals, Approver, Pending};
use super::shown::line;
use crate::RunError;
use crate::control;

/// How long somebody may take to hear.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon it is noticed that the session ends.
const LOOK: Duration = Duration::from_millis(250);

/// What is said to a session.
#[derive(Debug, Serialize, Deserialize)]
enum Saying {
    /// Tell what waits, and no more.
    List,
    /// Tell what waits, and go on as that changes. Who says so is somebody that can be asked.
    Watch,
    /// Answer a request.
    Answer {
        /// Its number.
        id: u64,
        answer: Answer,
        /// Who answers, for the audit log.
        by: String,
    },
}

/// What a session tells of its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// This one waits for an answer.
    Asked(Pending),
    /// The one of this number waits no more.
    Settled(u64),
    /// It is done: all was listed, the answer counts, or requests wait from now on.
    Told,
    /// It cannot be done.
    Failed(String),
    /// This session's inside cannot ask for commands on the host.
    NoDoor,
}

/// Somebody who is there to answer the requests of a session: as long as this lives, requests wait.
///
/// Answers go by [`Attendance::answer`], also those to requests that [`Attendance::list`] has shown.
#[derive(Debug)]
pub struct Attendance(Channel);

impl Attendance {
    /// Attends to the session whose name begins so, or the only one.
    ///
    /// # Errors
    /// No such session, or one in which nothing can be asked.
    pub fn watch(places: &Places, session: Option<&str>) -> Result<Self, RunError> {
        let channel = control::approvals(places, session)?;
        say(&channel, Saying::Watch)?;
        match hear(&channel)? {
            // From here on requests wait.
            Some(Happening::Told) => Ok(Self(channel)),
            Some(Happening::NoDoor) => Err(no_door()),
            _ => Err(has_ended()),
        }
    }

    /// The next that happens; `None` once the session has ended. Waits for it; [`AsFd`] of the
    /// value says when there is something.
    ///
    /// # Errors
    /// What the session says instead.
    ///
    /// [`AsFd`]: std::os::fd::AsFd
    pub fn hear(&self) -> Result<Option<Happening>, RunError> {
        hear(&self.0)
    }

    /// What waits in a session now; none where nothing can be asked.
    ///
    /// # Errors
    /// No such session.
    pub fn list(places: &Places, session: Option<&str>) -> Result<Option<Vec<Pending>>, RunError> {
        let channel = control::approvals(places, session)?;
        say(&channel, Saying::List)?;
        let mut all = Vec::new();
        loop {
            match hear(&channel)? {
                Some(Happening::Asked(pending)) => all.push(pending),
                Some(Happening::Told) => return Ok(Some(all)),
                Some(Happening::NoDoor) => return Ok(None),
                Some(_) => {}
                None => return Err(has_ended()),
            }
        }
    }

    /// Answers a request of a session; `by` is for the audit log.
    ///
    /// # Errors
    /// It does not wait any more, no rule can say as much, or there is no such session.
    pub fn answer(
        places: &Places,
        session: Option<&str>,
        id: u64,
        answer: Answer,
        by: &str,
    ) -> Result<(), RunError> {
        let channel = control::approvals(places, session)?;
        say(&channel, Saying::Answer { id, answer, by: by.to_owned() })?;
        match hear(&channel)? {
            Some(Happening::Told) => Ok(()),
            Some(Happening::NoDoor) => Err(no_door()),
            _ => Err(has_ended()),
        }
    }
}

impl std::os::fd::AsFd for Attendance {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn say(channel: &Channel, saying: Saying) -> Result<(), RunError> {
    channel.send(&Json(saying), &[]).map_err(|_| has_ended())
}

/// What the session tells next; nothing once it has ended.
fn hear(channel: &Channel) -> Result<Option<Happening>, RunError> {
    match channel.receive::<Json<Happening>>() {
        Ok(received) => match received.map(|received| received.message.0) {
            Some(Happening::Failed(why)) => Err(RunError::refused(why, None)),
            happening => Ok(happening),
        },
        Err(error) => Err(RunError::refused(format!("the session cannot be heard: {error}"), None)),
    }
}

/// Nothing can be asked of a person for this session.
#[must_use]
pub fn no_door() -> RunError {
    let why = "this session's inside cannot ask for commands on the host (--host-exec)";
    RunError::refused(why, None)
}

fn has_ended() -> RunError {
    RunError::refused("the session has ended", None)
}

/// The session's end of it: serves somebody who has come to the control socket, on a thread.
pub(crate) fn attend(channel: Channel, approvals: Option<&Arc<Approvals>>) {
    let Some(approvals) = approvals.cloned() else {
        let _ = channel.send(&Json(Happening::NoDoor), &[]);
        return;
    };
    // Without a thread it is parted with.
    let _ = small_thread("host-exec", move || {
        let fd = channel.as_fd();
        let is_set = rustix::io::ioctl_fionbio(fd, false).is_ok()
            && rustix::net::sockopt::set_socket_timeout(fd, Timeout::Send, Some(PATIENCE)).is_ok();
        if is_set {
            // Who does not listen is its own loss.
            let _ = Attending { channel, approvals, approver: None, told: Vec::new() }.until_end();
        }
    });
}

struct Attending {
    channel: Channel,
    approvals: Arc<Approvals>,
    approver: Option<Approver>,
    /// The numbers of what it was told of and still waits.
    told: Vec<u64>,
}

/// There is nobody to be told any more.
struct Gone;

impl Attending {
    fn until_end(mut self) -> Result<(), Gone> {
        while !self.approvals.is_over() {
            let (is_said, has_changed) = self.wait()?;
            if is_said {
                self.hear()?;
            }
            if has_changed && self.approver.is_some() {
                self.tell_changes()?;
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<(bool, bool), Gone> {
        let mut ready = vec![PollFd::new(&self.channel, PollFlags::IN)];
        ready.extend(self.approver.iter().map(|approver| PollFd::new(approver, PollFlags::IN)));
        let patience = timespec(LOOK);
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&patience)))
            .map_err(|_| Gone)?;
        let is = |index: usize| ready.get(index).is_some_and(|it| !it.revents().is_empty());
        Ok((is(0), is(1)))
    }

    fn hear(&mut self) -> Result<(), Gone> {
        let Ok(Some(said)) = self.channel.receive::<Json<Saying>>() else { return Err(Gone) };
        match said.message.0 {
            Saying::List => {
                for pending in self.approvals.pending() {
                    self.say(Happening::Asked(pending))?;
                }
                self.say(Happening::Told)
            }
            Saying::Watch => {
                self.approver = Some(self.approvals.attend().map_err(|_| Gone)?);
                self.say(Happening::Told)?;
                self.tell_changes()
            }
            Saying::Answer { id, answer, by } => {
                let by = line(by.as_bytes());
                match self.approvals.answer(id, answer, &by) {
                    Ok(()) => self.say(Happening::Told),
                    Err(error) => self.say(Happening::Failed(error.to_string())),
                }
            }
        }
    }

    fn tell_changes(&mut self) -> Result<(), Gone> {
        if let Some(approver) = &self.approver {
            approver.notice();
        }
        let pending = self.approvals.pending();
        let is_open = |id: &u64| pending.iter().any(|one| one.id == *id);
        let (open, settled): (Vec<u64>, Vec<u64>) = self.told.drain(..).partition(is_open);
        self.told = open;
        for id in settled {
            self.say(Happening::Settled(id))?;
        }
        for one in pending {
            if !self.told.contains(&one.id) {
                self.told.push(one.id);
                self.say(Happening::Asked(one))?;
            }
        }
        Ok(())
    }

    fn say(&self, happening: Happening) -> Result<(), Gone> {
        self.channel.send(&Json(happening), &[]).map_err(|_| Gone)
    }
}
