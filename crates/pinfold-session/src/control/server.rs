//! The session's end of its socket.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_boundary::Inside;
use pinfold_wire::{Channel, Ended, Order, Program, Streams, Wire as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::message::{Answer, Request, TimeOver};
use super::{NAME, Rules};
use crate::audit::{Audit, Event};
use crate::broker::{self, Approvals};
use crate::run::{record_launch, wrapped};
use crate::talk::{self, Json};
use crate::wrappers::Launch;

/// Clients at once; who comes later waits.
const MOST: usize = 512;
/// How long what a client has left behind may take to end.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of a program with its environment: what execve(2) takes at most, and more.
const LONGEST: usize = 8 << 20;
/// The first number of what clients run; those below are the session's own.
const FIRST: u32 = 1 << 31;

/// What clients' programs are given unless they say otherwise.
pub(crate) struct Base {
    /// The command's environment, and what was added to it since (`NAME=VALUE`).
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) variables: Vec<Vec<u8>>,
    /// The command's working directory.
    pub(crate) cwd: Vec<u8>,
    /// Where the session's tools may go: absolute paths inside.
    pub(crate) roots: Vec<Vec<u8>>,
}

/// What init tells of a program that a client runs.
pub(crate) enum News {
    Terminal(OwnedFd),
    Stopped,
    Failed(i32, Vec<u8>),
    Ended(Ended),
}

/// A live session's end.
pub(crate) struct Control {
    listener: OwnedFd,
    clients: Vec<Client>,
    /// None where nothing is handed over to the network's door.
    rules: Option<Rules>,
    base: Base,
    audit: Arc<Audit>,
    next: u32,
    /// None where the inside cannot ask for commands on the host.
    approvals: Option<Arc<Approvals>>,
}

struct Client {
    channel: Channel,
    state: State,
}

enum State {
    /// It has yet to say what it wants.
    New,
    /// It is saying what to run.
    Telling {
        timeout: Option<Duration>,
        program: Vec<u8>,
    },
    Running {
        id: u32,
        deadline: Option<Instant>,
        over: TimeOver,
    },
    /// It has gone, and what it ran is to end.
    Left {
        id: u32,
        kill: Option<Instant>,
    },
    /// It waits for the session's end.
    Waiting,
    /// There is nothing more to say.
    Done,
}

impl Control {
    /// Opens the socket in the session's private directory.
    ///
    /// # Errors
    /// As [`talk::listen`].
    pub(crate) fn open(
        private: &Path,
        rules: Option<Rules>,
        base: Base,
        audit: Arc<Audit>,
    ) -> io::Result<Self> {
        let listener = talk::listen(private, NAME)?;
        let (clients, approvals) = (Vec::new(), None);
        Ok(Self { listener, clients, rules, base, audit, next: FIRST, approvals })
    }

    /// The same, with requests that wait for answers.
    pub(crate) fn with_approvals(self, approvals: Option<Arc<Approvals>>) -> Self {
        Self { approvals, ..self }
    }

