//! Reading from a stream socket that is written to as well.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};

/// What comes on a stream socket. Who sleeps in recv(2) on one is woken whenever its peer takes something
/// that was sent on it, too (`unix_write_space`, net/unix/af_unix.c), for nothing and perhaps on another
/// processor; who sleeps in poll(2) until there is input is not.
#[derive(Debug)]
pub struct Incoming<S>(pub S);

impl<S: AsFd> Read for Incoming<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None))?;
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *buffer))?)
    }
}
