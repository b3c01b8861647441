//! The socket of a connection, and how much its server may say at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::{Host, Server};

/// How long one address of a server is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many bytes the server may still send. What it sends is kept in memory until it is complete.
#[derive(Clone, Debug)]
pub(crate) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// The most bytes of one answer: more than the longest page of messages has.
    pub(crate) const ANSWER: u64 = 512 << 20;

    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(Self::ANSWER)))
    }

    /// Begins again, for the next answer.
    pub(crate) fn renew(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Notes that bytes came.
    fn spend(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        if bytes > left {
            return Err(io::Error::other("the server sent more than any answer has"));
        }
        Ok(())
    }
}

/// A socket that is connected to a server.
pub(crate) struct Stream {
    socket: Socket,
    allowance: Allowance,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to a server.
    ///
    /// # Errors
    /// Returns the error of its name or of the last address.
    pub(crate) async fn connect(server: &Server, allowance: Allowance) -> io::Result<Self> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let socket = match &server.host {
            Host::Socket(directory) => {
                let path = directory.join(format!(".s.PGSQL.{}", server.port));
                let connected = timeout(PATIENCE, UnixStream::connect(path)).await;
                Socket::Unix(connected.map_err(late)??)
            }
            Host::Name(name) => {
                let addresses = match name.parse() {
                    Ok(address) => vec![address],
                    Err(_) => pinfold_egress::addresses_of(name).await?,
                };
                let mut connected = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
                for address in addresses {
                    let trying = timeout(PATIENCE, TcpStream::connect((address, server.port)));
                    connected = trying.await.map_err(late).and_then(|connected| connected);
                    if connected.is_ok() {
                        break;
                    }
                }
                let socket = connected?;
                socket.set_nodelay(true)?;
                Socket::Tcp(socket)
            }
        };
        Ok(Self { socket, allowance })
    }

    fn socket(&mut self) -> Pin<&mut dyn Both> {
        Pin::new(match &mut self.socket {
            Socket::Tcp(socket) => socket,
            Socket::Unix(socket) => socket,
        })
    }
}

/// What both kinds of sockets are.
trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.socket().poll_read(context, buffer);
        let came = buffer.filled().len() - before;
        match read {
            Poll::Ready(Ok(())) => Poll::Ready(self.allowance.spend(came)),
            other => other,
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.socket().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::Allowance;

    #[test]
    fn server_may_send_as_much_as_an_answer_has_and_no_more() {
        let allowance = Allowance::new();
        allowance.renew(10);
        allowance.spend(10).unwrap();
        allowance.spend(0).unwrap();
        assert!(allowance.spend(1).is_err());
        allowance.renew(10);
        allowance.spend(1).unwrap();
    }
}
