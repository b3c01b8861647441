//! The client: a worker's source of tasks behind MoltNet's task API.
//!
//! What a server says is untrusted. A task's text becomes the agent's prompt and nothing else: where it works, with which
//! agent, and what verifies the result is said by who starts the worker. Names of files and branches are never taken from
//! a server.

mod api;
mod artifacts;
mod call;
mod config;
mod credentials;
mod diary;
mod held;
mod inquiries;
mod messages;
mod output;
mod task;

use pinfold_host::Refusal;
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use pinfold_egress::percent;
use pinfold_tasks::{
    Answer, Claim, Claimed, Completion, Denied, Failure, Heartbeat, Holder, Inquiry, NewMessage,
    Reply, Request, Source, Stop, TaskId,
};

use crate::scope::Scope;
use api::ApiClient;
use call::{Call, Calls, Error};
use config::TYPES;
use held::Held;
use messages::Buffer;
use pinfold_content::Value;
use task::Offered;

pub use artifacts::RemoteArtifacts;
pub use config::{RemoteConfig, Work};
pub use credentials::{Credentials, CredentialsError, VARIABLES};
pub use diary::RemoteDiaries;

/// How many tasks a page has, and how many pages are looked at.
const PAGE: u32 = 10;
const MOST_PAGES: usize = 100;
/// How many tasks are remembered that were skipped.
const MOST_SKIPPED: usize = 10_000;
/// How often buffered messages are sent.
const FLUSH: Duration = Duration::from_millis(200);
/// How often the first heartbeat is tried: a claim may take a moment to be known everywhere.
const FIRST_HEARTBEATS: u32 = 5;
/// How long a request may take with all that it waits for. Attempts last longer.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server's queue of tasks.
pub struct Remote<'a> {
    config: RemoteConfig<'a>,
    calls: Calls,
    held: Mutex<HashMap<TaskId, Held>>,
    messages: Mutex<HashMap<TaskId, Buffer>>,
    /// Held while messages are sent, so that they stay in order.
    sending: Mutex<()>,
    skipped: Mutex<HashSet<String>>,
}

impl<'a> Remote<'a> {
    /// Returns the queue of a server. Nothing is asked for yet.
    ///
    /// # Errors
    /// Returns an error for an address that credentials must not go to.
    pub fn new(mut config: RemoteConfig<'a>) -> io::Result<Self> {
        let api = ApiClient::new(&config.address, std::mem::take(&mut config.way))?;
        let credentials = std::mem::replace(&mut config.credentials, Credentials::none());
        credentials.check_address(&api.origin())?;
        let calls = Calls::new(api, credentials, config.team, Scope::OF_A_WORKER, PATIENCE);
        Ok(Self {
            config,
            calls,
            held: Mutex::default(),
            messages: Mutex::default(),
            sending: Mutex::default(),
            skipped: Mutex::default(),
        })
    }

    /// Checks that the server knows the worker.
    ///
    /// # Errors
    /// Returns what the server or the network says.
    pub fn check(&self) -> Result<(), Refusal> {
        let who = self.calls.send(&Call::get("/agents/whoami")).map_err(Refusal::of)?;
        match who.text_of("identityId") {
            Some(_) => Ok(()),
            None => Err("the server does not say who the worker is".into()),
        }
    }

    /// Sends messages of attempts until `stop` is set.
    pub fn pump(&self, stop: &Stop) {
        while !stop.wait(FLUSH) {
            let tasks: Vec<TaskId> = self.messages.lock().keys().copied().collect();
            tasks.into_iter().for_each(|task| self.flush(task));
        }
    }

