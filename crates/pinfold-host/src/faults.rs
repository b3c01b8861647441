//! Panics of other threads: recorded and reported once, instead of printed over the user's screen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{self, Location};
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::event::{EventfdFlags, eventfd};

/// Places that wait to be reported; more of them say nothing new.
const MOST_WAITING: usize = 64;

/// Where panics were, on their way to the loop of the session. A panic may hold any lock, so its
/// own thread records nothing.
#[derive(Debug)]
pub struct Faults {
    places: Receiver<String>,
    /// Readable when there are some (eventfd(2)).
    bell: OwnedFd,
}

impl Faults {
    /// Takes over the panics of every thread but the calling one. Each is reported with its place
    /// and not with its message, which may quote a secret.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)`.
    pub fn watch() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ring = bell.try_clone()?;
        let (sender, places) = sync_channel(MOST_WAITING);
        let own = std::thread::current().id();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if std::thread::current().id() == own {
                return before(what);
            }
            let place = what.location().map_or_else(|| "an unknown place".to_owned(), short);
            // A full channel has enough, and a loop that is gone wants none.
            let _ = sender.try_send(place);
            let _ = rustix::io::write(&ring, &1_u64.to_ne_bytes());
        }));
        Ok(Self { places, bell })
    }

    /// Returns a descriptor that is readable when there is a place to report.
    pub fn waiting(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Returns the places since the last look.
    pub fn taken(&self) -> Vec<String> {
        // Nothing to read is no news.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        self.places.try_iter().collect()
    }
}

/// Returns a file of this build, from its crate on, and the line.
fn short(place: &Location<'_>) -> String {
    let mut parts: Vec<&str> = place.file().rsplit('/').collect();
    let source = parts.iter().position(|part| *part == "src");
    parts.truncate(source.map_or(1, |at| at + 2));
    parts.reverse();
    format!("{}:{}", parts.join("/"), place.line())
}
