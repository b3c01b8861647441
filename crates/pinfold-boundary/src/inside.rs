//! A running inside, as its supervisor holds it.

mod ends;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use pinfold_wire::{Bounds, Channel, ChannelError, Mask, Order, Streams};
use rustix::event::{PollFd, PollFlags};
use rustix::net::Shutdown;
use rustix::net::sockopt::{self, Timeout};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::backing::{Backing, InitCommand, LateInit};
use crate::capability::Capabilities;
use crate::group::Group;
use crate::launch_error::{LaunchError, failure};
use crate::live_view::LiveView;
use crate::plan::{Program, Stdio};

/// The sockets of a sandbox's doors.
#[derive(Debug)]
pub struct Doors {
    /// One for each door of the plan; two for [`crate::Door::Outward`] where there is IPv6.
    pub sockets: Vec<OwnedFd>,
    /// Whether connections to other addresses are handed to the outward door. Where not, they
    /// fail at once, and only programs that use a proxy can reach it.
    pub handed_over: bool,
    /// The mount namespace of the sandbox, unless an engine makes another one.
    pub mounts: Option<OwnedFd>,
    /// The view of the workspace, if the sandbox has one.
    pub view: Option<LiveView>,
}

/// A running inside.
#[derive(Debug)]
pub struct Inside {
    /// The control channel to init.
    pub channel: Channel,
    /// A descriptor of init: readable when the whole inside has ended.
    pub init: OwnedFd,
    /// What is enforced for this inside.
    pub enforced: Capabilities,
    pub(crate) backing: Box<dyn Backing>,
}

impl Inside {
    /// Waits for the doors' sockets, in the plan's order; call it once, when the plan has doors.
    ///
    /// # Errors
    /// Returns an error for a failed start, or an init that says something else.
    pub fn doors(&self) -> Result<Doors, LaunchError> {
        let Some(received) = self.channel.receive::<pinfold_wire::Report>()? else {
            return Err(LaunchError::Silent);
        };
        match received.message {
            // There is one at least.
            pinfold_wire::Report::Listening { .. } if received.descriptors.is_empty() => {
                Err(LaunchError::HandOver)
            }
            pinfold_wire::Report::Listening { handed_over, has_view } => {
                let mut sockets = received.descriptors;
                let view = has_view
                    .then(|| sockets.pop())
                    .flatten()
                    .map(|view| self.live_view(view))
                    .transpose()?;
                let mounts = sockets.pop();
                Ok(Doors { sockets, handed_over, mounts, view })
            }
            report => Err(failure(report)),
        }
    }

    fn live_view(&self, context: OwnedFd) -> Result<LiveView, LaunchError> {
        let attendant = self
            .backing
            .attendant()
            .map(|attendant| attendant.as_fd().try_clone_to_owned().map(Channel::from))
            .transpose()
            .map_err(|_| LaunchError::HandOver)?;
        Ok(LiveView::new(context, attendant))
    }

    /// Says what the command will be; call it once, before the sandbox is sealed. Only the
    /// sandbox's copies of the streams stay open.
    ///
    /// # Errors
    /// Returns the failure of a start, in its raw form.
    pub fn command(&mut self, program: &Program, stdio: Stdio) -> Result<(), LaunchError> {
        let command = InitCommand { program: program.to_wire(), stdio };
        match self.backing.keep_command(command) {
            None => Ok(()),
            Some(command) => self.send_command(&command).map_err(|_| self.last_words()),
        }
    }

    fn send_command(
        &self,
        InitCommand { program, stdio }: &InitCommand,
    ) -> Result<(), ChannelError> {
        let (mut streams, mut descriptors) = stdio.to_wire();
        let own = self.own_ends(&streams, &descriptors)?;
        if let Some(own) = &own {
            descriptors = own.iter().map(AsFd::as_fd).collect();
        }
        let line = self.connect(None, &mut streams)?;
        descriptors.extend(line.iter().map(AsFd::as_fd));
        self.channel.command(program, streams, &descriptors)
    }

