//! A sandbox in a machine: QEMU, the file server of its tree, and init in its guest.
//!
//! To its supervisor it is an [`Inside`] like any other. Until it is sealed the channel leads to the child that makes the
//! tree, and afterwards to init in the guest, by a ferry on a thread of its own.

mod doors;
mod ports;
mod started;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;

use pinfold_boundary::container::init_path;
use pinfold_boundary::namespace::{
    self, NESTED_WITHOUT_LANDLOCK, OLDEST_LANDLOCK, Outlets, files_of_a_server, steps_elsewhere,
};
use pinfold_boundary::{
    Backing, Capabilities, Entry, Group, InitCommand, Inside, Landlock, LateInit, LaunchError,
    LaunchPlan, Place, ResourceLimits, Waited, step_failed, wait,
};
use pinfold_mux::{HostFerry, Local, Multiplexer, MuxError};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::{Channel, ChannelError, LastSteps, Report, Wire as _};
use rustix::event::Timespec;
use rustix::process::{WaitId, WaitIdOptions};

use crate::guest::{self, Beneath, Fresh, Tree, WELCOME, Welcome};
use crate::machine::{Machine, MachineError, Server};
use crate::said::one_line;
use crate::spec::Spec;
use doors::Doors;
use ports::{AskedPorts, Ports};
use started::{Asleep, Started};
pub(crate) use started::{SLOW, trial_of};

/// How long a guest may take to start init.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };
/// Where things of pinfold's own lie in every tree.
const OWN: &str = "/run/pinfold";

/// What machines are made by.
#[derive(Debug)]
pub struct Maker<'a, M: Machine> {
    pub program: &'a M::Program,
    /// What makes machines where no guest comes up by the program. Which ones do is kept with the templates: without these, it
    /// makes all.
    pub otherwise: Option<&'a M::Program>,
    /// The static executable that runs in the guest, which calls [`guest::run_as_first`] and
    /// [`pinfold_boundary::container::run_as_init`].
    pub init: &'a HostPath,
    pub server: Server,
    /// A directory for machines that were booted once, if they are kept.
    pub templates: Option<&'a Path>,
}

/// Starts a sandbox in a machine. The calling process must have one thread.
///
/// # Errors
/// Returns whatever kept it from being made; nothing is left behind then. `spec` has a
/// tree. `interrupt` can be read once the user wants the start to end. A plan whose sandbox
/// is root by name is refused, and one with nested sandboxes that requires Landlock.
pub fn launch<M: Machine>(
    maker: &Maker<'_, M>,
    spec: &Spec,
    mut plan: LaunchPlan,
    interrupt: Option<OwnedFd>,
) -> Result<Inside, LaunchError> {
    refuse_what_is_lacking(&plan)?;
    let path = InsidePath::from_static(init_path());
    plan.tree.push(Entry { path, place: Place::ReadOnly(maker.init.clone()) });
    let (steps, tree) = (steps_elsewhere(&plan), own_tree(&plan, spec));
    // Init ends where the guest's kernel has less.
    let landlock = steps.landlock.min(OLDEST_LANDLOCK);
    // They are the guest's: what serves the tree is behind the same walls as without them.
    plan.nested = false;
    // Its memory and processors are the machine's. What it changes in a system is memory of the host's.
    plan.limits = ResourceLimits { changes: plan.limits.changes, ..ResourceLimits::default() };
    let Started { mut machine, channel: bytes, asleep, note } =
        Started::<M>::of(maker, spec).map_err(no_machine)?;
    let cpus = spec.is_whole() || machine.process().enforced.cpus;
    let enforced = Capabilities { memory: true, cpus, pids: true, landlock };
    let listener =
        machine.files().ok_or_else(|| unusable("it has no socket for files".to_owned()))?;
    let ((outlets, orders), (init, reports)) = (Channel::pair()?, Channel::pair()?);
    let (doors, connections) = Channel::pair()?;
    let (ports, asked) = ports::ports()?;
    let passed = Outlets { orders, reports: duplicate(&reports)?, connections };
    let files =
        namespace::serve(plan, (maker.server)(listener), Some(passed), machine.process().group())?;
    let channel = duplicate(&files.channel)?;
    let ended = machine.process().init.try_clone().map_err(no_descriptor)?;
    let served = Served { doors: doors.into(), ports: asked };
    let start = Start { channel: bytes, asleep, tree, init, reports, served };
    let backing = MachineBacking {
        machine,
        files,
        steps,
        command: None,
        outlets,
        ports,
        start: Some(start),
        interrupt,
        ferry: None,
        note,
    };
    Ok(Inside::new(channel, ended, enforced, Box::new(backing)))
}

fn duplicate(channel: &Channel) -> Result<Channel, LaunchError> {
    channel.as_fd().try_clone_to_owned().map(Channel::from).map_err(no_descriptor)
}

