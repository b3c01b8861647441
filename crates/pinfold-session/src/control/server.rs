//! The session's end of its socket.

mod attached;
mod base;
mod client;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_ask::{Desk, attend};
use pinfold_boundary::{Feature, Inside};
use pinfold_host::Refusal;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::ipc::{self, Json};
use pinfold_host::launcher::record_exec;
use pinfold_host::wrappers::Launch;
use pinfold_terminal::notices::attached::Bulletin;
use pinfold_terminal::screen::Screen;
use pinfold_wire::{
    Bounds, Channel, Ended, LaunchOrder, Order, Program, Step, StreamEnd, Streams, Wire as _,
};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::bounds::Bounded;
use super::message::{Answer, Request};
use super::{NAME, Rules};
use crate::RunError;
use crate::outcome::{LimitReached, status};

pub(crate) use base::Base;
use client::{Asked, Client, State};

/// Clients at once; who comes later waits.
const MOST: usize = 512;
/// How long what a client has left behind may take to end.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of a program with its environment: what execve(2) takes at most, and more.
const LONGEST: usize = 8 << 20;
/// The first number of what clients run; those below are the session's own.
const FIRST: u32 = 1 << 31;

/// What init reports on a program that a client runs.
pub(crate) enum News {
    Terminal(OwnedFd),
    /// There was no room for the descriptor of its terminal.
    NoTerminal,
    Stopped,
    /// It is being ended, for it has reached this limit of its own.
    Limit(LimitReached),
    Failed(Step, i32, Vec<u8>),
    Ended(Ended),
}

/// A live session's end.
pub(crate) struct Control {
    listener: OwnedFd,
    /// Kept for when there is no other descriptor left.
    spare: Option<OwnedFd>,
    clients: Vec<Client>,
    /// None where nothing is handed over to the network's door.
    rules: Result<Rules, Refusal>,
    /// The session's own terminal, where it has one that can be attached to.
    screen: Option<Screen>,
    base: Base,
    audit: Arc<Audit>,
    next: u32,
    /// Kept until the session's own limits have been looked at.
    evidence: Vec<Bounded>,
    /// None where the sandbox cannot ask for anything.
    desk: Option<Arc<Desk>>,
    /// Where those who are attached hear urgent notices.
    bulletin: Option<Arc<Bulletin>>,
}

impl Control {
    /// Opens the socket in the session's private directory.
    ///
    /// # Errors
    /// Returns the errors of [`ipc::listen`].
    pub(crate) fn open(
        private: &Path,
        rules: Result<Rules, Refusal>,
        base: Base,
        audit: Arc<Audit>,
    ) -> io::Result<Self> {
        let listener = ipc::listen(private, NAME)?;
        let spare = Some(listener.try_clone()?);
        Ok(Self {
            listener,
            spare,
            clients: Vec::new(),
            rules,
            screen: None,
            base,
            audit,
            next: FIRST,
            evidence: Vec::new(),
            desk: None,
            bulletin: None,
        })
    }

    /// Returns the same, with the desk where the user is asked.
    pub(crate) fn with_desk(self, desk: Option<Arc<Desk>>) -> Self {
        Self { desk, ..self }
    }

    /// Returns the same, with where urgent notices are posted.
    pub(crate) fn with_bulletin(self, bulletin: Option<Arc<Bulletin>>) -> Self {
        Self { bulletin, ..self }
    }