    /// Readable when somebody asks for something.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = (self.clients.len() < MOST).then(|| self.listener.as_fd());
        let here = self.clients.iter().filter(|client| !matches!(client.state, State::Left { .. }));
        listener.into_iter().chain(here.map(|client| client.channel.as_fd()))
    }

    /// When to look again, whatever happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = |client: &Client| match client.state {
            State::Running { deadline, .. } => deadline,
            State::Left { kill, .. } => kill,
            State::New | State::Telling { .. } | State::Waiting | State::Done => None,
        };
        self.clients.iter().filter_map(due).min()
    }

    /// Answers whoever asks, and ends what has run for too long. Gives the patience of somebody who
    /// wants the session to end.
    pub(crate) fn serve(&mut self, inside: &Inside, is_started: bool) -> Option<Duration> {
        while self.clients.len() < MOST
            && let Ok(socket) = rustix::net::accept_with(
                &self.listener,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            )
        {
            // The directory keeps other users away; a descriptor may still have been passed on.
            let peer = rustix::net::sockopt::socket_peercred(&socket);
            if peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid()) {
                self.clients.push(Client { channel: Channel::from(socket), state: State::New });
            }
        }
        let mut stop = None;
        for mut client in std::mem::take(&mut self.clients) {
            client.look_at_time(inside);
            if !matches!(client.state, State::Left { .. }) && client.has_said_something() {
                stop = self.hear(&mut client, inside, is_started).or(stop);
            }
            if !matches!(client.state, State::Done) {
                self.clients.push(client);
            }
        }
        stop
    }

    /// Passes on what init tells of a program. One that nobody waits for has been let go.
    pub(crate) fn tell(&mut self, inside: &Inside, id: u32, news: News) {
        let is_its = |client: &&mut Client| client.id() == Some(id);
        let Some(client) = self.clients.iter_mut().find(is_its) else { return };
        let over = match client.state {
            State::Running { over, .. } => over,
            _ => TimeOver::No,
        };
        let is_last = matches!(news, News::Failed(..) | News::Ended(_));
        match news {
            News::Terminal(terminal) => client.answer(Answer::Terminal, &[terminal.as_fd()]),
            News::Stopped => client.answer(Answer::Stopped, &[]),
            News::Failed(errno, what) => client.answer(Answer::Failed(errno, what), &[]),
            News::Ended(ended) => client.answer(Answer::ended(ended, over), &[]),
        }
        if is_last {
            if matches!(client.state, State::Left { .. }) {
                // What it has started is nobody's any more, either.
                let _ = inside.channel.send(&Order::EndTask(id), &[]);
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
            State::Telling { timeout, program } => {
                self.hear_program(client, (timeout, program), inside);
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
                        order.map(|order| inside.channel.send(&order, &[]));
                        client.state = State::Running { id, deadline, over };
                    }
                    Ok(None) | Err(_) => {
                        let hang_up = Order::SignalTask { id, signal: libc::SIGHUP };
                        let _ = inside.channel.send(&hang_up, &[]);
                        client.state = State::Left { id, kill: Some(Instant::now() + GRACE) };
                    }
                }
            }
            // It does not wait any more.
            State::Waiting | State::Left { .. } | State::Done => {}
        }
        None
    }

    fn hear_request(
        &self,
        client: &mut Client,
        inside: &Inside,
        is_started: bool,
    ) -> Option<Duration> {
        let received = client.channel.receive::<Json<Request>>().ok().flatten()?;
        match received.message.0 {
            Request::Change(change) => {
                let none = || Err("this session has no network to be changed".to_owned());
                let changed = self.rules.as_ref().map_or_else(none, |rules| rules.change(&change));
                client.answer(changed.map_or_else(Answer::Error, Answer::Rules), &[]);
            }
            Request::Exec { .. } | Request::Tools if !is_started => {
                client.answer(Answer::Error("the session is still starting".to_owned()), &[]);
            }
            Request::Exec { timeout } => {
                let timeout = timeout.map(Duration::from_millis);
                client.state = State::Telling { timeout, program: Vec::new() };
            }
            Request::Tools => {
                let served = self.serve_tools(&received.descriptors, inside);
                client.answer(served.map_or_else(Answer::Error, |()| Answer::Done), &[]);
            }
            // There is nothing to be told yet.
            Request::Signal(_) | Request::Kill => {}
            Request::Approvals => {
                // It is served beside this loop: a person's answer takes its time.
                if let Ok(socket) = client.channel.as_fd().try_clone_to_owned() {
                    broker::attend(Channel::from(socket), self.approvals.as_ref());
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
        (timeout, mut program): (Option<Duration>, Vec<u8>),
        inside: &Inside,
    ) {
        let Ok(Some(received)) = client.channel.receive::<Order>() else { return };
        match received.message {
            Order::Part(part) if program.len() + part.len() <= LONGEST => {
                program.extend(part);
                client.state = State::Telling { timeout, program };
            }
            Order::Command { rest, streams } => {
                program.extend(rest);
                match self.run(&program, (streams, received.descriptors), inside) {
                    Ok(id) => {
                        let deadline = timeout.and_then(|time| Instant::now().checked_add(time));
                        client.state = State::Running { id, deadline, over: TimeOver::No };
                    }
                    Err(why) => client.answer(Answer::Error(why), &[]),
                }
            }
            _ => {}
        }
    }

    /// Has tools served for a client, which is recorded before.
    fn serve_tools(&self, sockets: &[OwnedFd], inside: &Inside) -> Result<(), String> {
        let socket = sockets.first().ok_or("a socket was to come along")?;
        self.audit.record(&Event::Tools).map_err(|error| error.to_string())?;
        let (roots, cwd) = (self.base.roots.clone(), self.base.cwd.clone());
        let sent = inside.channel.send(&Order::Tools { roots, cwd }, &[socket.as_fd()]);
        sent.map_err(|_| "the session has ended".to_owned())
    }

    /// Has a client's program run, which is recorded before.
    fn run(
        &mut self,
        program: &[u8],
        (streams, descriptors): (Streams, Vec<OwnedFd>),
        inside: &Inside,
    ) -> Result<u32, String> {
        let told = Program::decode(program).map_err(|error| error.to_string())?;
        let program = self.base.complete(told);
        let launch = wrapped(Launch::of_program(program)).map_err(|error| error.to_string())?;
        record_launch(&self.audit, &launch).map_err(|error| error.to_string())?;
        let program = launch.into_program();
        let id = self.next;
        self.next = self.next.checked_add(1).unwrap_or(FIRST);
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let sent = inside.channel.run(id, &program, streams, &borrowed);
        sent.map_err(|_| "the session has ended".to_owned())?;
        Ok(id)
    }
}

impl Base {
    /// What a client has said, and what it has left to the session: a shell for no words.
    fn complete(&self, told: Program) -> Program {
        let name =
            |variable: &[u8]| variable.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        let own = self.env.iter().map(|(name, value)| {
            let value = value.as_bytes();
            [name.as_bytes(), b"=", value].concat()
        });
        let mut env: Vec<Vec<u8>> = Vec::new();
        for variable in own.chain(self.variables.iter().cloned()).chain(told.env) {
            env.retain(|other| name(other) != name(&variable));
            env.push(variable);
        }
        let shell = env.iter().find_map(|variable| variable.strip_prefix(b"SHELL="));
        let shell = vec![shell.unwrap_or(b"/bin/sh").to_vec()];
        let argv = if told.argv.is_empty() { shell } else { told.argv };
        let cwd = if told.cwd.is_empty() { self.cwd.clone() } else { told.cwd };
        Program { argv, env, cwd }
    }
}

impl Client {
    fn id(&self) -> Option<u32> {
        match self.state {
            State::Running { id, .. } | State::Left { id, .. } => Some(id),
            State::New | State::Telling { .. } | State::Waiting | State::Done => None,
        }
    }

    /// One that does not take its answers is its own loss.
    fn answer(&mut self, answer: Answer, descriptors: &[BorrowedFd<'_>]) {
        if self.channel.send(&Json(answer), descriptors).is_err()
            && let State::Running { id, .. } = self.state
        {
            self.state = State::Left { id, kill: Some(Instant::now()) };
        }
    }

    fn has_said_something(&self) -> bool {
        let mut ready = [PollFd::new(&self.channel, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&at_once)));
        ready == Ok::<_, Errno>(1)
    }

    fn look_at_time(&mut self, inside: &Inside) {
        let (State::Running { id, deadline: due, .. } | State::Left { id, kill: due }) =
            &mut self.state
        else {
            return;
        };
        if due.is_none_or(|due| Instant::now() < due) {
            return;
        }
        let _ = inside.channel.send(&Order::EndTask(*id), &[]);
        // That it has ended is told by what the inside can stop: then it is not waited for.
        *due = Some(Instant::now() + GRACE);
        match &mut self.state {
            State::Running { over: over @ TimeOver::No, .. } => *over = TimeOver::Yes,
            State::Running { .. } => {
                let killed = Ended::Signal(libc::SIGKILL as u8);
                self.answer(Answer::ended(killed, TimeOver::Yes), &[]);
                self.state = State::Done;
            }
            _ => {}
        }
    }
}
