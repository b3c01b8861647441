//! Urgent notices of a detached session: posted to every client that is attached to its terminal, and shown there over
//! the screen.
//!
//! They come by a socket of their own, since what the terminal's output holds is the sandbox's to choose.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::page::{LOOK, Page, is_key};
use super::{LONGEST, MOST, shown};
use crate::prompt_overlay::{given_back, taken};
use crate::screen::Modes;

/// The session's end: what it has to say, and who hears it.
#[derive(Debug, Default)]
pub struct Bulletin(Mutex<Posted>);

#[derive(Debug, Default)]
struct Posted {
    count: usize,
    /// Those that nobody was attached to see.
    unseen: Vec<String>,
    /// One message is one notice.
    listeners: Vec<OwnedFd>,
}

impl Bulletin {
    /// Shows one line to all who are attached, or else to the first who will be. Nothing is shown after the third
    /// notice.
    pub fn post(&self, words: &str) {
        let mut posted = self.0.lock();
        if posted.count == MOST {
            return;
        }
        posted.count += 1;
        let line = shown(words);
        posted.listeners.retain(|listener| send(listener, &line).is_ok());
        if posted.listeners.is_empty() {
            posted.unseen.push(line);
        }
    }

    /// Returns where a client that attaches hears notices.
    ///
    /// # Errors
    /// Returns the error of `socketpair(2)`.
    pub fn listen(&self) -> Result<OwnedFd, Errno> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (listener, client) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        let mut posted = self.0.lock();
        posted.listeners.retain(|listener| !has_gone(listener));
        // The socket has room for all that there can be.
        posted.unseen.retain(|line| send(&listener, line).is_err());
        posted.listeners.push(listener);
        Ok(client)
    }
}

/// Returns whether the client of a socket has closed its end.
fn has_gone(listener: &OwnedFd) -> bool {
    let mut end = [PollFd::new(listener, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut end, Some(&now)).is_ok() && end[0].revents().contains(PollFlags::HUP)
}

/// Sends one notice.
///
/// # Errors
/// Returns an error for a client that has gone.
fn send(listener: &OwnedFd, line: &str) -> Result<(), Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| rustix::net::send(listener, line.as_bytes(), flags))?;
    Ok(())
}

/// A client's end: the notices of the session, and those that are on the screen now. What it returns is to be written
/// to the terminal; while [`Self::is_shown`], nothing else is.
#[derive(Debug)]
pub struct AttachedNotices {
    /// `None` once the session posts nothing any more.
    socket: Option<OwnedFd>,
    page: Option<Page>,
    /// All that came.
    all: Vec<String>,
    /// Whether the program showed the alternate screen when the first of the page came.
    is_alternate: bool,
}

impl AttachedNotices {
    /// Hears the notices that come by a socket of [`Bulletin::listen`].
    #[must_use]
    pub fn new(socket: Option<OwnedFd>) -> Self {
        Self { socket, page: None, all: Vec::new(), is_alternate: false }
    }

    /// Returns a descriptor that is readable when there is a notice.
    #[must_use]
    pub fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(OwnedFd::as_fd)
    }

    /// Returns whether a notice is on the screen.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.page.is_some()
    }

    /// Returns how soon [`Self::turn`] is to be called, whatever happens.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.is_shown().then_some(LOOK)
    }

    /// Takes the next notice.
    pub fn hear(&mut self) -> Option<String> {
        let mut buffer = [0; LONGEST];
        let socket = self.socket.as_ref()?;
        let receive = || rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT);
        match rustix::io::retry_on_intr(receive) {
            Ok((count, _)) if count > 0 => {
                let line = shown(&String::from_utf8_lossy(&buffer[..count]));
                self.all.push(line.clone());
                Some(line)
            }
            Err(Errno::AGAIN) => None,
            Ok(_) | Err(_) => {
                self.socket = None;
                None
            }
        }
    }

    /// Shows a notice over the screen of a program that has asked for these modes.
    pub fn show(&mut self, line: String, modes: &Modes, size: (usize, usize)) -> String {
        match &mut self.page {
            Some(page) => {
                page.add(line);
                page.draw(size).unwrap_or_default()
            }
            none => {
                self.is_alternate = modes.is_alternate();
                let page = none.insert(Page::new(vec![line]));
                let drawing = page.draw(size).unwrap_or_default();
                format!("{}{drawing}", taken(self.is_alternate, modes.usual_colours()))
            }
        }
    }

    /// Goes on showing what is on the screen, and gives the screen back after a while or a key.
    pub fn turn(&mut self, typed: &[u8], size: (usize, usize)) -> String {
        match &mut self.page {
            Some(page) if !page.is_over(is_key(typed)) => page.draw(size).unwrap_or_default(),
            Some(_) => self.end(),
            None => String::new(),
        }
    }

    /// Gives the screen back. A program on the alternate screen has to draw it again.
    pub fn end(&mut self) -> String {
        self.page.take().map_or_else(String::new, |_| given_back(self.is_alternate))
    }

    /// Returns all notices that came: what was on the screen for a few seconds may have been missed.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.all
    }
}

#[cfg(test)]
mod tests;
