//! Moving directories of views.
//!
//! Overlayfs refuses to rename a directory that lies in a lower layer (`EXDEV`; in a user namespace
//! there is no `redirect_dir`). Many programs then copy, others fail. So the filter has init hear of
//! every rename(2) before it is made (seccomp_unotify(2)); one of such a directory is made here, file
//! by file, and everything else is left to the kernel, as if nobody had heard of it.
//!
//! A signal that comes before a call was heard of begins the call again; where its handler asks for no
//! such thing (sigaction(2), `SA_RESTART`) the call fails with `EINTR`, which is the price. Once heard
//! of it is waited for.
//!
//! This gives the sandbox nothing: init has its user, its grants and its filter, and no capability. So
//! it does not matter if the caller changes the path in its memory during the call. What has less than
//! init is a program behind a Landlock domain of its own: with the first of these in a session nothing
//! is moved any more.

mod call;
mod directory;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::Builder;

use rustix::io::Errno;

use call::{Wanted, is_wall, wanted};

use crate::heard::{Call, Listener};

/// Begins to answer, on a thread of its own. A rename waits for its answer.
///
/// # Errors
/// Returns the error of `clone(2)`.
pub(crate) fn serve(listener: OwnedFd) -> Result<(), Errno> {
    let listener = Arc::new(Listener::new(listener));
    let serve = move || {
        let mut walled = false;
        loop {
            // A caller that was killed has nothing to be answered.
            let Ok(call) = listener.next() else { continue };
            walled |= is_wall(&call);
            if walled {
                listener.pass(&call);
            } else {
                answer(&listener, call);
            }
        }
    };
    spawn(serve)
}

/// Answers a call. Most are no affair of ours. One that is may take a while, and others do not wait for it.
fn answer(listener: &Arc<Listener>, call: Call) {
    let Some(wanted) = wanted(listener, &call) else { return listener.pass(&call) };
    let Wanted { old, new } = wanted;
    let mover = Arc::clone(listener);
    let moved = spawn(move || match directory::rename(&old, &new) {
        Ok(()) => mover.answer(&call, Ok(())),
        // Nothing has been changed, and the kernel has the word for it.
        Err(_) => mover.pass(&call),
    });
    if moved.is_err() {
        listener.pass(&call);
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    let spawned = Builder::new().name("moves".to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}
