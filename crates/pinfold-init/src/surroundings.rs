//! What is around the programs of a sandbox that has no root of its own.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;

/// A wall between programs and init, and where the places lie that elsewhere have a path of the
/// sandbox's own. Both are empty where a sandbox has a root of its own.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// A Landlock ruleset that every program is held by.
    pub wall: Option<OwnedFd>,
    /// Paths of the sandbox, and where each lies. One that begins with another comes before it.
    pub moved: Vec<(PathBuf, PathBuf)>,
}

impl Surroundings {
    /// Puts the calling thread behind the wall (landlock_restrict_self(2)).
    ///
    /// # Errors
    /// Returns the error of `landlock_restrict_self(2)`; `EPROTOTYPE` for a standard stream that is a socket of datagrams. The
    /// wall has no rules for paths that these are sent to.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        let Some(wall) = &self.wall else { return Ok(()) };
        let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        if standard.into_iter().any(|end| socket_type(end) == Ok(SocketType::DGRAM)) {
            return Err(Errno::PROTOTYPE);
        }
        let (call, wall) = (libc::SYS_landlock_restrict_self, wall.as_raw_fd());
        // SAFETY: integer arguments only.
        let entered = unsafe { libc::syscall(call, wall, 0) };
        if entered < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM));
        }
        Ok(())
    }

    /// Returns where a path of the sandbox lies.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        for (from, to) in &self.moved {
            if let Ok(rest) = path.strip_prefix(from) {
                // To join nothing would add a slash.
                return if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
            }
        }
        path.to_owned()
    }

    /// Returns a word with the paths in it as they lie: the word itself, or each part of a list like
    /// `PATH`.
    pub(crate) fn word(&self, word: &OsStr) -> OsString {
        if self.moved.is_empty() {
            return word.to_owned();
        }
        let part = |part: &[u8]| match part.first() {
            Some(b'/') => {
                self.place(Path::new(OsStr::from_bytes(part))).into_os_string().into_vec()
            }
            _ => part.to_vec(),
        };
        let parts: Vec<Vec<u8>> = word.as_bytes().split(|byte| *byte == b':').map(part).collect();
        OsString::from_vec(parts.join(&b':'))
    }
}

#[cfg(test)]
mod tests;