fn refuse_what_is_lacking(plan: &LaunchPlan) -> Result<(), LaunchError> {
    let what = if plan.identity.uid == 0 {
        "the session is root by name, which in a machine would be root of its kernel"
    } else if plan.nested && plan.landlock == Landlock::Required {
        NESTED_WITHOUT_LANDLOCK
    } else {
        return Ok(());
    };
    Err(LaunchError::Wall { what: what.to_owned() })
}

/// Returns the error of a start with what the user can do.
pub(crate) fn no_machine(error: impl Into<MachineError>) -> LaunchError {
    let error = error.into();
    let hint = error.hint().map(str::to_owned);
    LaunchError::Machine { what: error.to_string(), hint }
}

fn unusable(what: String) -> LaunchError {
    LaunchError::Machine { what, hint: None }
}

fn no_descriptor(source: io::Error) -> LaunchError {
    LaunchError::System { what: "cannot keep a descriptor of a machine", source }
}

/// Returns what of a plan's tree is the guest's own.
fn own_tree(plan: &LaunchPlan, spec: &Spec) -> Tree {
    let path = |entry: &Entry| entry.path.as_path().to_owned();
    let is_private = |entry: &&Entry| matches!(entry.place, Place::Private);
    let private: Vec<_> = plan.tree.iter().filter(is_private).map(path).collect();
    let mut beneath: Vec<guest::Place> = Vec::new();
    // What lies in a directory of the host's, such as an agent's kept state, comes with it.
    let is_beneath = |path: &Path, beneath: &[guest::Place]| {
        let is_granted = |above: &Path| {
            beneath.iter().any(|place| place.path == above && place.kind == Beneath::Granted)
        };
        let mut above = path.ancestors().skip(1);
        above
            .find(|above| is_granted(above) || private.iter().any(|path| path == above))
            .is_some_and(|above| !is_granted(above))
    };
    if is_beneath(OWN.as_ref(), &beneath) {
        beneath.push(guest::Place { path: OWN.into(), kind: Beneath::Granted });
    }
    for entry in plan.tree.iter().filter(|entry| !is_private(entry)) {
        let is_made = matches!(entry.place, Place::File { .. } | Place::Symlink(_));
        let kind = if is_made { Beneath::Made } else { Beneath::Granted };
        if is_beneath(entry.path.as_path(), &beneath) {
            beneath.push(guest::Place { path: path(entry), kind });
        }
    }
    // Private directories are the guest's memory, of which programs need some, too.
    let memory = u64::from(spec.memory) << 19;
    Tree {
        ids: (plan.identity.uid, plan.identity.gid),
        hostname: plan.hostname.clone(),
        home: plan.identity.home.as_path().to_owned(),
        disk: plan.limits.disk.map_or(memory, |disk| disk.min(memory)),
        files: files_of_a_server(),
        private,
        beneath,
        doors: plan.doors.clone(),
        is_nested: plan.nested,
    }
}

/// What a machine is started with once its tree is complete.
#[derive(Debug)]
struct Start {
    channel: OwnedFd,
    /// What the machine wakes with, unless it boots.
    asleep: Option<Asleep>,
    tree: Tree,
    /// The supervisor's end of init's channel, and the one that messages of the guest come to.
    init: Channel,
    reports: Channel,
    served: Served,
}

/// What the ferry serves, other than messages.
#[derive(Debug)]
struct Served {
    doors: Doors,
    ports: AskedPorts,
}

#[derive(Debug)]
struct MachineBacking<M: Machine> {
    machine: M,
    files: Inside,
    steps: LastSteps,
    command: Option<InitCommand>,
    /// Where terminals are asked for.
    outlets: Channel,
    /// Where streams to ports are asked for.
    ports: Ports,
    start: Option<Start>,
    /// Readable once the user wants the start to end.
    interrupt: Option<OwnedFd>,
    ferry: Option<JoinHandle<()>>,
    note: Option<String>,
}

impl<M: Machine> Drop for MachineBacking<M> {
    /// Ends the ferry with the machine: the process has the threads that it had before.
    fn drop(&mut self) {
        self.machine.process().kill();
        if let Some(ferry) = self.ferry.take() {
            let _ = ferry.join();
        }
    }
}

impl<M: Machine> Backing for MachineBacking<M> {
    fn is_parent(&self) -> bool {
        // The machine is the one that reaps it.
        false
    }

    fn group(&self) -> Option<&Group> {
        self.machine.process().group()
    }

    fn silence(&self) -> LaunchError {
        unusable(self.joined("the machine ended and has not started init"))
    }

