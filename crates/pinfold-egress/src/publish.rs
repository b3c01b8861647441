//! Ports inside that the host can reach: accepted here, connected there.
//!
//! A socket belongs to the network it was made in, whichever process connects it. So init makes
//! sockets, on demand, and everything else is done here.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use crate::door::join;
use crate::gateway::Event;
use crate::serve::Publishing;

/// How long init may take to make a socket, and a server inside to accept.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause after `accept` has failed for a lack of something, such as descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener outside, and the port inside that it leads to.
pub struct Published {
    /// Where the host connects.
    pub listener: std::net::TcpListener,
    /// The port of the sandbox's loopback.
    pub port: u16,
}

/// Where sockets of the sandbox's network are handed in.
#[derive(Clone)]
pub struct SocketSupply(Sender<OwnedFd>);

/// How many sockets that were handed in may wait.
const MOST_WAITING: usize = 64;

/// Where they are taken out.
pub struct SocketStock {
    sockets: Mutex<Receiver<OwnedFd>>,
    /// Asks for one more.
    ask: Box<dyn Fn() + Send + Sync>,
}

/// Returns a supply and its stock; `ask` is called for each socket that is needed.
#[must_use]
pub fn socket_supply(ask: Box<dyn Fn() + Send + Sync>) -> (SocketSupply, Arc<SocketStock>) {
    let (sender, receiver) = channel(MOST_WAITING);
    (SocketSupply(sender), Arc::new(SocketStock { sockets: Mutex::new(receiver), ask }))
}

impl SocketSupply {
    /// Hands in a socket. Init is not trusted: one that is no unconnected TCP socket, or more than anybody
    /// asks for, is dropped.
    pub fn put(&self, socket: OwnedFd) {
        let domain = sockopt::socket_domain(&socket);
        let internet = matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6));
        if internet && sockopt::socket_type(&socket) == Ok(SocketType::STREAM) {
            // Its maker could have it take any time to close.
            let _ = sockopt::set_socket_linger(&socket, None);
            // A stock that is gone or full needs nothing.
            let _ = self.0.try_send(socket);
        }
    }
}

impl SocketStock {
    async fn take(&self) -> io::Result<OwnedFd> {
        let mut sockets = self.sockets.lock().await;
        (self.ask)();
        let taken = tokio::time::timeout(PATIENCE, sockets.recv()).await?;
        taken.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

/// Starts serving on the runtime of the calling task, until that runtime ends.
///
/// # Errors
/// Returns an error if a listener could not be registered.
pub(crate) fn start(publishing: &Publishing, acceptors: &mut JoinSet<()>) -> io::Result<()> {
    for Published { listener, port } in &publishing.published {
        let listener = listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (stock, journal) = (Arc::clone(&publishing.stock), Arc::clone(&publishing.journal));
        let port = *port;
        acceptors.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, from)) => {
                        let (stock, journal) = (Arc::clone(&stock), Arc::clone(&journal));
                        tokio::spawn(async move {
                            let what = format!("port {port} inside, from {from}");
                            let event = Event::Connect { asked: &what, rule: "--publish" };
                            // What cannot be recorded does not happen.
                            journal.record(&event)?;
                            carry(client, &stock, port).await
                        });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        });
    }
    Ok(())
}

async fn carry(mut client: TcpStream, stock: &SocketStock, port: u16) -> io::Result<()> {
    let mut inside = connect(stock, port).await?;
    client.set_nodelay(true)?;
    inside.set_nodelay(true)?;
    join(&mut client, &mut inside).await
}

/// Connects to a server inside: on IPv4, or on IPv6 where none listens there.
async fn connect(stock: &SocketStock, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
    for v6 in [false, true] {
        let socket = stock.take().await?;
        let address = match (sockopt::socket_domain(&socket)?, v6) {
            (AddressFamily::INET, _) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            (_, false) => SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port)),
            (_, true) => SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        };
        let attempt = tokio::time::timeout(PATIENCE, finish(socket, address)).await?;
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn finish(socket: OwnedFd, address: SocketAddr) -> io::Result<TcpStream> {
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let stream = std::net::TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    let stream = TcpStream::from_std(stream)?;
    stream.ready(Interest::WRITABLE).await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}