    /// Claims the first task that can be worked on here.
    fn claim(&self, claim: &Claim) -> Result<Answer, Error> {
        if let Some(claimed) = self.claimed_before(claim) {
            return Ok(Answer::Claimed(Some(Box::new(claimed))));
        }
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let page = self.calls.send(&Call::get(&self.list_path(cursor.as_deref())))?;
            let items = page.get("items").and_then(Value::as_array).unwrap_or_default();
            for item in items.iter().take(PAGE as usize) {
                if (self.config.is_ending)() {
                    return Ok(Answer::Claimed(None));
                }
                let offered = match Offered::read(item, &self.config) {
                    Ok(offered) => offered,
                    Err(why) => {
                        self.skip(item, &why);
                        continue;
                    }
                };
                if let Some(claimed) = self.claim_one(offered, claim)? {
                    return Ok(Answer::Claimed(Some(Box::new(claimed))));
                }
            }
            cursor = page.text_of("nextCursor").map(|cursor| cursor.into_owned());
            if cursor.is_none() || (self.config.is_ending)() {
                break;
            }
        }
        Ok(Answer::Claimed(None))
    }

    /// Returns the task that this very claim got. A worker repeats a claim that is answered late.
    fn claimed_before(&self, claim: &Claim) -> Option<Claimed> {
        let held = self.held.lock();
        let (task, held) = held.iter().find(|(_, held)| held.token == claim.token)?;
        Some(held.claimed(*task, claim.ttl))
    }

    fn claim_one(&self, offered: Offered, claim: &Claim) -> Result<Option<Claimed>, Error> {
        let path = format!("/tasks/{}/claim", offered.id);
        let body = Value::object([("leaseTtlSec", claim.ttl.as_secs().into())]);
        let answer = match self.calls.send(&Call::new(Method::POST, &path, body)) {
            Ok(answer) => answer,
            // Another worker was faster, or may not say so.
            Err(Error::Status { status: 403 | 404 | 409, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let held = match Held::read(&answer, offered, claim.token) {
            Ok(held) => held,
            Err(why) => {
                (self.config.notify)(&format!("a claim was answered strangely: {why}"));
                return Ok(None);
            }
        };
        let task = held.offered.local;
        let claimed = held.claimed(task, claim.ttl);
        let mut all = self.held.lock();
        // The one before it is over, whatever the server says of it.
        all.retain(|_, held| held.token != claim.token);
        if all.contains_key(&task) {
            return Ok(None);
        }
        all.insert(task, held);
        Ok(Some(claimed))
    }

    fn list_path(&self, cursor: Option<&str>) -> String {
        let types: Vec<String> = TYPES.iter().map(|kind| format!("&taskTypes={kind}")).collect();
        let mut path = format!("/tasks?status=queued{}", types.concat());
        if let Some(correlation) = &self.config.correlation {
            path += &format!("&correlationId={correlation}");
        }
        path += &format!("&limit={PAGE}");
        if let Some(cursor) = cursor {
            path += &format!("&cursor={}", percent::encoded(cursor));
        }
        path
    }

    /// Says once why a task is not worked on here.
    fn skip(&self, item: &Value, why: &Refusal) {
        let id: String = item.text_of("id").unwrap_or_default().chars().take(64).collect();
        let mut skipped = self.skipped.lock();
        if skipped.len() < MOST_SKIPPED && skipped.insert(id.clone()) {
            (self.config.notify)(&format!("skipped task {id}: {why}"));
        }
    }

    fn heartbeat(&self, holder: &Holder, ttl: Duration) -> Result<Answer, Error> {
        let (path, is_first) = self.path(holder, "heartbeat")?;
        let body = Value::object([("leaseTtlSec", ttl.as_secs().into())]);
        let call = Call::new(Method::POST, &path, body);
        let mut answer = self.calls.send(&call);
        for again in 1..FIRST_HEARTBEATS {
            let is_early = matches!(answer, Err(Error::Status { status: 403, .. }));
            if !is_first || !is_early {
                break;
            }
            std::thread::sleep(Duration::from_millis(100) * again);
            answer = self.calls.send(&call);
        }
        let answer = answer?;
        if answer.get("cancelled").and_then(Value::as_bool) == Some(true) {
            let reason =
                answer.text_of("cancelReason").unwrap_or_default().chars().take(1_000).collect();
            return Ok(Answer::Heartbeat(Heartbeat::Cancelled(reason)));
        }
        if let Some(held) = self.held.lock().get_mut(&holder.task) {
            held.is_started = true;
        }
        Ok(Answer::Heartbeat(Heartbeat::Renewed(ttl)))
    }

    fn complete(&self, holder: &Holder, completion: &Completion) -> Result<Answer, Error> {
        let (path, _) = self.path(holder, "complete")?;
        self.flush(holder.task);
        let work =
            (self.config.describe)(completion).map_err(|why| Error::Local(why.to_string()))?;
        let body = {
            let held = self.held.lock();
            let held = held.get(&holder.task).ok_or(Error::Gone)?;
            output::completion(held, &work, &completion.usage)
        };
        match self.calls.send(&Call::new(Method::POST, &path, body)) {
            Ok(_) => Ok(self.settled(holder)),
            // The answer to an earlier request may have been lost.
            Err(error @ Error::Status { status: 409, .. }) => match self.is_accepted(holder) {
                Ok(true) => Ok(self.settled(holder)),
                _ => Err(error),
            },
            Err(error @ Error::Status { status: 400, .. }) => {
                let failure = Failure {
                    retryable: Some(false),
                    ..Failure::new("output_rejected_by_server", error.to_string())
                };
                self.fail(holder, &failure)?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    fn fail(&self, holder: &Holder, failure: &Failure) -> Result<Answer, Error> {
        let (path, _) = self.path(holder, "fail")?;
        self.flush(holder.task);
        let body = {
            let held = self.held.lock();
            output::failure(held.get(&holder.task).ok_or(Error::Gone)?, failure)
        };
        self.calls.send(&Call::new(Method::POST, &path, body))?;
        Ok(self.settled(holder))
    }

    fn abort(&self, holder: &Holder) -> Result<Answer, Error> {
        let (path, _) = self.path(holder, "abort")?;
        self.flush(holder.task);
        let body = Value::object([("reason", "the worker ends".into())]);
        self.calls.send(&Call::new(Method::POST, &path, body))?;
        Ok(self.settled(holder))
    }

    /// Returns whether the server has accepted the result of an attempt.
    fn is_accepted(&self, holder: &Holder) -> Result<bool, Error> {
        let id = self.held.lock().get(&holder.task).map(|held| held.offered.id);
        let task = self.calls.send(&Call::get(&format!("/tasks/{}", id.ok_or(Error::Gone)?)))?;
        let accepted = task.get("acceptedAttemptN").and_then(Value::as_count);
        Ok(accepted == Some(holder.attempt.into()))
    }

    fn settled(&self, holder: &Holder) -> Answer {
        self.forget(holder);
        Answer::Settled
    }

    fn forget(&self, holder: &Holder) {
        self.held.lock().remove(&holder.task);
        self.messages.lock().remove(&holder.task);
    }

    /// Returns the path of an operation on an attempt, and whether the attempt has not been started.
    fn path(&self, holder: &Holder, what: &str) -> Result<(String, bool), Error> {
        let held = self.held.lock();
        let held = held.get(&holder.task).filter(|held| held.token == holder.token);
        let held = held.ok_or(Error::Gone)?;
        let path = format!("/tasks/{}/attempts/{}/{what}", held.offered.id, held.number);
        Ok((path, !held.is_started))
    }

    /// Sends the messages of an attempt that are waiting.
    fn flush(&self, task: TaskId) {
        let _sending = self.sending.lock();
        loop {
            let Some(batch) = self.messages.lock().get_mut(&task).and_then(Buffer::take) else {
                return;
            };
            let held = self.held.lock().get(&task).map(|held| (held.offered.id, held.number));
            let Some((id, number)) = held else { return };
            let path = format!("/tasks/{id}/attempts/{number}/messages");
            let sent = self.calls.send(&Call::new(Method::POST, &path, batch.body()));
            if sent.is_err_and(|error| error.is_transient()) {
                let mut all = self.messages.lock();
                all.entry(task).or_default().put_back(batch);
                return;
            }
        }
    }
}

impl Source for Remote<'_> {
    fn ask(&self, request: &Request, ttl: Duration) -> Result<Answer, Denied> {
        let answer = match request {
            Request::Claim(claim) => self.claim(claim),
            Request::Heartbeat(holder) => self.heartbeat(holder, ttl),
            Request::Complete(holder, completion) => self.complete(holder, completion),
            Request::Fail(holder, failure) => self.fail(holder, failure),
            Request::Abort(holder) => self.abort(holder),
        };
        answer.map_err(|error| {
            let answer = if error.is_transient() { Answer::Transient } else { Answer::Refused };
            // What is refused is over for this worker.
            if let (Answer::Refused, Some(holder)) = (&answer, holder_of(request)) {
                self.forget(holder);
            }
            // A worker that gets no list would wait without a word.
            let is_trouble = error.is_trouble() || matches!(request, Request::Claim(_));
            Denied { answer, reason: error.to_string(), is_trouble }
        })
    }

    fn report(&self, holder: &Holder, messages: &[NewMessage]) {
        if self.held.lock().contains_key(&holder.task) {
            self.messages.lock().entry(holder.task).or_default().push(messages);
        }
    }

    fn inquire(&self, holder: &Holder, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        self.answer(holder, inquiry, content)
    }
}

fn holder_of(request: &Request) -> Option<&Holder> {
    match request {
        Request::Claim(_) => None,
        Request::Heartbeat(holder)
        | Request::Complete(holder, _)
        | Request::Fail(holder, _)
        | Request::Abort(holder) => Some(holder),
    }
}
