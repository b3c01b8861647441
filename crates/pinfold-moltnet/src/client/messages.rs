//! Messages of an attempt that wait to be sent.

use std::collections::VecDeque;

use pinfold_tasks::{NewMessage, Timestamp};

use pinfold_content::{Value, read, times};

/// The most messages that wait. A server that takes none costs the oldest ones.
const MOST: usize = 150;
/// The most messages of one request.
const BATCH: usize = 50;

/// Messages that wait.
#[derive(Default)]
pub(super) struct Buffer(VecDeque<Value>);

/// Messages that are being sent.
pub(super) struct Batch(Vec<Value>);

impl Buffer {
    pub(super) fn push(&mut self, messages: &[NewMessage]) {
        self.0.extend(messages.iter().map(message));
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    pub(super) fn take(&mut self) -> Option<Batch> {
        let count = self.0.len().min(BATCH);
        (count > 0).then(|| Batch(self.0.drain(..count).collect()))
    }

    /// Takes back what could not be sent.
    pub(super) fn put_back(&mut self, Batch(messages): Batch) {
        for message in messages.into_iter().rev() {
            if self.0.len() < MOST {
                self.0.push_front(message);
            }
        }
    }
}

impl Batch {
    pub(super) fn body(&self) -> Value {
        Value::object([("messages", Value::Array(self.0.clone()))])
    }
}

/// Returns a line about an attempt, as the API has it.
fn message(message: &NewMessage) -> Value {
    let payload = read(&message.payload)
        .ok()
        .and_then(|it| it.as_object().cloned())
        .unwrap_or_default()
        .with("event", "progress");
    let now = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    };
    let at = message.at.unwrap_or_else(|| Timestamp::from_millis(now()));
    Value::object([
        ("kind", message.kind.as_str().into()),
        ("payload", payload.into()),
        ("timestamp", times::write(at).into()),
    ])
}

#[cfg(test)]
mod tests {
    use pinfold_tasks::NewMessage;

    use super::{BATCH, Buffer, MOST};
    use pinfold_content::Value;

    fn text(number: usize) -> NewMessage {
        let payload = format!("{{\"text\":\"{number}\"}}");
        NewMessage { at: None, kind: "info".to_owned(), payload }
    }

    fn first(value: &Value) -> String {
        let message = &value.get("messages").and_then(Value::as_array).unwrap()[0];
        message.get("payload").unwrap().text_of("text").unwrap().into_owned()
    }

    #[test]
    fn what_was_not_sent_is_sent_first_and_the_oldest_are_dropped() {
        let mut buffer = Buffer::default();
        (0..MOST + 10).for_each(|number| buffer.push(&[text(number)]));
        let batch = buffer.take().unwrap();
        assert_eq!((batch.0.len(), first(&batch.body())), (BATCH, "10".to_owned()));
        buffer.push(&[text(999)]);
        buffer.put_back(batch);
        assert_eq!(buffer.0.len(), MOST);
        // One had to go for the new one.
        assert_eq!(first(&buffer.take().unwrap().body()), "11");
    }
}
