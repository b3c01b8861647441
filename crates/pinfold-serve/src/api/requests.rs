//! Reading requests and finding what answers them.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use pinfold_client::{Fault, Id, Message, code, read_line};
use pinfold_host::directories::Places;
use serde_json::Value;

use super::connection::{Asked, Connection};
use super::going_on::GoingOn;
use super::methods;
use super::outgoing::Outgoing;

pub(super) fn serve(
    places: Places,
    mut from: impl BufRead,
    to: impl Write + Send + 'static,
) -> io::Result<()> {
    let outgoing = Outgoing::new(to);
    let connection = Arc::new(Connection { outgoing, going_on: GoingOn::new(places) });
    let read = loop {
        let line = match read_line(&mut from) {
            Ok(Some(line)) => line,
            Ok(None) => break Ok(()),
            Err(error) => {
                // Where the next message begins is not known, so this is the last word.
                if error.kind() == io::ErrorKind::InvalidData {
                    let fault = Fault::new(code::REQUEST, error.to_string());
                    let _ = connection.outgoing.answer(Id::Null, Err(fault));
                }
                break Err(error);
            }
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let taken = match Message::read(&line) {
            Ok(Message::Request { id, method, params }) => {
                take(&connection, Some(id), &method, params)
            }
            // Asked without wanting an answer.
            Ok(Message::Notification { method, params }) => {
                take(&connection, None, &method, params)
            }
            // Nothing is asked of clients.
            Ok(Message::Response { .. }) => Ok(()),
            Err((id, fault)) => connection.outgoing.answer(id, Err(fault)),
        };
        if let Err(error) = taken {
            break Err(error);
        }
    };
    connection.going_on.end_all();
    read
}

/// Takes up a request, and answers it unless that is done later.
fn take(to: &Arc<Connection>, id: Option<Id>, method: &str, params: Value) -> io::Result<()> {
    let asked = Asked { id };
    match methods::dispatch(to, &asked, method, params) {
        Ok(Some(result)) => to.answer(&asked, Ok(result)),
        // Answered later.
        Ok(None) => Ok(()),
        Err(fault) => to.answer(&asked, Err(fault)),
    }
}
