//! What a connection sends. A client that does not read makes the sender wait.

use std::io::{self, Write};

use parking_lot::Mutex;
use pinfold_client::api::Notification;
use pinfold_client::{Fault, Id, Message, write_line};
use serde_json::Value;

/// Where messages to a client go.
pub(crate) struct Outgoing(Mutex<Box<dyn Write + Send>>);

impl Outgoing {
    pub(crate) fn new(to: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(to)))
    }

    pub(crate) fn answer(&self, id: Id, result: Result<Value, Fault>) -> io::Result<()> {
        self.send(&Message::Response { id, result })
    }

    pub(crate) fn report<T: Notification>(&self, notification: &T) -> io::Result<()> {
        let params = serde_json::to_value(notification)?;
        self.send(&Message::Notification { method: T::METHOD.to_owned(), params })
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        write_line(&mut *self.0.lock(), message)
    }
}