    fn gone(&self) -> Option<String> {
        Some(self.joined("the machine ended before the command did"))
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn outlets(&self) -> Option<&Channel> {
        Some(&self.outlets)
    }

    fn stream_to(&self, port: u16) -> Option<Result<OwnedFd, ChannelError>> {
        Some(self.ports.stream_to(port))
    }

    fn copies_streams(&self) -> bool {
        true
    }

    fn has_own_kernel(&self) -> bool {
        true
    }

    fn delivers_late(&self) -> bool {
        true
    }

    fn keep_command(&mut self, command: InitCommand) -> Option<InitCommand> {
        self.command = Some(command);
        None
    }

    fn await_init(&mut self, channel: &Channel) -> Result<Option<LateInit>, LaunchError> {
        expect_born(channel).map_err(|error| error.unwrap_or(LaunchError::Silent))?;
        let Some(mut start) = self.start.take() else { return Ok(None) };
        if let Some(Asleep { devices, template }) = start.asleep.take()
            && let Err(error) = self.machine.wake(&devices)
        {
            let is_refusal = matches!(error, MachineError::State(_)) && !self.has_lost_its_files();
            let hint = is_refusal.then(|| template.give_up());
            return Err(LaunchError::Machine { what: error.to_string(), hint });
        }
        let ours = self.carry(start).map_err(no_descriptor)?;
        let (init, ended) = (ours.as_fd(), self.machine.process().ended());
        // While the file server waits for QEMU, the channel does not end with the machine.
        let interrupt = self.interrupt.take();
        match wait(&[init, ended], interrupt.as_ref().map(OwnedFd::as_fd), PATIENCE) {
            Ok(Waited::Ready(0)) => {}
            Ok(Waited::Interrupted) => return Err(LaunchError::Interrupted),
            _ => return Err(self.silence()),
        }
        expect_born(&ours).map_err(|error| error.unwrap_or_else(|| self.silence()))?;
        let (steps, command) = (self.steps.clone(), self.command.take());
        Ok(Some(LateInit { steps, command, channel: Some(ours) }))
    }
}

impl<M: Machine> MachineBacking<M> {
    /// Returns whether the file server was killed, without which QEMU refuses any state. It ends by itself when QEMU does.
    fn has_lost_its_files(&self) -> bool {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let ended = rustix::process::waitid(WaitId::PidFd(self.files.init.as_fd()), how);
        ended.is_ok_and(|ended| ended.is_some_and(|ended| ended.terminating_signal().is_some()))
    }

    /// Returns what is wrong, with what QEMU and the guest's console said last, if anything.
    fn joined(&self, what: &str) -> String {
        match one_line(&self.machine.end()) {
            said if said.is_empty() => what.to_owned(),
            said => format!("{what}; {said}"),
        }
    }

    /// Begins to carry messages between init and the socket that is returned.
    fn carry(&mut self, start: Start) -> io::Result<Channel> {
        let Start { channel, tree, init, reports, mut served, .. } = start;
        let (near, far) = UnixStream::pair()?;
        let peer = reports.as_fd().try_clone_to_owned()?;
        let ferry = HostFerry::new(Multiplexer::host(channel)?, peer)
            .with_stream(WELCOME, Local::socket(far.into())?);
        let (files, ender) = (self.files.init.try_clone()?, self.machine.process().ender()?);
        let thread = std::thread::Builder::new().name("ferry".to_owned()).spawn(move || {
            let _ = serve(ferry, near, tree, &mut served, &files);
            ender.end();
        })?;
        self.ferry = Some(thread);
        Ok(init)
    }
}

/// Serves a ferry until the guest is done, or one of QEMU and the file server has ended.
fn serve(
    mut ferry: HostFerry,
    mut welcome: UnixStream,
    tree: Tree,
    served: &mut Served,
    files: &OwnedFd,
) -> Result<(), MuxError> {
    while !ferry.has_begun() {
        if ferry.turn(&[files.as_fd()], None)? != [false] {
            return Ok(());
        }
    }
    // The time is that of the moment at which the guest answers.
    let said = Welcome { fresh: Fresh::now()?, tree }.encode();
    let writer = std::thread::spawn(move || io::Write::write_all(&mut welcome, &said));
    let carried = carry_on(ferry, served, files);
    let _ = writer.join();
    carried
}

fn carry_on(mut ferry: HostFerry, served: &mut Served, files: &OwnedFd) -> Result<(), MuxError> {
    while !ferry.is_over() {
        let ready = ferry.turn(&[files.as_fd(), served.ports.asked()], None)?;
        if ready[0] {
            break;
        }
        if ready[1] {
            served.ports.take();
        }
        served.ports.open(&mut ferry);
        served.doors.serve(&mut ferry);
    }
    Ok(())
}

/// Receives the message that a process is there. Returns why it is not, or nothing if it has not said so.
fn expect_born(channel: &Channel) -> Result<(), Option<LaunchError>> {
    match channel.receive::<Report>().map_err(LaunchError::from)?.map(|received| received.message) {
        Some(Report::Born) => Ok(()),
        Some(Report::Failed { step, errno, detail }) => {
            Err(Some(step_failed(step, errno, &detail)))
        }
        _ => Err(None),
    }
}

#[cfg(test)]
mod tests;
