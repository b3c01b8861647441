//! A running inside, as its supervisor holds it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use pinfold_wire::{Bounds, Channel, ChannelError, Cover, LastSteps, Order, Step, Streams};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Capabilities;
use crate::container::{Runtime, Said};
use crate::managed::Kept;
use crate::namespace::{Group, HandedGroup};
use crate::plan::{Program, Stdio};

/// Why an inside could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The kernel refused new namespaces.
    #[error("cannot make a user namespace: {cause}")]
    Namespaces {
        /// Why, in words.
        cause: String,
        /// What to do.
        cure: String,
    },
    /// A source of a grant cannot be used.
    #[error("cannot grant {path}: {source}")]
    Source {
        /// The host path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A limit that was asked for cannot be enforced here.
    #[error("cannot enforce the {limit} limit: {cause}")]
    Limit {
        /// Which.
        limit: &'static str,
        /// Why.
        cause: String,
    },
    /// A wall that the policy requires is missing.
    #[error("{what}")]
    Wall {
        /// Which, and why.
        what: String,
    },
    /// The kernel or a file system cannot make a copy-on-write view.
    #[error("cannot make a copy-on-write view of {path}: {cause}")]
    View {
        /// The directory.
        path: String,
        /// Why, in words.
        cause: String,
    },
    /// A step inside failed.
    #[error("failed while {}{}: {source}", step.words(), detail_words(detail))]
    Step {
        /// Where.
        step: Step,
        /// The path or value that it was about.
        detail: String,
        /// What the system said.
        source: io::Error,
    },
    /// A container engine cannot run the inside.
    #[error("the container engine {engine} cannot be used: {said}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// Why, in words, or what it said itself.
        said: String,
        /// What to do.
        cure: Option<String>,
    },
    /// Init ended without a word.
    #[error("init ended during the start without a word")]
    Silent,
    /// The control channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Anything else that the system said.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

fn detail_words(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail})") }
}

impl LaunchError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Namespaces { cure, .. } => Some(cure),
            Self::Engine { cure, .. } => cure.as_deref(),
            Self::Limit { .. } => {
                Some("run inside a delegated control group, or leave that limit out")
            }
            Self::Source { source, .. } | Self::Step { step: Step::Grants, source, .. }
                if Errno::from_io_error(source) == Some(Errno::LOOP) =>
            {
                Some(
                    "a symbolic link was put there after the path was looked at: see who writes there",
                )
            }
            _ => None,
        }
    }
}

/// The sockets of an inside's doors.
#[derive(Debug)]
pub struct Doors {
    /// One for each door of the plan; two for [`crate::Door::Outward`] where there is IPv6.
    pub sockets: Vec<OwnedFd>,
    /// Whether connections to other addresses are handed to the outward door. Where not, they
    /// fail at once, and only programs that use a proxy can reach it.
    pub handed_over: bool,
}

/// A running inside.
#[derive(Debug)]
pub struct Inside {
    /// The control channel to init.
    pub channel: Channel,
    /// A descriptor of init: readable when the whole inside has ended.
    pub init: OwnedFd,
    /// The control group, if there is one.
    pub group: Option<Group>,
    /// What is enforced for this inside.
    pub enforced: Capabilities,
    /// What is for the init that an engine starts, if one does.
    pub(crate) engine: Option<Waiting>,
    /// What is kept of a container that something else manages.
    pub(crate) managed: Option<Kept>,
    pub(crate) relation: Relation,
}

/// What waits until an engine can start init: there is nobody before who could hear it.
#[derive(Debug)]
pub(crate) struct Waiting {
    steps: LastSteps,
    command: Option<(pinfold_wire::Program, Stdio)>,
    said: Said,
    /// Where sockets are asked for, if that is not init.
    outlets: Option<Channel>,
}

impl Waiting {
    /// For an engine that is about to be started.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(engine: &Runtime, steps: LastSteps) -> Result<Self, LaunchError> {
        let failed =
            |source| LaunchError::System { what: "cannot keep what the engine says", source };
        let (said, outlets) = (engine.said().map_err(failed)?, engine.outlets().map_err(failed)?);
        Ok(Self { steps, command: None, said, outlets })
    }
}

