//! The keeper's side: to prepare, to wait, and to hand over.

mod prepared;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pinfold_boundary::{Feature, Released};
use pinfold_policy::path::HostPath;
use pinfold_wire::Channel;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use self::prepared::Prepared;
use super::ambience::Ambience;
use super::message::{Greeting, Take};
use super::proof::Proof;
use super::{prefix, sockets};
use crate::outcome::RunError;
use crate::places::Places;
use crate::run::{Request, design};
use crate::state::SessionId;
use crate::talk::{self, Json};
use crate::{sys, wall};

/// How long a run may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(1);
/// When to try again after a preparation that failed.
const AGAIN: Duration = Duration::from_secs(5);
/// How long to leave the processors to a run that was handed an inside.
const PAUSE: Duration = Duration::from_millis(20);

/// What a keeper has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// As many insides as it should keep are prepared.
    Ready,
    /// None can be prepared at present; it goes on trying.
    Failed {
        /// Why.
        what: String,
        /// The way out.
        hint: Option<String>,
    },
}

/// Keeps insides prepared for the runs of one workspace.
pub struct Keeper<M> {
    /// What a run would be now, with an empty command.
    make: M,
    count: usize,
    listener: OwnedFd,
    /// Where it listens.
    socket: PathBuf,
    /// Readable, in a way, when something was mounted or unmounted (proc_pid_mountinfo(5)).
    mounts: File,
    proof: Proof,
    signals: OwnedFd,
    pool: Vec<Prepared>,
    visitors: Vec<Visitor>,
    /// Handed over, and to be reaped.
    released: Vec<Released>,
    /// When a preparation failed, and why.
    failed: Option<(Instant, Kept)>,
    /// When the last one was handed over.
    handed_over: Option<Instant>,
}

/// A run that has yet to say what it wants.
struct Visitor {
    run: Channel,
    ambience: Ambience,
    since: Instant,
}

impl<M: FnMut() -> Result<Request, RunError>> Keeper<M> {
    /// Prepares the first, and listens for runs of this workspace. `make` says what a run would
    /// be; it is asked anew for each preparation. The process must have one thread and go on with
    /// one, since each inside begins as its copy.
    ///
    /// # Errors
    /// What a run would fail with; no place to listen at.
    pub fn start(
        places: &Places,
        workspace: &HostPath,
        count: usize,
        mut make: M,
    ) -> Result<Self, RunError> {
        let system = |errno: Errno| RunError::System(errno.into());
        let signals = sys::signal_events().map_err(system)?;
        let mounts = File::open("/proc/self/mountinfo").map_err(RunError::System)?;
        let first = Prepared::make(request(&mut make)?)?;
        let id = SessionId::generate().map_err(RunError::System)?;
        let name = format!("{}{id}", prefix(workspace));
        let directory = sockets(places);
        let listen = || {
            Places::make_private(&directory)?;
            talk::listen(&directory, &name)
        };
        let listener = listen().map_err(|error| {
            let what = format!("cannot listen in {}: {error}", directory.display());
            RunError::System(io::Error::new(error.kind(), what))
        })?;
        Ok(Self {
            make,
            count,
            listener,
            socket: directory.join(name),
            mounts,
            proof: Proof::make().map_err(RunError::System)?,
            signals,
            pool: vec![first],
            visitors: Vec::new(),
            released: Vec::new(),
            failed: None,
            handed_over: None,
        })
    }