    /// Returns a descriptor that is readable when somebody asks for something.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = (self.clients.len() < MOST).then(|| self.listener.as_fd());
        let here = self.clients.iter().filter(|client| client.is_here());
        listener.into_iter().chain(here.map(|client| client.channel.as_fd()))
    }

    /// Returns when to look again, whatever happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.clients.iter().filter_map(Client::due).min()
    }

    /// Answers clients, and ends what has run for too long. Returns the grace period if a client
    /// asked to stop the session.
    pub(crate) fn serve(&mut self, inside: &Inside, is_started: bool) -> Option<Duration> {
        while self.clients.len() < MOST
            && let Some(channel) = self.accept()
        {
            self.clients.push(Client::new(channel));
        }
        let mut stop = None;
        for mut client in std::mem::take(&mut self.clients) {
            if let Some((id, killed, limit)) = client.look_at_limits(inside) {
                record_exit(&self.audit, id, killed, limit);
            }
            while client.is_here() && client.has_said_something() {
                stop = self.hear(&mut client, inside, is_started).or(stop);
                if !matches!(client.state, State::Telling { .. }) {
                    break;
                }
            }
            if !matches!(client.state, State::Done) {
                self.clients.push(client);
            }
        }
        stop
    }

    /// Returns the next who comes, if it is this user.
    fn accept(&mut self) -> Option<Channel> {
        let accept = |listener: &OwnedFd| {
            rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        };
        // Another thread may have been faster with the one that was given up for somebody.
        self.spare = self.spare.take().or_else(|| self.listener.try_clone().ok());
        loop {
            match accept(&self.listener) {
                Ok(socket) => {
                    // The directory keeps other users away; a descriptor may still have been passed on.
                    let peer = rustix::net::sockopt::socket_peercred(&socket);
                    let channel = Channel::from(socket);
                    if peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid()) {
                        return Some(channel);
                    }
                    let why = "this is another user's session";
                    // A client that does not hear it sees the end.
                    let _ = channel.send(&Json(Answer::error(why)), &[]);
                }
                Err(Errno::MFILE | Errno::NFILE) => {
                    // The descriptor that was kept for this is closed, so that a client can be
                    // notified.
                    drop(self.spare.take()?);
                    let sent = accept(&self.listener).map(|socket| {
                        Channel::from(socket).send(&Json(Answer::error(no_descriptor())), &[])
                    });
                    self.spare = self.listener.try_clone().ok();
                    sent.ok()?.ok()?;
                }
                Err(_) => return None,
            }
        }
    }

    /// Passes on what init reports on a program. One that nobody waits for has been let go.
    pub(crate) fn report(&mut self, inside: &Inside, id: u32, news: News) {
        let is_its = |client: &&mut Client| client.id() == Some(id);
        let Some(client) = self.clients.iter_mut().find(is_its) else { return };
        let over = match client.state {
            State::Running { over, .. } => over,
            _ => None,
        };
        let is_last = matches!(news, News::Failed(..) | News::Ended(_) | News::NoTerminal);
        match news {
            News::Terminal(terminal) => client.answer(Answer::Terminal, &[terminal.as_fd()]),
            News::NoTerminal => {
                let _ = inside.order(&Order::EndTask(id));
                client.answer(Answer::error(no_descriptor()), &[]);
            }
            News::Stopped => client.answer(Answer::Stopped, &[]),
            News::Limit(limit) => client.is_over(limit),
            // Its streams were lost on their way.
            News::Failed(_, libc::EMFILE, what) if what.is_empty() => {
                client.answer(Answer::error(no_descriptor()), &[]);
            }
            News::Failed(Step::Directory, errno, what) => {
                let error = RunError::not_begun(Step::Directory, errno, &what);
                client.answer(Answer::error(Refusal::of(error)), &[]);
            }
            News::Failed(_, errno, what) => client.answer(Answer::Failed(errno, what), &[]),
            News::Ended(ended) => {
                let limit = over.or_else(|| client.bounded.as_ref().and_then(Bounded::reached));
                record_exit(&self.audit, id, ended, limit);
                client.answer(Answer::ended(ended, limit), &[]);
            }
        }
        if is_last {
            self.evidence.extend(client.bounded.take_if(|bounded| bounded.is_evidence()));
            if matches!(client.state, State::Left { .. }) {
                // What it has started is nobody's any more, either.
                let _ = inside.order(&Order::EndTask(id));
            }
            client.state = State::Done;
        }
        self.clients.retain(|client| !matches!(client.state, State::Done));
    }

    /// Takes one message of a client's, whose state is what it has said so far. One that talks
    /// nonsense or has gone is done.
    fn hear(&mut self, client: &mut Client, inside: &Inside, is_started: bool) -> Option<Duration> {
        match std::mem::replace(&mut client.state, State::Done) {
            State::New => return self.hear_request(client, inside, is_started),
            State::Telling { asked, program } => {
                self.hear_program(client, asked, program, inside);
            }
            State::Running { id, deadline, over } => {
                match client.channel.receive::<Json<Request>>() {
                    Ok(Some(received)) => {
                        let order = match received.message.0 {
                            Request::Signal(signal) => Some(Order::SignalTask { id, signal }),
                            Request::Kill => Some(Order::EndTask(id)),
                            _ => None,
                        };
                        // An init that has gone has ended it.
                        order.map(|order| inside.order(&order));
                        client.state = State::Running { id, deadline, over };
                    }
                    Ok(None) | Err(_) => {
                        let hang_up = Order::SignalTask { id, signal: libc::SIGHUP };
                        let _ = inside.order(&hang_up);
                        client.state = State::Left { id, kill: Some(Instant::now() + GRACE) };
                    }
                }
            }
            State::Attached(seat) => self.hear_attached(client, seat),
            // It does not wait any more.
            State::Waiting | State::Left { .. } | State::Done => {}
        }
        None
    }

    fn hear_request(
        &mut self,
        client: &mut Client,
        inside: &Inside,
        is_started: bool,
    ) -> Option<Duration> {
        let received = client.channel.receive::<Json<Request>>().ok().flatten()?;
        match received.message.0 {
            Request::Change(change) => {
                let changed = match &self.rules {
                    Ok(rules) => rules.change(&change),
                    Err(why) => Err(Refusal::new(format!("this session reaches no host: {why}"))
                        .with_hint(why.hint().map(str::to_owned))),
                };
                client.answer(changed.map_or_else(Answer::error, Answer::Rules), &[]);
            }
            Request::Exec { .. } | Request::Tools if !is_started => {
                client.answer(Answer::error("the session is still starting"), &[]);
            }
            Request::Exec { user: Some(user), .. } if !self.base.is_user(&user) => {
                client.answer(Answer::error(base::only_user(&user)), &[]);
            }
            Request::Exec { timeout, user: _, files, nice, limits } => {
                let timeout = timeout.map(Duration::from_millis);
                let bounds = Bounds { files, nice, ..Bounds::default() };
                let asked = Asked { timeout, bounds, limits };
                client.state = State::Telling { asked, program: Vec::new() };
            }
            Request::Tools => {
                let served = self.serve_tools(&received.descriptors, inside);
                client.answer(served.map_or_else(Answer::error, |()| Answer::Done), &[]);
            }
            Request::Attach { window, with_notices } if is_started => {
                self.attach(client, window, with_notices)
            }
            Request::Attach { .. } => {
                client.answer(Answer::error("the session is still starting"), &[]);
            }
            // There is nothing to send yet.
            Request::Signal(_) | Request::Kill | Request::Window(_) => {}
            Request::Approvals => {
                // It is served by a thread of its own: a user's answer takes its time.
                if let Ok(socket) = client.channel.as_fd().try_clone_to_owned() {
                    attend(Channel::from(socket), self.desk.as_ref());
                }
            }
            Request::Stop { grace } => {
                client.state = State::Waiting;
                return Some(Duration::from_millis(grace));
            }
        }
        None
    }

    fn hear_program(
        &mut self,
        client: &mut Client,
        asked: Asked,
        mut program: Vec<u8>,
        inside: &Inside,
    ) {
        let Ok(Some(received)) = client.channel.receive::<LaunchOrder>() else { return };
        match received.message {
            LaunchOrder::Part(part) if program.len() + part.len() <= LONGEST => {
                program.extend(part);
                client.state = State::Telling { asked, program };
            }
            LaunchOrder::Command { rest, streams } => {
                program.extend(rest);
                let wanted = streams.ends.iter().filter(|end| **end == StreamEnd::Descriptor);
                if wanted.count() > received.descriptors.len() {
                    return client.answer(Answer::error(no_descriptor()), &[]);
                }
                match self.run(&program, asked, streams, received.descriptors, inside) {
                    Ok((id, bounded)) => {
                        let timeout = asked.timeout;
                        let deadline = timeout.and_then(|time| Instant::now().checked_add(time));
                        client.state = State::Running { id, deadline, over: None };
                        client.bounded = bounded;
                    }
                    Err(why) => client.answer(Answer::error(why), &[]),
                }
            }
            _ => {}
        }
    }

    /// Has tools served for a client, which is recorded before.
    fn serve_tools(&self, sockets: &[OwnedFd], inside: &Inside) -> Result<(), Refusal> {
        let socket = sockets.first().ok_or("a socket was to come along")?;
        self.audit.record(&Event::Tools)?;
        let (roots, cwd) = (self.base.roots.clone(), self.base.cwd.clone());
        let sent = inside.order_with(&Order::Tools { roots, cwd }, &[socket.as_fd()]);
        sent.map_err(|_| Refusal::new("the session has ended"))
    }

    /// Has a client's program run, which is recorded before.
    fn run(
        &mut self,
        program: &[u8],
        asked: Asked,
        streams: Streams,
        mut descriptors: Vec<OwnedFd>,
        inside: &Inside,
    ) -> Result<(u32, Option<Bounded>), Refusal> {
        if streams.wants_terminal() && self.base.lacks.contains(&Feature::Terminal) {
            let boundary = self.base.boundary;
            let what = format!("the session's boundary, {boundary}, has no terminal");
            return Err(Refusal::new(what).with_hint("say --no-tty".to_owned()));
        }
        let mut bounds = asked.bounds;
        let bounded = asked.limits.bound(inside, &mut bounds);
        let (bounded, groups) = bounded.map_err(Refusal::of)?;
        descriptors.extend(groups);
        let asked = Program::decode(program).map_err(Refusal::of)?;
        let program = self.base.complete(asked);
        let ignored = program.ignored;
        let launch = Launch::of_program(program);
        let launch = self.base.launcher.wrapped(self.base.boundary, launch)?;
        let id = self.next;
        record_exec(&self.audit, &launch, id - FIRST).map_err(Refusal::of)?;
        let program = Program { ignored, ..launch.into_program() };
        self.next = self.next.checked_add(1).unwrap_or(FIRST);
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let sent = inside.run(id, bounds, &program, streams, &borrowed);
        sent.map_err(|_| Refusal::new("the session has ended"))?;
        Ok((id, bounded))
    }
}

/// Records the end of a program. It has happened, whether or not that can be recorded.
fn record_exit(audit: &Audit, id: u32, ended: Ended, limit: Option<LimitReached>) {
    let (number, status) = (id.checked_sub(FIRST), status(ended, limit));
    let _ = audit.record(&Event::Exit { number, status, limit: limit.map(LimitReached::name) });
}

/// Returns the message for a client when no descriptor is left.
fn no_descriptor() -> String {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .map_or("as many as it likes".to_owned(), |most| most.to_string());
    format!(
        "the session has as many files open as its supervisor may, or its user as many on their way \
         between processes (RLIMIT_NOFILE: {most})"
    )
}
