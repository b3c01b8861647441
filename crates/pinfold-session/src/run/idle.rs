//! A session without a command: it waits for what is run in it from outside.

use std::io::{self, Write as _};

use pinfold_host::session_id::SessionId;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

/// Says on standard output which session it is, now that it can be asked for something, and ends this
/// process as by SIGTERM once nobody has the other side of its standard input any more, if that is a
/// pipe or a socket. So a session ends with the process that started it, however that ends.
///
/// # Errors
/// Returns the error of writing and starting a thread.
pub(crate) fn announce(session: &SessionId) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{session}")?;
    out.flush()?;
    std::thread::Builder::new().name("input".to_owned()).spawn(|| {
        let input = rustix::stdio::stdin();
        // A socket whose other side is closed is readable for ever; RDHUP distinguishes it.
        let mut ready = [PollFd::from_borrowed_fd(input, PollFlags::RDHUP)];
        let over = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL;
        loop {
            match rustix::event::poll(&mut ready, None) {
                Ok(_) if ready[0].revents().intersects(over) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        // The loop of the session takes it as it takes every signal.
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    })?;
    Ok(())
}