    /// Keeps them until a signal says to end.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn keep(mut self, mut tell: impl FnMut(Kept)) -> Result<(), RunError> {
        let mut told = None;
        loop {
            let news = self.fill();
            if news.is_some() && news != told {
                tell(news.clone().unwrap_or(Kept::Ready));
                told = news;
            }
            if !self.turn().map_err(|errno| RunError::System(errno.into()))? {
                return Ok(());
            }
        }
    }

    /// Prepares what is missing.
    fn fill(&mut self) -> Option<Kept> {
        match &self.failed {
            Some((at, why)) if at.elapsed() < AGAIN => return Some(why.clone()),
            _ => self.failed = None,
        }
        // The run that has just begun is in a hurry; the next one need not be.
        match self.handed_over.map(|at| at.elapsed()) {
            Some(elapsed) if elapsed < PAUSE && !self.pool.is_empty() => return None,
            _ => self.handed_over = None,
        }
        while self.pool.len() < self.count {
            match request(&mut self.make).and_then(Prepared::make) {
                Ok(prepared) => self.pool.push(prepared),
                Err(error) => return Some(self.fail(&error)),
            }
        }
        self.pool.iter().all(Prepared::is_ready).then_some(Kept::Ready)
    }

    fn fail(&mut self, error: &RunError) -> Kept {
        let why = Kept::Failed { what: error.to_string(), hint: error.hint() };
        self.failed = Some((Instant::now(), why.clone()));
        why
    }

    /// Looks how far each is, and drops what is of no use.
    fn look_at_pool(&mut self) {
        for mut prepared in std::mem::take(&mut self.pool) {
            match prepared.go_on() {
                Ok(true) => self.pool.push(prepared),
                Ok(false) => {}
                Err(error) => drop(self.fail(&error)),
            }
        }
    }

    /// Waits for something, and deals with all that there is; false at the end.
    fn turn(&mut self) -> Result<bool, Errno> {
        let ready = self.wait()?;
        if ready.signal {
            while let Some(signal) = sys::next_signal(&self.signals) {
                if [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal) {
                    return Ok(false);
                }
            }
        }
        if ready.mounts || self.mounts_have_changed() {
            // What was mounted since is not in what is prepared.
            self.pool.clear();
        }
        self.look_at_pool();
        for released in std::mem::take(&mut self.released) {
            if has_something(released.as_fd()) {
                // One that cannot be reaped was reaped.
                let _ = released.reap();
            } else {
                self.released.push(released);
            }
        }
        if ready.visitor {
            self.serve_visitors();
        }
        if ready.listener {
            self.welcome();
        }
        Ok(true)
    }

    fn wait(&self) -> Result<Ready, Errno> {
        let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut watched = vec![
            input(self.signals.as_fd()),
            input(self.listener.as_fd()),
            PollFd::new(&self.mounts, PollFlags::PRI),
        ];
        let first_visitor = watched.len();
        watched.extend(self.visitors.iter().map(|visitor| input(visitor.run.as_fd())));
        let first_other = watched.len();
        watched.extend(self.pool.iter().flat_map(Prepared::watched).map(input));
        watched.extend(self.released.iter().map(|released| input(released.as_fd())));
        let waits = [
            self.failed.as_ref().map(|(at, _)| AGAIN.saturating_sub(at.elapsed())),
            self.handed_over.map(|at| PAUSE.saturating_sub(at.elapsed())),
            (!self.visitors.is_empty()).then_some(PATIENCE),
        ];
        let patience = waits.into_iter().flatten().min().map(|patience| Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        match rustix::event::poll(&mut watched, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let is = |index: usize| !watched[index].revents().is_empty();
        Ok(Ready {
            signal: is(0),
            listener: is(1),
            mounts: is(2),
            // They are looked at when one has waited too long, too.
            visitor: first_visitor < first_other,
        })
    }

    /// Whether something was mounted or unmounted since this was asked last: poll(2) tells once.
    fn mounts_have_changed(&self) -> bool {
        let mut mounts = [PollFd::new(&self.mounts, PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut mounts, Some(&at_once)) != Ok(0)
    }

    /// Looks at who comes, while they find out what they want. For who comes when nothing is
    /// prepared there is nothing to wait for.
    fn welcome(&mut self) {
        let flags = SocketFlags::CLOEXEC;
        let Ok(run) = rustix::net::accept_with(&self.listener, flags) else { return };
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&run) else { return };
        let Some(prepared) = self.pool.first() else { return };
        if peer.uid != rustix::process::geteuid() {
            return;
        }
        let process = peer.pid.as_raw_nonzero().to_string();
        if let Ok(ambience) = Ambience::of(&process, prepared.groups()) {
            let run = Channel::from(run);
            run.mention(&Json(Greeting { descriptor: self.proof.descriptor() }));
            self.visitors.push(Visitor { run, ambience, since: Instant::now() });
        }
    }

    fn serve_visitors(&mut self) {
        for visitor in std::mem::take(&mut self.visitors) {
            if has_something(visitor.run.as_fd()) {
                self.answer(&visitor);
            } else if visitor.since.elapsed() < PATIENCE {
                self.visitors.push(visitor);
            }
        }
    }

    /// Hands over an inside that is what the run wants and may have.
    fn answer(&mut self, visitor: &Visitor) {
        let Some(index) = self.pool.iter().position(Prepared::is_ready) else { return };
        // Who has gone, or talks nonsense, wants nothing.
        let Ok(Some(received)) = visitor.run.receive::<Json<Take>>() else { return };
        let Take { proof, fingerprint } = received.message.0;
        if !self.proof.is(&proof) {
            return;
        }
        if fingerprint != self.pool[index].fingerprint() {
            self.look_again();
        } else if visitor.ambience == *self.pool[index].ambience() {
            match self.pool.swap_remove(index).hand_over(&visitor.run) {
                Ok(released) => self.released.extend(released),
                Err(prepared) => self.pool.push(*prepared),
            }
            self.handed_over = Some(Instant::now());
        }
    }

    /// A run wants something else: what is prepared has aged, or the run has other settings.
    fn look_again(&mut self) {
        match request(&mut self.make) {
            Ok(request) if self.pool.iter().all(|prepared| prepared.is_still(&request)) => {}
            Ok(_) => self.pool.clear(),
            Err(error) => {
                self.pool.clear();
                self.fail(&error);
            }
        }
    }
}

/// What a run would be now, ready to be designed.
fn request(make: &mut impl FnMut() -> Result<Request, RunError>) -> Result<Request, RunError> {
    let mut request = make()?;
    wall::insist(design::settle(&mut request)?.as_ref(), Feature::Warm)?;
    Ok(request)
}

impl<M> Drop for Keeper<M> {
    fn drop(&mut self) {
        // One that is gone is what was wanted.
        let _ = fs::remove_file(&self.socket);
    }
}

struct Ready {
    signal: bool,
    listener: bool,
    mounts: bool,
    visitor: bool,
}

/// Whether a descriptor has something to say at present.
fn has_something(descriptor: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ready, Some(&at_once)) == Ok(1)
}