/// How the process that holds an inside stands to its init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Its parent: ends it and reaps it.
    Parent,
    /// It was handed this inside by the parent, who reaps.
    Adopted,
    /// It has handed this inside to another.
    Released,
}

/// What of an inside, beside its two descriptors, goes to another process that is to hold it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Handover {
    group: Option<HandedGroup>,
    enforced: Capabilities,
}

impl Inside {
    /// Waits for the doors' sockets, in the plan's order; call it once, when the plan has doors.
    ///
    /// # Errors
    /// A failed start, or an init that says something else.
    pub fn doors(&self) -> Result<Doors, LaunchError> {
        let Some(received) = self.channel.receive::<pinfold_wire::Report>()? else {
            return Err(LaunchError::Silent);
        };
        match received.message {
            pinfold_wire::Report::Listening { handed_over } => {
                Ok(Doors { sockets: received.descriptors, handed_over })
            }
            report => Err(failure(report)),
        }
    }

    /// Says what the command will be; call it once, before the inside is sealed. Only the inside's
    /// copies of the streams stay open.
    ///
    /// # Errors
    /// The failure of a start, in its raw form.
    pub fn command(&mut self, program: &Program, stdio: Stdio) -> Result<(), LaunchError> {
        let program = program.to_wire();
        if let Some(engine) = &mut self.engine {
            engine.command = Some((program, stdio));
            return Ok(());
        }
        self.send_command(&program, &stdio).map_err(|_| self.last_words())
    }

    fn send_command(
        &self,
        program: &pinfold_wire::Program,
        stdio: &Stdio,
    ) -> Result<(), ChannelError> {
        let (streams, descriptors) = stdio.to_wire();
        self.channel.command(program, streams, &descriptors)
    }

    /// Has these last covers put in place and the inside closed. An engine starts init then.
    ///
    /// # Errors
    /// The failure of a start, in its raw form.
    pub fn seal(&mut self, covers: Vec<Cover>) -> Result<(), LaunchError> {
        self.channel.seal(covers).map_err(|_| self.last_words())?;
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let command = engine.command.take();
        engine.said.wait(&self.channel)?;
        match self.channel.receive::<pinfold_wire::Report>() {
            Ok(Some(received)) if received.message == pinfold_wire::Report::Born => {}
            Ok(Some(received)) => return Err(failure(received.message)),
            Ok(None) | Err(_) => return Err(self.silence()),
        }
        let Some(engine) = &self.engine else { return Ok(()) };
        let told = self.channel.last_steps(&engine.steps).and_then(|()| match command {
            Some((program, stdio)) => self.send_command(&program, &stdio),
            None => Ok(()),
        });
        told.map_err(|_| self.last_words())
    }

