//! One client, and the answers to its requests.

use std::io;
use std::sync::Arc;
use std::thread;

use pinfold_client::api::{self, Call, Done};
use pinfold_client::{Fault, Id, code};
use serde_json::Value;

use super::going_on::GoingOn;
use super::outgoing::Outgoing;

/// One client.
pub(crate) struct Connection {
    pub(crate) outgoing: Outgoing,
    pub(crate) going_on: GoingOn,
}

/// What a request is called while it goes on.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(super) id: Option<Id>,
}

impl Connection {
    /// Sends an answer, if one is wanted.
    pub(crate) fn answer(&self, asked: &Asked, result: Result<Value, Fault>) -> io::Result<()> {
        match &asked.id {
            Some(id) => self.outgoing.answer(id.clone(), result),
            None => Ok(()),
        }
    }

    /// Does what may take long in a thread of its own.
    pub(crate) fn later<T: serde::Serialize>(
        self: &Arc<Self>,
        asked: &Asked,
        what: impl FnOnce(&Arc<Self>, &Id) -> Result<T, Fault> + Send + 'static,
    ) -> Result<Option<Value>, Fault> {
        // One that is not to be answered is known by a number of ours.
        let id = asked.id.clone().unwrap_or_else(|| format!("#{}", self.going_on.number()).into());
        self.going_on.begin(&id)?;
        let (connection, of_thread, asked) = (Arc::clone(self), id.clone(), asked.clone());
        let started = start_thread(move || {
            let result = what(&connection, &of_thread).and_then(|done| to_value(&done));
            connection.going_on.end(&of_thread);
            // A client that has gone wants no answer.
            let _ = connection.answer(&asked, result);
        });
        if started.is_err() {
            self.going_on.end(&id);
        }
        started.map(|()| None)
    }
}

/// Does something while requests are read, for which there may be no room.
pub(crate) fn start_thread(what: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let started = thread::Builder::new().spawn(what);
    started.map(drop).map_err(|error| Fault::refused(format!("no thread: {error}"), None))
}

impl Asked {
    pub(crate) fn id(&self) -> Option<Id> {
        self.id.clone()
    }
}

/// Reads the parameters of a method.
pub(crate) fn params<C: Call>(params: Value) -> Result<C, Fault> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|error| Fault::new(code::PARAMS, format!("{}: {error}", C::METHOD)))
}

pub(crate) fn to_value(done: &impl serde::Serialize) -> Result<Value, Fault> {
    serde_json::to_value(done).map_err(|error| Fault::refused(error.to_string(), None))
}

/// Returns the answer of what answers nothing more.
pub(crate) fn done() -> Result<Option<Value>, Fault> {
    to_value(&Done {}).map(Some)
}

/// Returns the answer to who asks who serves.
pub(crate) fn hello() -> Result<Option<Value>, Fault> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    to_value(&api::HelloDone { version, api: api::VERSION }).map(Some)
}
