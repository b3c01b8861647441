//! Bytes from one connection to the other.
//!
//! Bytes go through a buffer that all connections of the thread share: one call to take them and
//! one to pass them on. A direction that is a stream gets a larger one of its own, as long as it is
//! one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Semaphore;

/// Bytes in full buffers, one after the other, that make a stream.
const MUCH: usize = 256 * 1024;

/// Bytes of a read after which the connection is no stream any more.
const LITTLE: usize = 16 * 1024;

/// Bytes copied at once.
const BUFFER: usize = 64 * 1024;

/// Bytes copied at once of a stream.
const LARGE: usize = 256 * 1024;

/// Streams at once that have a buffer of their own.
static STREAMS: Semaphore = Semaphore::const_new(64);

/// Moves bytes both ways until both sides have ended. An end of one side is passed on to the
/// other, which may go on.
///
/// # Errors
/// Returns the error that broke one of the connections; both are useless then.
pub(crate) async fn join(left: &mut TcpStream, right: &mut TcpStream) -> io::Result<()> {
    let (left_read, left_write) = left.split();
    let (right_read, right_write) = right.split();
    tokio::try_join!(pump(left_read, right_write), pump(right_read, left_write))?;
    Ok(())
}

async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
    loop {
        let mut streamed = 0;
        while streamed < MUCH {
            let (count, rest) = poll_fn(|context| copy(&mut from, &to, context)).await?;
            if count == 0 {
                return to.shutdown().await;
            }
            to.write_all(&rest).await?;
            streamed = if count == BUFFER { streamed + count } else { 0 };
        }
        let Ok(_place) = STREAMS.try_acquire() else { continue };
        if stream(&mut from, &mut to).await?.is_break() {
            return to.shutdown().await;
        }
    }
}

thread_local! {
    /// What bytes are copied through. A connection that says nothing holds no buffer.
    static BETWEEN: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// Passes on what is there; gives how much was read, and what could not be written at once.
fn copy(
    from: &mut ReadHalf<'_>,
    to: &WriteHalf<'_>,
    context: &mut Context<'_>,
) -> Poll<io::Result<(usize, Vec<u8>)>> {
    BETWEEN.with_borrow_mut(|buffer| {
        let mut read = ReadBuf::new(buffer);
        // Unlike `try_read` this takes a read that is not full for the last: no call in vain.
        ready!(Pin::new(from).poll_read(context, &mut read))?;
        let bytes = read.filled();
        let written = match to.try_write(bytes) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Poll::Ready(Err(error)),
        };
        Poll::Ready(Ok((bytes.len(), bytes[written..].to_vec())))
    })
}

/// Passes a stream on; leaves this mode when the bytes are no event stream any more, and breaks off
/// at its end.
async fn stream(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> io::Result<ControlFlow<()>> {
    let mut buffer = vec![0; LARGE];
    loop {
        let count = from.read(&mut buffer).await?;
        to.write_all(&buffer[..count]).await?;
        match count {
            0 => return Ok(ControlFlow::Break(())),
            1..LITTLE => return Ok(ControlFlow::Continue(())),
            LITTLE.. => {}
        }
    }
}
