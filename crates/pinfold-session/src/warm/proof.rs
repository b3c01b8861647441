//! That a run is confined by nothing that the keeper is not confined by.
//!
//! Most walls show in /proc ([`super::ambience`]); Landlock does not. But a process with a domain of its
//! own may not look at one without (landlock(7), "Ptrace restrictions"), and other security modules
//! have the like. So the run reads what the keeper alone could tell it, where only who may look at the
//! keeper can read it: through /proc/[pid]/fd (proc_pid_fd(5)).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::MemfdFlags;
use rustix::rand::{GetRandomFlags, getrandom};

/// What is to be shown, and where it can be read.
pub(super) struct Proof {
    file: File,
    secret: [u8; 32],
}

impl Proof {
    /// A new one.
    ///
    /// # Errors
    /// What getrandom(2) and memfd_create(2) say.
    pub(super) fn make() -> io::Result<Self> {
        let mut secret = [0; 32];
        getrandom(&mut secret, GetRandomFlags::empty())?;
        let memory: OwnedFd = rustix::fs::memfd_create("proof", MemfdFlags::CLOEXEC)?;
        let file = File::from(memory);
        file.write_all_at(&secret, 0)?;
        Ok(Self { file, secret })
    }

    /// Where it is among this process's descriptors.
    pub(super) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Whether this is it.
    pub(super) fn is(&self, shown: &[u8; 32]) -> bool {
        self.secret == *shown
    }
}

/// Reads another process's.
///
/// # Errors
/// `EACCES` for who may not look at it.
pub(super) fn read(process: u32, descriptor: i32) -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    File::open(format!("/proc/{process}/fd/{descriptor}"))?.read_exact(&mut secret)?;
    Ok(secret)
}
