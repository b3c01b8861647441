//! Doors in a guest: what connects to one is carried to the host, which decides.
//!
//! The sockets are the ones that every sandbox has, in its network. A connection becomes a stream to the host, and so
//! does each datagram with its answer.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use pinfold_boundary::container::open_doors;
use pinfold_boundary::{Door, DoorRequest};
use pinfold_mux::{GuestFerry, Local, StreamId};
use pinfold_wire::Wire as _;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, sockopt,
};

/// Streams that are left for what init needs.
const RESERVED: u32 = 16;
/// Datagrams that wait for their answers at once. Who is not answered asks again.
const MOST_QUESTIONS: usize = 32;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest datagram (`MAX_MESSAGE` of the channel is larger).
const LARGEST: usize = 16 * 1024;

/// What listens.
#[derive(Debug)]
struct Listener {
    door: u32,
    socket: OwnedFd,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connections,
    /// Connections to addresses, which the host gets to know.
    Outward,
    Datagrams,
}

/// A datagram whose answer has not come.
#[derive(Debug)]
struct Question {
    listener: usize,
    from: SocketAddrAny,
    stream: StreamId,
    /// Where the answer comes.
    answer: OwnedFd,
    until: Instant,
}

/// The doors of a guest's sandbox.
#[derive(Debug, Default)]
pub(super) struct Doors {
    listeners: Vec<Listener>,
    questions: Vec<Question>,
}

impl Doors {
    /// Opens them.
    ///
    /// # Errors
    /// Returns the errors of [`open_doors`].
    pub(super) fn open(doors: &[Door], ids: (u32, u32)) -> Result<Self, Errno> {
        let listener = |(index, socket): (usize, OwnedFd)| {
            let kind = match doors[index] {
                Door::Unix(_) | Door::Listener(_) => Kind::Connections,
                Door::Outward(_) => Kind::Outward,
                Door::Datagrams(_) => Kind::Datagrams,
            };
            Listener { door: index as u32, socket, kind }
        };
        let listeners = open_doors(doors, ids)?.into_iter().map(listener).collect();
        Ok(Self { listeners, questions: Vec::new() })
    }

    /// Returns what is to be watched: the doors, unless there is no stream for what comes, and where answers come.
    pub(super) fn watched(&self, ferry: &GuestFerry) -> Vec<BorrowedFd<'_>> {
        let is_open = ferry.opens_left() > RESERVED;
        let listeners = self.listeners.iter().filter(|_| is_open);
        let answers = self.questions.iter().map(|question| question.answer.as_fd());
        answers.chain(listeners.map(|listener| listener.socket.as_fd())).collect()
    }

    /// Returns how long to wait until there is something to do, if nothing comes.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let first = self.questions.iter().map(|question| question.until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// Does what there is to do, by what of [`Self::watched`] can be read.
    pub(super) fn serve(&mut self, ready: &[bool], ferry: &mut GuestFerry) {
        let (answered, opened) = ready.split_at(self.questions.len());
        let mut answered = answered.iter();
        let listeners = &self.listeners;
        self.questions.retain(|question| {
            let is_answered = answered.next() == Some(&true);
            if is_answered {
                question.pass_on(&listeners[question.listener].socket);
            }
            let is_over = is_answered || question.until <= Instant::now();
            if is_over {
                ferry.refuse_stream(question.stream);
            }
            !is_over
        });
        for (index, _) in opened.iter().enumerate().filter(|(_, is_ready)| **is_ready) {
            if ferry.opens_left() > RESERVED {
                // What breaks is the program's own connection.
                let _ = match self.listeners[index].kind {
                    Kind::Datagrams => self.ask(index, ferry),
                    Kind::Connections | Kind::Outward => self.listeners[index].accept(ferry),
                };
            }
        }
    }

    /// Carries a datagram.
    fn ask(&mut self, index: usize, ferry: &mut GuestFerry) -> Result<(), Errno> {
        let Listener { door, socket, .. } = &self.listeners[index];
        let mut buffer = [MaybeUninit::uninit(); LARGEST];
        let ((bytes, _), _, from) =
            rustix::net::recvfrom(socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        let from = from.ok_or(Errno::DESTADDRREQ)?;
        if bytes.is_empty() || self.questions.len() >= MOST_QUESTIONS {
            return Err(Errno::NOBUFS);
        }
        let (answer, far) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        rustix::net::send(&answer, bytes, SendFlags::NOSIGNAL)?;
        let label = DoorRequest { door: *door, to: None }.encode();
        let stream = ferry.open_stream(&label, Local::messages(far)?).map_err(|_| Errno::NOBUFS)?;
        let until = Instant::now() + PATIENCE;
        self.questions.push(Question { listener: index, from, stream, answer, until });
        Ok(())
    }
}

impl Listener {
    /// Carries a connection.
    fn accept(&self, ferry: &mut GuestFerry) -> Result<(), Errno> {
        let stream = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        let to = if self.kind == Kind::Outward {
            // The socket's own address is the one that was asked for (`IP_TRANSPARENT`).
            let to = SocketAddr::try_from(rustix::net::getsockname(&stream)?);
            Some(to.map_err(|_| Errno::AFNOSUPPORT)?)
        } else {
            None
        };
        // A Unix socket has no such option.
        let _ = sockopt::set_tcp_nodelay(&stream, true);
        let label = DoorRequest { door: self.door, to }.encode();
        let opened = ferry.open_stream(&label, Local::socket(stream)?);
        opened.map(drop).map_err(|_| Errno::NOBUFS)
    }
}

impl Question {
    /// Passes the answer on. One that cannot be sent is asked for again.
    fn pass_on(&self, socket: &OwnedFd) {
        let mut buffer = [MaybeUninit::uninit(); LARGEST];
        let received = rustix::net::recv(&self.answer, &mut buffer[..], RecvFlags::DONTWAIT);
        if let Ok(((bytes, _), 1..)) = received {
            let _ = rustix::net::sendto(socket, bytes, SendFlags::DONTWAIT, &self.from);
        }
    }
}
