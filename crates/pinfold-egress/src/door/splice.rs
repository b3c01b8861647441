//! Bytes from one connection to the other.
//!
//! The first bytes go through a small buffer. A direction that has moved much goes on through a
//! pipe by splice(2), which moves pages instead of copying them twice; a pipe costs two
//! descriptors and is not worth it before.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// Bytes moved by copying before a pipe is made.
const MUCH: u64 = 256 * 1024;

/// Bytes copied at once.
const BUFFER: usize = 16 * 1024;

/// Bytes that the pipe is asked to hold (pipe(7)). The system may grant less.
const PIPE: usize = 1024 * 1024;

/// Moves bytes both ways until both sides have ended. An end of one side is passed on to the
/// other, which may go on.
///
/// # Errors
/// Whatever broke one of the connections; both are useless then.
pub(crate) async fn join(left: &mut TcpStream, right: &mut TcpStream) -> io::Result<()> {
    let (left_read, left_write) = left.split();
    let (right_read, right_write) = right.split();
    tokio::try_join!(pump(left_read, right_write), pump(right_read, left_write))?;
    Ok(())
}

async fn pump(from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
    let mut moved = 0;
    while moved < MUCH {
        // A connection that says nothing holds no buffer.
        from.readable().await?;
        let mut buffer = vec![0; BUFFER];
        let count = match from.try_read(&mut buffer) {
            Ok(0) => return to.shutdown().await,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..count]).await?;
        moved += count as u64;
    }
    through_pipe(from.as_ref(), to.as_ref()).await?;
    to.shutdown().await
}

async fn through_pipe(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // A smaller pipe moves less at once, that is all.
    let _ = rustix::pipe::fcntl_setpipe_size(&into, PIPE);
    loop {
        // The pipe is empty here, so "try again" can only mean the connection.
        let mut left = take(from, &into).await?;
        if left == 0 {
            return Ok(());
        }
        while left > 0 {
            left -= give(&out, to, left).await?.min(left);
        }
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

async fn take(from: &TcpStream, into: &OwnedFd) -> io::Result<usize> {
    let splice = || Ok(rustix::pipe::splice(from, None, into, None, PIPE, FLAGS)?);
    from.async_io(Interest::READABLE, splice).await
}

async fn give(out: &OwnedFd, to: &TcpStream, count: usize) -> io::Result<usize> {
    let splice = || Ok(rustix::pipe::splice(out, None, to, None, count, FLAGS)?);
    to.async_io(Interest::WRITABLE, splice).await
}
