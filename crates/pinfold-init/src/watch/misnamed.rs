//! A process for tests whose name is not valid UTF-8.

use std::io::Read as _;
use std::os::fd::AsFd;

use rustix::process::{Pid, Signal};

/// A child of the test that lives until the value is dropped.
#[derive(Debug)]
pub(crate) struct Misnamed(Pid);

impl Misnamed {
    /// Starts the child and waits until it has changed its name (PR_SET_NAME).
    pub(crate) fn start() -> Self {
        let (renamed, writer) = rustix::pipe::pipe().unwrap();
        let child = || {
            // The name that the kernel makes of "a-メ" when it cuts it after four bytes.
            if rustix::thread::set_name(c"a-\xe3\x83").is_ok()
                && rustix::io::write(writer.as_fd(), b"!").is_ok()
            {
                // SAFETY: pause(2) has no preconditions.
                unsafe { libc::pause() };
            }
        };
        let pid = crate::vfork::copy(child).unwrap();
        drop(writer);
        let mut byte = [0];
        std::fs::File::from(renamed).read_exact(&mut byte).unwrap();
        Self(pid)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_raw_pid() as u32
    }
}

impl Drop for Misnamed {
    fn drop(&mut self) {
        rustix::process::kill_process(self.0, Signal::KILL).unwrap();
        rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty()).unwrap();
    }
}