    /// From now on an init that takes no orders for so long is one that is gone ([`Self::order`]).
    ///
    /// # Errors
    /// What setsockopt(2) says.
    pub fn limit_patience(&self, patience: Duration) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.channel, Timeout::Send, Some(patience))?)
    }

    /// Gives an order. Where it cannot be given the inside ends: an init that is gone has ended it
    /// already, and one that takes no orders must not keep its supervisor from anything.
    ///
    /// # Errors
    /// What [`Channel::send`] says.
    pub fn order(&self, order: &Order) -> Result<(), ChannelError> {
        self.order_with(order, &[])
    }

    /// Asks for a socket of the inside's network, which comes as a report.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub fn order_socket(&self) -> Result<(), ChannelError> {
        match self.engine.as_ref().and_then(|engine| engine.outlets.as_ref()) {
            Some(outlets) => outlets.send(&Order::Socket, &[]),
            None => self.order(&Order::Socket),
        }
    }

    /// The same with descriptors.
    ///
    /// # Errors
    /// The same.
    pub fn order_with(
        &self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        self.channel.send(order, descriptors).inspect_err(|_| self.kill())
    }

    /// Orders a program to be run beside the command, whose end is told by this id.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub fn run(
        &self,
        id: u32,
        bounds: Bounds,
        program: &pinfold_wire::Program,
        streams: Streams,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let sent = self.channel.run(id, bounds, program, streams, descriptors);
        sent.inspect_err(|_| self.kill())
    }

    /// What init said before it went.
    pub fn last_words(&self) -> LaunchError {
        match self.channel.receive::<pinfold_wire::Report>() {
            Ok(Some(received)) => failure(received.message),
            Ok(None) | Err(_) => self.silence(),
        }
    }

    /// What a start that ended without a word ended of.
    fn silence(&self) -> LaunchError {
        self.engine.as_ref().map_or(LaunchError::Silent, |engine| engine.said.error())
    }

    /// What to say where this inside has ended by itself before its command, if an engine has made it.
    #[must_use]
    pub fn engine_gone(&self) -> Option<String> {
        let own = self.engine.as_ref().map(|engine| engine.said.gone());
        own.or_else(|| self.managed.as_ref().map(Kept::gone))
    }

    /// What another process needs to hold this inside, beside [`Self::channel`] and [`Self::init`].
    #[must_use]
    pub fn handover(&self) -> Handover {
        Handover { group: self.group.as_ref().map(Group::handed), enforced: self.enforced }
    }

    /// Lets go of an inside that another process holds now. Its init stays this process's child.
    ///
    /// # Errors
    /// No descriptor is left to see its end by; the inside is ended.
    pub fn release(mut self) -> io::Result<Released> {
        let init = self.init.try_clone()?;
        self.relation = Relation::Released;
        Ok(Released { init, _group: self.group.take() })
    }

    /// Takes an inside that another process has made and released.
    #[must_use]
    pub fn adopt(channel: OwnedFd, init: OwnedFd, handover: Handover) -> Self {
        let Handover { group, enforced } = handover;
        let group = group.map(Group::from);
        let channel = Channel::from(channel);
        Self {
            channel,
            init,
            group,
            enforced,
            engine: None,
            managed: None,
            relation: Relation::Adopted,
        }
    }

    /// Ends the whole inside at once.
    pub fn kill(&self) {
        // An init that has ended already is what was wanted.
        let _ = rustix::process::pidfd_send_signal(&self.init, rustix::process::Signal::KILL);
    }

    /// Waits for init's end, and reaps it where that is this process's to do. Every process inside
    /// has ended when this returns.
    ///
    /// # Errors
    /// What waitid(2) or poll(2) says.
    pub fn reap(&self) -> io::Result<()> {
        match self.relation {
            Relation::Parent => reap(&self.init)?,
            Relation::Adopted => {
                let mut ended = [PollFd::new(&self.init, PollFlags::IN)];
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, None))?;
            }
            Relation::Released => {}
        }
        Ok(())
    }

    /// The descriptor that is readable when everything inside has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }
}

impl Drop for Inside {
    /// Whatever goes wrong in the caller, no inside outlives its supervisor's hold on it.
    fn drop(&mut self) {
        if self.relation == Relation::Released {
            return;
        }
        self.kill();
        // Reaped already is fine.
        let _ = self.reap();
    }
}

/// A child that another process holds; it is reaped here.
#[derive(Debug)]
pub struct Released {
    init: OwnedFd,
    /// Removed with this value, if who holds the inside could not.
    _group: Option<Group>,
}

impl Released {
    /// Reaps it once it has ended ([`AsFd`] is readable then).
    ///
    /// # Errors
    /// What waitid(2) says.
    pub fn reap(self) -> io::Result<()> {
        Ok(reap(&self.init)?)
    }
}

impl AsFd for Released {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }
}

fn reap(init: &OwnedFd) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(init.as_fd()), WaitIdOptions::EXITED))?;
    Ok(())
}

/// The error behind a report that should not have come.
pub(crate) fn failure(report: pinfold_wire::Report) -> LaunchError {
    match report {
        pinfold_wire::Report::Failed { step, errno, detail } => step_failed(step, errno, &detail),
        _ => LaunchError::Silent,
    }
}

/// A step's failure as init reported it.
pub fn step_failed(step: Step, errno: i32, detail: &[u8]) -> LaunchError {
    LaunchError::Step {
        step,
        detail: detail.escape_ascii().to_string(),
        source: io::Error::from_raw_os_error(errno),
    }
}
