//! Following the audit log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pinfold_client::Fault;
use pinfold_client::api::AuditEvent;
use pinfold_host::audit::Reader;
use serde_json::Value;

use super::connection::{Connection, start_thread};

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Tells what is recorded from now on, of one session or of all, as long as the client is there.
///
/// # Errors
/// Returns an error if there is no such session; a log that cannot be read.
pub(super) fn subscribe(to: &Arc<Connection>, session: Option<String>) -> Result<(), Fault> {
    to.going_on.has_room()?;
    let session = session
        .map(|name| to.going_on.session(&name))
        .transpose()?
        .map(|session| session.name().to_owned());
    let state = to.going_on.places().state.clone();
    let unreadable = |error: io::Error| Fault::refused(error.to_string(), None);
    let mut reader = Reader::open(&state).map_err(unreadable)?;
    reader.as_mut().map_or(Ok(()), Reader::skip_all).map_err(unreadable)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let number = to.going_on.number();
    to.going_on.watches(number, Arc::new(move || over.store(true, Ordering::Relaxed)));
    let of_thread = Arc::clone(to);
    let started = start_thread(move || {
        let to = of_thread;
        while !is_over.load(Ordering::Relaxed) {
            if reader.is_none() {
                reader = Reader::open(&state).unwrap_or_default();
            }
            match reader.as_mut().map_or(Ok(None), Reader::next_record) {
                Ok(Some(Value::Object(record))) => {
                    // A record need not be of a session.
                    let is_meant =
                        |name: &String| record.get("session").and_then(Value::as_str) == Some(name);
                    if session.as_ref().is_none_or(is_meant)
                        && to.outgoing.report(&AuditEvent { record }).is_err()
                    {
                        break;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => thread::sleep(LOOK),
                // Nothing can be sent any more.
                Err(_) => break,
            }
        }
        to.going_on.forget_watch(number);
    });
    if started.is_err() {
        to.going_on.forget_watch(number);
    }
    started
}
