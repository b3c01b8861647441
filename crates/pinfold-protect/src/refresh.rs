//! Showing a view what the host changes in the workspace below it.
//!
//! overlayfs looks a name up in the workspace once and remembers what it found. What the host adds,
//! removes, renames or replaces afterwards is not seen in the sandbox. So a thread watches the
//! directories of the workspace, and has the view forget its names when one has changed. What a file
//! holds needs no refresh: it is read from the file itself.
//!
//! A name that a program uses at that moment is not forgotten: an open file, a working directory. So a
//! change is followed by further refreshes, soon and then rarely. At rest nothing is done. What the
//! session changed lies in the layer and is never affected.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_boundary::LiveView;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

mod hidden;
mod made;
mod pace;
mod watched;

use crate::masks::Fell;
pub use hidden::Hidden;
use pace::Pace;
use watched::Watched;

/// A session that is over before this time watches nothing: to close a watch takes the kernel up to
/// 20 ms.
const SHORTEST: Duration = Duration::from_secs(1);

/// The thread, with what it needs to be ended.
#[derive(Debug)]
pub struct Refresh {
    ended: Receiver<(Result<(), Errno>, Fell)>,
    stop: Arc<OwnedFd>,
}

impl Refresh {
    /// Starts it for a view.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)` or of starting a thread.
    pub fn start(view: LiveView, mut hidden: Hidden) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let stopped = Arc::clone(&stop);
        let (sender, ended) = mpsc::channel();
        let run = move || {
            let mut watched = None;
            let refreshed = refresh_until(&stopped, &view, &mut hidden, &mut watched);
            // Before the session's changes are read.
            drop(view);
            let fell = hidden.into_fell();
            // The session does not wait until the watches are closed.
            let _ = sender.send((refreshed, fell));
        };
        thread::Builder::new().name("view".to_owned()).spawn(run)?;
        Ok(Self { ended, stop })
    }

    /// Ends it. Returns what the user should know: that the view was not refreshed, which hidden
    /// files were renamed, and which secrets are new.
    pub fn end(self) -> Fell {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        let (refreshed, mut fell) = self.ended.recv().unwrap_or((Err(Errno::IO), Fell::default()));
        fell.notes.extend(refreshed.err().map(|errno| {
            format!(
                "the view did not show everything that was saved on the host during the session \
                 ({errno})"
            )
        }));
        fell
    }
}

impl Drop for Refresh {
    /// Ends the thread, which has the channel of the helper that keeps masks.
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

/// Refreshes a view until the end. The watches are left to the caller to close.
///
/// # Errors
/// Returns the error of refreshing it.
fn refresh_until(
    stop: &OwnedFd,
    view: &LiveView,
    hidden: &mut Hidden,
    watched: &mut Option<Watched>,
) -> Result<(), Errno> {
    if !wait(stop, None, Some(SHORTEST)) {
        return Ok(());
    }
    // What changed before it was watched is due at once.
    let watched = watched.insert(Watched::new(hidden, stop));
    let mut pace = Pace::new(Instant::now(), watched.is_complete());
    hidden.mask_new();
    loop {
        let pause = pace.due().map(|due| due.saturating_duration_since(Instant::now()));
        if !wait(stop, watched.descriptor(), pause) {
            return Ok(());
        }
        if watched.has_changed(hidden) {
            pace.changed(Instant::now(), watched.is_complete());
        }
        hidden.mask_new();
        if hidden.has_moved() {
            // The new name may be remembered as one that does not exist.
            view.refresh()?;
            hidden.mask_moved();
            hidden.mask_new_again();
        }
        let now = Instant::now();
        if pace.due().is_some_and(|due| due <= now) {
            view.refresh()?;
            hidden.mask_new_again();
            pace.refreshed(Instant::now(), now.elapsed());
        }
    }
}

/// Waits for a change, or for a time; false at the end.
fn wait(stop: &OwnedFd, watch: Option<&OwnedFd>, longest: Option<Duration>) -> bool {
    let longest = longest.map(|longest| Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: longest.subsec_nanos().into(),
    });
    let mut all = vec![PollFd::new(stop, PollFlags::IN)];
    all.extend(watch.map(|watch| PollFd::new(watch, PollFlags::IN)));
    match poll(&mut all, longest.as_ref()) {
        Ok(_) | Err(Errno::INTR) => all[0].revents().is_empty(),
        Err(_) => false,
    }
}
