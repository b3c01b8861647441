//! Reading a secret from standard input, without echo from a terminal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use pinfold_secrets::{Secret, SecretId};
use pinfold_terminal::notify;
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

use super::SecretError;

/// Longest input, in bytes: the longest secret, its newline and one more.
const MAX_INPUT: usize = 64 * 1024 + 2;

/// What Ctrl-C types.
const INTERRUPT: u8 = 0x03;

/// Reads a value: a line from a terminal, everything from a pipe.
pub(super) fn read_value(id: &SecretId) -> Result<Secret, SecretError> {
    let stdin = io::stdin();
    read_from(stdin.as_fd(), id)
}

/// Works like [`read_value`], from any descriptor. Not through the standard library's buffer, which
/// would keep a copy.
pub(super) fn read_from(input: BorrowedFd<'_>, id: &SecretId) -> Result<Secret, SecretError> {
    let failed = |cause| SecretError::Io { action: "read the secret", cause };
    let value = if isatty(input) {
        let quiet = Quiet::start(input).map_err(failed)?;
        notify::put(format_args!("{id} (not shown): "));
        let line = read_until(input, |so_far| matches!(so_far.last(), Some(b'\n' | &INTERRUPT)));
        drop(quiet);
        notify!("");
        line
    } else {
        read_until(input, |_| false)
    };
    let mut value = value.map_err(failed)?;
    if value.last() == Some(&INTERRUPT) {
        return Err(failed(io::ErrorKind::Interrupted.into()));
    }
    Ok(Secret::from_bytes(std::mem::take(&mut *value))?)
}

/// Reads until `complete`, the end, or the limit.
fn read_until(
    input: BorrowedFd<'_>,
    complete: impl Fn(&[u8]) -> bool,
) -> io::Result<Zeroizing<Vec<u8>>> {
    // As large as it may become: a vector that grows leaves copies behind.
    let mut value = Zeroizing::new(Vec::with_capacity(MAX_INPUT));
    let mut piece = Zeroizing::new([0u8; 4096]);
    while value.len() < MAX_INPUT && !complete(&value) {
        let room = (MAX_INPUT - value.len()).min(piece.len());
        match rustix::io::read(input, &mut piece[..room]) {
            Ok(0) => break,
            Ok(read) => value.extend_from_slice(&piece[..read]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(value)
}

/// A terminal without echo, until it is dropped. Signals from the keyboard are off too, since
/// one would end the program with the echo still off; Ctrl-C ends the line instead.
struct Quiet<'fd> {
    terminal: BorrowedFd<'fd>,
    before: Termios,
}

impl<'fd> Quiet<'fd> {
    fn start(terminal: BorrowedFd<'fd>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        quiet.local_modes.insert(LocalModes::ICANON);
        quiet.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Nothing more can be done about a terminal that has gone away.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
