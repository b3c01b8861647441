//! Turns: of one user only so many requests are served at once, so that nobody keeps others from the runner by
//! connections that say nothing. `MaxConnectionsPerSource=` does not count those of Unix sockets in systemd 252.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, mkdir, openat};
use rustix::io::Errno;

use crate::refusal::Refusal;

/// Where turns lie, as files that are locked. They go with the machine's `/run`.
const DIRECTORY: &str = "/run/pinfold-runner";
/// At once, of one user.
const MOST: u32 = 16;

/// Takes a turn for a user, which lasts as long as the descriptor.
///
/// # Errors
/// Returns that the user has too many, or the error of making one.
pub(crate) fn take(uid: u32) -> Result<OwnedFd, Refusal> {
    match mkdir(DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => take_in(Path::new(DIRECTORY), uid),
        Err(errno) => Err(Refusal::at(DIRECTORY)(errno)),
    }
}

fn take_in(directory: &Path, uid: u32) -> Result<OwnedFd, Refusal> {
    for number in 0..MOST {
        let name = directory.join(format!("{uid}.{number}"));
        let failed = Refusal::at(name.display());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let turn = openat(CWD, &name, flags, Mode::RUSR | Mode::WUSR).map_err(&failed)?;
        match flock(&turn, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(turn),
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(Refusal::new(
        format!("{MOST} requests of user id {uid} are served at this moment"),
        "try again when they have ended",
    ))
}

#[cfg(test)]
mod tests {
    use super::{MOST, take_in};

    #[test]
    fn user_with_all_its_turns_is_refused_and_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let take = |uid| take_in(directory.path(), uid);
        let mut held: Vec<_> = (0..MOST).map(|_| take(1000).unwrap()).collect();
        assert!(take(1000).unwrap_err().what.contains("16 requests of user id 1000"));
        take(100).unwrap();
        held.pop();
        held.push(take(1000).unwrap());
        take(1000).unwrap_err();
    }
}
