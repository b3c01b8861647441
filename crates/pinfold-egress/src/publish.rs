//! Ports inside that the host can reach: accepted here, connected there.
//!
//! A socket belongs to the network it was made in, whichever process connects it. So init makes
//! sockets, on demand, and everything else is done here. No socket leaves a machine: from there come streams
//! to its ports.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, geteuid, getrlimit};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::door::join;
use crate::gateway::Event;
use crate::serve::Publishing;

mod owner;

/// How long init may take to make a socket, and a server inside to accept.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause after `accept` has failed for a lack of something, such as descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections to all ports of a session at once: each program of the machine, whichever user's, can make them.
const MOST_CONNECTIONS: u64 = 512;
/// What part of the places programs of other users may hold, so that they never have all.
const PART_OF_OTHERS: usize = 2;
/// What they may take of the process's descriptors, as a part of them. Each connection takes two or three.
const PART: u64 = 8;

/// A listener outside, and the port inside that it leads to.
pub struct Published {
    /// Where the host connects.
    pub listener: std::net::TcpListener,
    /// The port of the sandbox's loopback.
    pub port: u16,
}

/// A way to the sandbox's ports.
enum Way {
    /// A socket of the sandbox's network that is not connected.
    Socket(OwnedFd),
    /// A stream to this port.
    Stream(u16, std::os::unix::net::UnixStream),
}

/// Where sockets of the sandbox's network are handed in.
#[derive(Clone)]
pub struct SocketSupply(Sender<Way>);

/// How many that were handed in may wait.
const MOST_WAITING: usize = 64;

/// Where they are taken out.
pub struct SocketStock {
    ways: Mutex<Receiver<Way>>,
    /// Asks for a way to a port.
    ask: Box<dyn Fn(u16) + Send + Sync>,
}

/// Returns a supply and its stock; `ask` is called with the port for each socket or stream that is needed.
#[must_use]
pub fn socket_supply(ask: Box<dyn Fn(u16) + Send + Sync>) -> (SocketSupply, Arc<SocketStock>) {
    let (sender, receiver) = channel(MOST_WAITING);
    (SocketSupply(sender), Arc::new(SocketStock { ways: Mutex::new(receiver), ask }))
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
            let _ = self.0.try_send(Way::Socket(socket));
        }
    }

    /// Hands in a stream to a port of the sandbox, which the caller has made.
    pub fn put_stream(&self, port: u16, stream: OwnedFd) {
        let _ = self.0.try_send(Way::Stream(port, stream.into()));
    }
}

impl SocketStock {
    async fn take(&self, port: u16) -> io::Result<Way> {
        let mut ways = self.ways.lock().await;
        (self.ask)(port);
        let next = async {
            loop {
                match ways.recv().await {
                    // It came after its connection had given up.
                    Some(Way::Stream(other, _)) if other != port => {}
                    way => return way,
                }
            }
        };
        let taken = tokio::time::timeout(PATIENCE, next).await?;
        taken.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

/// Starts serving on the runtime of the calling task, until that runtime ends.
///
/// # Errors
/// Returns an error if a listener could not be registered.
pub(crate) fn start(publishing: &Publishing, acceptors: &mut JoinSet<()>) -> io::Result<()> {
    let places = Arc::new(Places::new(most_connections()));
    for Published { listener, port } in &publishing.published {
        let places = Arc::clone(&places);
        let listener = listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (stock, journal) = (Arc::clone(&publishing.stock), Arc::clone(&publishing.journal));
        let port = *port;
        acceptors.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, from)) => {
                        // One too many ends at once: the descriptors are those of all doors.
                        let Some(place) = places.take(&client, from) else { continue };
                        let (stock, journal) = (Arc::clone(&stock), Arc::clone(&journal));
                        tokio::spawn(async move {
                            let what = format!("port {port} inside, from {from}");
                            let event = Event::Connect { asked: &what, rule: "--publish" };
                            // What cannot be recorded does not happen.
                            journal.record(&event)?;
                            let carried = carry(client, &stock, port).await;
                            drop(place);
                            carried
                        });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        });
    }
    Ok(())
}

/// Places of connections.
struct Places {
    all: Arc<Semaphore>,
    /// Those that connections of other users may have.
    of_others: Arc<Semaphore>,
}

impl Places {
    fn new(most: usize) -> Self {
        let of_others = Semaphore::new((most / PART_OF_OTHERS).max(1));
        Self { all: Arc::new(Semaphore::new(most)), of_others: Arc::new(of_others) }
    }

    /// Returns a place for a connection, if there is one. A client that is not known to be the user's is another's.
    fn take(&self, client: &TcpStream, from: SocketAddr) -> Option<Vec<OwnedSemaphorePermit>> {
        let user = client.local_addr().and_then(|to| owner::user_of(from, to));
        let is_own = user.is_ok_and(|user| user == geteuid().as_raw());
        let needed = [Some(&self.all), (!is_own).then_some(&self.of_others)];
        needed.into_iter().flatten().map(|it| Arc::clone(it).try_acquire_owned().ok()).collect()
    }
}

fn most_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors / PART).clamp(1, MOST_CONNECTIONS) as usize
}

async fn carry(mut client: TcpStream, stock: &SocketStock, port: u16) -> io::Result<()> {
    client.set_nodelay(true)?;
    // On IPv4, or on IPv6 where no server listens there.
    let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
    for v6 in [false, true] {
        let socket = match stock.take(port).await? {
            Way::Socket(socket) => socket,
            Way::Stream(_, stream) => {
                stream.set_nonblocking(true)?;
                let mut stream = UnixStream::from_std(stream)?;
                return tokio::io::copy_bidirectional(&mut client, &mut stream).await.map(drop);
            }
        };
        let address = match (sockopt::socket_domain(&socket)?, v6) {
            (AddressFamily::INET, _) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            (_, false) => SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port)),
            (_, true) => SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        };
        let attempt = tokio::time::timeout(PATIENCE, finish(socket, address)).await?;
        match attempt {
            Ok(mut inside) => {
                inside.set_nodelay(true)?;
                return join(&mut client, &mut inside).await;
            }
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