    /// Returns a program's streams as files that nobody else has, where the boundary needs that.
    fn own_ends(
        &self,
        streams: &Streams,
        ends: &[BorrowedFd<'_>],
    ) -> Result<Option<Vec<OwnedFd>>, ChannelError> {
        let opened = self.backing.copies_streams().then(|| ends::open_again(streams, ends));
        Ok(opened.transpose()?)
    }

    /// Has a terminal made outside for one inside that cannot leave it, and returns init's end of the
    /// line between them.
    fn connect(
        &self,
        task: Option<u32>,
        streams: &mut Streams,
    ) -> Result<Option<Channel>, ChannelError> {
        let outlets = self.backing.outlets();
        let Some(outlets) = outlets.filter(|_| streams.wants_terminal()) else { return Ok(None) };
        let (outer, inner) = Channel::pair()?;
        outlets.send(&Order::Terminal { task, window: streams.window }, &[outer.as_fd()])?;
        streams.is_relayed = true;
        Ok(Some(inner))
    }

    /// Has these last masks put in place and the sandbox closed. An engine starts init then.
    ///
    /// # Errors
    /// Returns the failure of a start, in its raw form.
    pub fn seal(&mut self, masks: Vec<Mask>) -> Result<(), LaunchError> {
        self.channel.seal(masks).map_err(|_| self.last_words())?;
        let Some(late) = self.backing.await_init(&self.channel)? else { return Ok(()) };
        let LateInit { steps, command, channel } = late;
        if let Some(channel) = channel {
            self.channel = channel;
        }
        let sent = self.channel.last_steps(&steps).and_then(|()| match command {
            Some(command) => self.send_command(&command),
            None => Ok(()),
        });
        sent.map_err(|_| self.last_words())
    }

    /// Takes the mount namespace that an engine made; `None` if no engine made this sandbox.
    ///
    /// The inner value is `None` where that namespace cannot be joined from outside.
    pub fn take_engine_mounts(&mut self) -> Option<Option<OwnedFd>> {
        self.backing.take_mounts()
    }

    /// Takes an init that accepts no order for so long for one that is gone ([`Self::order`]).
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn limit_patience(&self, patience: Duration) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.channel, Timeout::Send, Some(patience))?)
    }

    /// Gives an order. Where it cannot be given the sandbox ends: an init that is gone has ended it
    /// already, and one that takes no orders must not keep its supervisor from anything.
    ///
    /// # Errors
    /// Returns what [`Channel::send`] says.
    pub fn order(&self, order: &Order) -> Result<(), ChannelError> {
        self.order_with(order, &[])
    }

    /// Returns a stream to a port of the sandbox's loopback, or asks for a socket of the sandbox's network, which comes
    /// as a report.
    ///
    /// # Errors
    /// Returns the errors of [`Self::order`], or of making the stream.
    pub fn stream_to(&self, port: u16) -> Result<Option<OwnedFd>, ChannelError> {
        match (self.backing.stream_to(port), self.backing.outlets()) {
            (Some(stream), _) => return Ok(Some(stream?)),
            (None, Some(outlets)) => outlets.send(&Order::Socket, &[])?,
            (None, None) => self.order(&Order::Socket)?,
        }
        Ok(None)
    }

    /// Does the same with descriptors.
    ///
    /// # Errors
    /// Returns an error for the same.
    pub fn order_with(
        &self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        self.channel.send(order, descriptors).inspect_err(|_| self.kill())
    }

    /// Returns whether an engine's own kernel answers what runs there, as far as that is known: no
    /// control group of the host's then holds a part of it alone.
    pub fn has_own_kernel(&self) -> bool {
        self.backing.has_own_kernel()
    }

    /// Orders init to run a program next to the command. Its end is reported with this id.
    ///
    /// # Errors
    /// Returns the errors of [`Self::order`].
    pub fn run(
        &self,
        id: u32,
        bounds: Bounds,
        program: &pinfold_wire::Program,
        mut streams: Streams,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let line = self.connect(Some(id), &mut streams)?;
        let (ends, groups) =
            descriptors.split_at(descriptors.len().saturating_sub(bounds.groups.into()));
        let own = self.own_ends(&streams, ends)?;
        let borrowed: Option<Vec<_>> =
            own.as_ref().map(|own| own.iter().map(AsFd::as_fd).collect());
        let ends = borrowed.as_deref().unwrap_or(ends);
        let line = line.iter().map(AsFd::as_fd);
        let descriptors: Vec<_> =
            ends.iter().copied().chain(line).chain(groups.iter().copied()).collect();
        let sent = self.channel.run(id, bounds, program, streams, &descriptors);
        sent.inspect_err(|_| self.kill())
    }

    /// Returns what init said before it went.
    pub fn last_words(&self) -> LaunchError {
        match self.channel.receive::<pinfold_wire::Report>() {
            Ok(Some(received)) => failure(received.message),
            Ok(None) | Err(_) => self.backing.silence(),
        }
    }

    /// Returns what to tell the user if the sandbox ended by itself before its command did, and an engine had
    /// made it.
    #[must_use]
    pub fn engine_gone(&self) -> Option<String> {
        self.backing.gone()
    }

    /// Returns what the user should know of how the sandbox was made.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.backing.note()
    }

    /// Returns whether what the command wrote may come after the report of its end. The sandbox ends by itself when
    /// everything has come.
    #[must_use]
    pub fn delivers_late(&self) -> bool {
        self.backing.delivers_late()
    }

    /// Returns the control group that bounds the sandbox.
    #[must_use]
    pub fn group(&self) -> Option<&Group> {
        self.backing.group()
    }

    /// Holds a sandbox by the channel to its init and a descriptor of that process. It is ended when the
    /// value is dropped.
    #[must_use]
    pub fn new(
        channel: Channel,
        init: OwnedFd,
        enforced: Capabilities,
        backing: Box<dyn Backing>,
    ) -> Self {
        Self { channel, init, enforced, backing }
    }

    /// Ends the whole inside at once.
    pub fn kill(&self) {
        let channel = self.backing.ends_with_channel().then(|| self.channel.as_fd());
        end(self.init.as_fd(), channel);
    }

    /// Returns what ends the whole inside at once, for another thread.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub fn ender(&self) -> io::Result<Ender> {
        let channel = self
            .backing
            .ends_with_channel()
            .then(|| self.channel.as_fd())
            .map(|channel| channel.try_clone_to_owned())
            .transpose()?;
        Ok(Ender { init: self.init.try_clone()?, channel })
    }

    /// Returns where init's parent takes orders, if it has to do what this process may not.
    pub(crate) fn attendant(&self) -> Option<&Channel> {
        self.backing.attendant()
    }

    /// Waits for init's end, and reaps it where that is this process's to do. Every process inside
    /// has ended when this returns.
    ///
    /// # Errors
    /// Returns the error of `waitid(2)` or `poll(2)`; what the first process of the sandbox left undone.
    pub fn reap(&self) -> io::Result<()> {
        if self.backing.is_parent() {
            let wait = || waitid(WaitId::PidFd(self.init.as_fd()), WaitIdOptions::EXITED);
            let ended = rustix::io::retry_on_intr(wait)?;
            let has_failed = ended.is_some_and(|ended| ended.exit_status() != Some(0));
            if let Some(unsettled) = self.backing.unsettled().filter(|_| has_failed) {
                return Err(io::Error::other(unsettled));
            }
        } else {
            let mut ended = [PollFd::new(&self.init, PollFlags::IN)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, None))?;
        }
        Ok(())
    }

    /// Returns the descriptor that is readable when everything inside has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }
}

/// Ends everything in a sandbox.
#[derive(Debug)]
pub struct Ender {
    init: OwnedFd,
    channel: Option<OwnedFd>,
}

impl Ender {
    /// Returns another one for the same sandbox.
    ///
    /// # Errors
    /// Returns the error of duplicating a descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        let channel = self.channel.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Self { init: self.init.try_clone()?, channel })
    }

    /// Ends it. One that has ended already is what was wanted.
    pub fn end(&self) {
        end(self.init.as_fd(), self.channel.as_ref().map(AsFd::as_fd));
    }
}

/// Ends a sandbox by its channel, or by a signal to its first process.
fn end(init: BorrowedFd<'_>, channel: Option<BorrowedFd<'_>>) {
    let _ = match channel {
        Some(channel) => rustix::net::shutdown(channel, Shutdown::Both),
        None => pidfd_send_signal(init, Signal::KILL),
    };
}

impl Drop for Inside {
    /// Ends the sandbox: whatever goes wrong in the caller, it does not outlive this value.
    fn drop(&mut self) {
        self.kill();
        // Reaped already is fine.
        let _ = self.reap();
    }
}
