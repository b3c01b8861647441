//! The log of an attempt, through the store: what a node writes to its file, others read as messages of the attempt.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use pinfold_tasks::{Holder, NewMessage, Queue, QueueError, Stop, Store, TaskId};
use serde::{Deserialize, Serialize};

const KIND: &str = "log";
/// How much of a log the store keeps, in bytes.
pub const MOST_LOGGED: u64 = 4 << 20;
/// How much is sent at once, in bytes. As JSON it is at most six times as long.
const PIECE: usize = 32 << 10;
/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often a store is asked that is away after the attempt has ended: it is about to be asked to accept the result.
const LAST_TRIES: u32 = 10;

/// A piece of a log.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    /// The byte that it begins at.
    from: u64,
    text: String,
    /// Whether the rest is not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

/// What is read of a log at once.
#[derive(Debug, PartialEq, Eq)]
pub struct LogPage {
    pub text: String,
    /// The message to go on with.
    pub next: u64,
    /// Whether there may be more now.
    pub is_more: bool,
}

/// Sends what is written to the log of an attempt to the store, until `done` is set and all is sent. What is beyond
/// [`MOST_LOGGED`] stays where it is.
pub fn ship_log<S: Store>(path: &Path, queue: &Queue<S>, holder: &Holder, done: &Stop) {
    let mut shipment = Shipment::default();
    let mut tries = 0;
    loop {
        // What was written before it was set is read after that.
        let is_last = done.wait(LOOK);
        match shipment.send(path, |messages| queue.append(holder, messages)) {
            Ok(()) if is_last => return,
            Ok(()) => {}
            Err(error) if error.is_transient() && (!is_last || tries < LAST_TRIES) => {
                tries += u32::from(is_last);
                std::thread::sleep(LOOK);
            }
            // The lease is over.
            Err(_) => return,
        }
    }
}

/// How far a log was sent.
#[derive(Default)]
struct Shipment {
    sent: u64,
    is_cut: bool,
}

impl Shipment {
    /// Sends what is new.
    fn send(
        &mut self,
        path: &Path,
        mut append: impl FnMut(&[NewMessage]) -> Result<(), QueueError>,
    ) -> Result<(), QueueError> {
        while !self.is_cut {
            let left = usize::try_from(MOST_LOGGED - self.sent).unwrap_or(PIECE).min(PIECE);
            // A file that is not there yet, or any more, has nothing new.
            let bytes = read_at(path, self.sent, left.max(1)).unwrap_or_default();
            let (text, length) = whole_characters(&bytes, left);
            let is_cut = left == 0 && !bytes.is_empty();
            if length == 0 && !is_cut {
                return Ok(());
            }
            let piece = Piece { from: self.sent, text, is_cut };
            let payload = serde_json::to_string(&piece).unwrap_or_default();
            append(&[NewMessage { at: None, kind: KIND.to_owned(), payload }])?;
            self.sent += length as u64;
            self.is_cut = is_cut;
        }
        Ok(())
    }
}

fn read_at(path: &Path, from: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the text at the beginning, at most so many bytes of it, and how long it is. A character whose end is not there yet is
/// left for later, unless that is all there is room for.
fn whole_characters(bytes: &[u8], most: usize) -> (String, usize) {
    let bytes = bytes.get(..most).unwrap_or(bytes);
    let length = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    };
    (String::from_utf8_lossy(&bytes[..length]).into_owned(), length)
}

/// Returns what the store has of the log of an attempt, from a message on. Begin at 0, and go on at [`LogPage::next`].
///
/// # Errors
/// Returns the store's error, and an error for a task that does not exist.
pub fn read_log<S: Store>(
    queue: &Queue<S>,
    task: TaskId,
    attempt: u32,
    from: u64,
) -> Result<LogPage, QueueError> {
    let messages = queue.messages(task, attempt, from)?;
    let (mut page, mut end) = (LogPage { text: String::new(), next: from, is_more: false }, None);
    page.is_more = !messages.is_empty();
    for message in messages {
        page.next = message.number + 1;
        if message.kind != KIND {
            continue;
        }
        // Others may have written it.
        let Ok(piece) = serde_json::from_str::<Piece>(&message.payload) else { continue };
        // A piece whose answer was lost is there twice.
        if end.is_some_and(|end| piece.from < end) {
            continue;
        }
        end = Some(piece.from + piece.text.len() as u64);
        page.text += &piece.text;
        if piece.is_cut {
            page.text += "\n(the rest of the log is on the node alone)\n";
        }
    }
    Ok(page)
}

/// Returns whether the store has anything of the log of an attempt.
///
/// # Errors
/// Returns the errors of [`read_log`].
pub fn has_log<S: Store>(queue: &Queue<S>, task: TaskId, attempt: u32) -> Result<bool, QueueError> {
    let mut from = 0;
    loop {
        let page = read_log(queue, task, attempt, from)?;
        if !page.text.is_empty() || !page.is_more {
            return Ok(!page.text.is_empty());
        }
        from = page.next;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pinfold_tasks::{NewMessage, QueueError, Refused};

    use super::{MOST_LOGGED, PIECE, Piece, Shipment, whole_characters};

    /// Sends what is new, and returns the texts of the pieces.
    fn send(shipment: &mut Shipment, path: &std::path::Path) -> Vec<String> {
        let mut texts = Vec::new();
        let append = |messages: &[NewMessage]| {
            let piece: Piece = serde_json::from_str(&messages[0].payload).unwrap();
            texts.push(if piece.is_cut { "cut".to_owned() } else { piece.text });
            Ok(())
        };
        shipment.send(path, append).unwrap();
        texts
    }

    #[test]
    fn log_is_sent_once_and_a_piece_that_was_refused_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut shipment = Shipment::default();
        assert!(send(&mut shipment, &path).is_empty());
        fs::write(&path, "one\n").unwrap();
        let refused = || QueueError::Refused(Refused::LeaseExpired);
        assert!(shipment.send(&path, |_| Err(refused())).is_err());
        assert_eq!(send(&mut shipment, &path), ["one\n"]);
        fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(send(&mut shipment, &path), ["two\n"]);
    }

    #[test]
    fn long_log_is_cut_with_a_note() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "x".repeat(MOST_LOGGED as usize + 1)).unwrap();
        let mut shipment = Shipment::default();
        let texts = send(&mut shipment, &path);
        assert_eq!(texts.len(), MOST_LOGGED as usize / PIECE + 1);
        assert_eq!(texts.last().unwrap(), "cut");
        assert!(send(&mut shipment, &path).is_empty());
    }

    #[test]
    fn character_is_never_split_and_no_byte_holds_up_the_others() {
        let text = "aä".as_bytes();
        assert_eq!(whole_characters(&text[..2], 9), ("a".to_owned(), 1));
        assert_eq!(whole_characters(text, 9), ("aä".to_owned(), 3));
        assert_eq!(whole_characters(&[0xff, b'a'], 9).1, 2);
        assert_eq!(whole_characters(&[0xc3], 9).1, 1);
    }
}
