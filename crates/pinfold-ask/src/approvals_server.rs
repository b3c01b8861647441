//! Serves an approver at a session's control socket: shows the requests that wait, and takes answers.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use pinfold_host::io::{small_thread, timespec};
use pinfold_host::ipc::Json;
use pinfold_wire::Channel;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::Timeout;
use serde::{Deserialize, Serialize};

use crate::approvals::{Answer, Approvals, Approver, Pending};
use crate::desk::Desk;
use crate::display::line;
use crate::links::{Followed, Visit};

/// How long somebody may take to hear.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon it is noticed that the session ends.
const LOOK: Duration = Duration::from_millis(250);

/// A request of an approver.
#[derive(Debug, Serialize, Deserialize)]
pub enum ApproverRequest {
    /// List what waits, and no more.
    List,
    /// List what waits, and report changes from then on. Requests wait for this approver.
    Watch,
    /// Answer a request.
    Answer {
        id: u64,
        answer: Answer,
        /// Who answers, for the audit log.
        by: String,
    },
    /// Show the question that a link is for, or answer it: the link was opened at another session, which
    /// has the port.
    Link {
        /// What the link has of the question.
        token: String,
        /// What is done with it.
        visit: Visit,
    },
}

/// What a session reports of its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// This one waits for an answer.
    Asked(Pending),
    /// The one of this number waits no more.
    Settled(u64),
    /// It is done: all was listed, the answer counts, or requests wait from now on.
    Done,
    /// It cannot be done.
    Failed(String),
    /// This session's sandbox cannot ask for anything.
    NoDoor,
}

/// Serves, as the session's end, somebody who has come to the control socket, on a thread.
pub fn attend(channel: Channel, desk: Option<&Arc<Desk>>) {
    let Some(desk) = desk.cloned() else {
        let _ = channel.send(&Json(Happening::NoDoor), &[]);
        return;
    };
    // Without a thread it is parted with.
    let _ = small_thread("ask", move || {
        let fd = channel.as_fd();
        let is_set = rustix::io::ioctl_fionbio(fd, false).is_ok()
            && rustix::net::sockopt::set_socket_timeout(fd, Timeout::Send, Some(PATIENCE)).is_ok();
        if is_set {
            // A client that does not listen misses it.
            let _ = Attending { channel, desk, approver: None, notified: Vec::new() }.until_end();
        }
    });
}

struct Attending {
    channel: Channel,
    desk: Arc<Desk>,
    approver: Option<Approver>,
    /// The numbers of the requests that the client was notified of and that still wait.
    notified: Vec<u64>,
}

/// Nobody is left to notify.
struct Gone;

impl Attending {
    fn approvals(&self) -> &Arc<Approvals> {
        self.desk.approvals()
    }

    fn until_end(mut self) -> Result<(), Gone> {
        while !self.approvals().is_over() {
            let (is_said, has_changed) = self.wait()?;
            if is_said {
                self.hear()?;
            }
            if has_changed && self.approver.is_some() {
                self.report_changes()?;
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
        let Ok(Some(said)) = self.channel.receive::<Json<ApproverRequest>>() else {
            return Err(Gone);
        };
        match said.message.0 {
            ApproverRequest::List => {
                for pending in self.approvals().pending() {
                    self.say(Happening::Asked(pending))?;
                }
                self.say(Happening::Done)
            }
            ApproverRequest::Watch => {
                self.approver = Some(self.approvals().attend().map_err(|_| Gone)?);
                self.say(Happening::Done)?;
                self.report_changes()
            }
            ApproverRequest::Answer { id, answer, by } => {
                let by = line(by.as_bytes());
                match self.approvals().answer(id, answer, &by) {
                    // The session may end once who asked has the answer: the reply goes first.
                    Ok(_counted) => self.say(Happening::Done),
                    Err(error) => self.say(Happening::Failed(error.to_string())),
                }
            }
            ApproverRequest::Link { token, visit } => match self.desk.by_link(&token, visit) {
                Ok(Followed::Question(pending)) => self.say(Happening::Asked(pending)),
                Ok(Followed::Answer(_counted)) => self.say(Happening::Done),
                Err(error) => self.say(Happening::Failed(error.to_string())),
            },
        }
    }

    fn report_changes(&mut self) -> Result<(), Gone> {
        if let Some(approver) = &self.approver {
            approver.notice();
        }
        let pending = self.approvals().pending();
        let is_open = |id: &u64| pending.iter().any(|one| one.id == *id);
        let (open, settled): (Vec<u64>, Vec<u64>) = self.notified.drain(..).partition(is_open);
        self.notified = open;
        for id in settled {
            self.say(Happening::Settled(id))?;
        }
        for one in pending {
            if !self.notified.contains(&one.id) {
                self.notified.push(one.id);
                self.say(Happening::Asked(one))?;
            }
        }
        Ok(())
    }

    fn say(&self, happening: Happening) -> Result<(), Gone> {
        self.channel.send(&Json(happening), &[]).map_err(|_| Gone)
    }
}
