//! Bringing repositories in step while a session lives.
//!
//! A thread waits for changes on either side: in the host's git directory and in the private one.
//! When nothing has moved for a moment, it brings both in step. At rest it costs nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_git::settled::{Kept, Settled};
use pinfold_git::state::State;
use pinfold_host::launcher::HostProgram;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::collect::{Collect, Phase, inner_first};
use super::modules::{self, Made};
use crate::guard::Repositories;

/// A session that is over before this time is brought in step by its end alone: to close a watch
/// takes the kernel up to 20 ms (it waits for `synchronize_srcu` in fs/notify/mark.c).
const SHORTEST: Duration = Duration::from_millis(200);
/// How long nothing must move before both sides are brought in step.
const QUIET: Duration = Duration::from_millis(250);
/// How long a side that does not come to rest is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a failure the next attempt waits this long, or for the next change.
const AGAIN: Duration = Duration::from_secs(1);
/// Directories of references that are watched in one repository.
const MOST_WATCHED: usize = 2048;

const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::CLOSE_WRITE);

/// The thread, with what it needs to be ended.
#[derive(Debug)]
pub struct Sync {
    synced: Receiver<Synced>,
    stop: Arc<OwnedFd>,
}

impl Sync {
    /// Starts it. None if there is nothing to bring in step.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)` or of starting a thread.
    pub fn start(repositories: Arc<Repositories>, git: HostProgram) -> io::Result<Option<Self>> {
        if repositories.copied().is_empty() {
            return Ok(None);
        }
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let stopped = Arc::clone(&stop);
        let (sender, synced) = mpsc::channel();
        let run = move || {
            let mut watch = None;
            let synced = Watch::new(&repositories, &git).run(&stopped, &mut watch);
            // The session does not wait until the watch is closed.
            let _ = sender.send(synced);
        };
        thread::Builder::new().name("git".to_owned()).spawn(run)?;
        Ok(Some(Self { synced, stop }))
    }

    /// Ends it. After a panic nothing is known, and the end of the session compares with its start.
    pub fn end(self) -> Synced {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        self.synced.recv().unwrap_or_default()
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Synced {
    /// The last common state of each repository; none where that is still the start.
    pub(crate) states: Vec<State>,
    /// What the host did not take. It is shown at the end: a program may have the terminal now.
    pub(crate) kept: Vec<Kept>,
    /// The submodules that came to the host.
    pub(crate) modules: Made,
}

struct Watch<'a> {
    repositories: &'a Repositories,
    git: &'a HostProgram,
    /// Empty until there may be something to bring in step.
    states: Vec<State>,
    kept: BTreeSet<Kept>,
    modules: Made,
}

impl<'a> Watch<'a> {
    fn new(repositories: &'a Repositories, git: &'a HostProgram) -> Self {
        let (states, kept) = (Vec::new(), BTreeSet::new());
        Self { repositories, git, states, kept, modules: Made::default() }
    }

    /// Brings both sides in step until the end. The watch is left to the caller to close.
    fn run(mut self, stop: &OwnedFd, watch: &mut Option<OwnedFd>) -> Synced {
        if !pause(stop, SHORTEST) {
            return self.end();
        }
        let copied = self.repositories.copied().iter();
        self.states = copied.map(|copied| State::at(&copied.start)).collect();
        // Without it the end of the session brings both sides in step.
        let Ok(watch) = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map(|opened| &*watch.insert(opened))
        else {
            return self.end();
        };
        // What moved before it was watched is due at once.
        let mut next = Some(Duration::ZERO);
        loop {
            self.watch(watch);
            if !wait_for(watch, stop, next) || !settle_down(watch, stop) {
                return self.end();
            }
            let began = Instant::now();
            next = (!self.round()).then_some(AGAIN);
            // A session that never comes to rest costs a third of a processor, or one round each two seconds.
            if !pause(stop, (began.elapsed() * 2).min(PATIENCE)) {
                return self.end();
            }
        }
    }

    fn end(self) -> Synced {
        let kept = self.kept.into_iter().collect();
        Synced { states: self.states, kept, modules: self.modules }
    }

    /// Watches the directories in which references, HEADs and indexes lie, on both sides. A watch
    /// that is there already stays.
    fn watch(&self, watch: &OwnedFd) {
        let flags = CHANGES | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        for copied in self.repositories.copied() {
            for git in [copied.host.path(), &copied.private] {
                let mut left = MOST_WATCHED;
                // The private `refs` has no `heads` until the session makes a branch.
                for directory in [git.to_owned(), git.join("refs")] {
                    let _ = inotify::add_watch(watch, directory, flags);
                }
                for name in ["refs/heads", "refs/tags", "refs/remotes", "worktrees", "reftable"] {
                    add(watch, &git.join(name), flags, &mut left, 0);
                }
            }
            for module in modules::directories(&copied.private) {
                let _ = inotify::add_watch(watch, &module, flags);
            }
        }
    }

    /// Brings all in step; false if something has to be tried again.
    fn round(&mut self) -> bool {
        let mut is_done = true;
        // First: the host's git fails at a commit with a submodule whose `.git` file leads nowhere.
        let modules = self.repositories.modules(self.git, Phase::Live, None, None);
        // What came and what did not is said at the end.
        modules.bring(&mut self.modules, &mut Settled::default());
        let all = self.repositories.copied();
        for number in inner_first(all.iter().map(|copied| copied.host.path())) {
            let (copied, Some(state)) = (&all[number], self.states.get_mut(number)) else {
                continue;
            };
            let collect: Collect<'_> =
                self.repositories.collecting(copied, self.git, &[], Phase::Live);
            let mut settled = Settled::default();
            if collect.collect(state, &mut settled).is_err() {
                is_done = false;
            }
            self.kept.extend(settled.kept);
        }
        is_done
    }
}

fn add(watch: &OwnedFd, path: &Path, flags: WatchFlags, left: &mut usize, depth: usize) {
    const DEEPEST: usize = 16;
    if *left == 0 || depth == DEEPEST || inotify::add_watch(watch, path, flags).is_err() {
        return;
    }
    *left -= 1;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add(watch, &entry.path(), flags, left, depth + 1);
        }
    }
}

/// Waits for a change, or for a time; false at the end.
fn wait_for(watch: &OwnedFd, stop: &OwnedFd, longest: Option<Duration>) -> bool {
    let longest = longest.map(|longest| Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: longest.subsec_nanos().into(),
    });
    let mut both = [PollFd::new(watch, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    match poll(&mut both, longest.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => both[1].revents().is_empty(),
        Err(_) => false,
    }
}

/// Waits for a time; false at the end.
fn pause(stop: &OwnedFd, time: Duration) -> bool {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    matches!(poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&time)), Ok(0))
}

/// Waits until nothing has changed for a moment; false at the end.
fn settle_down(watch: &OwnedFd, stop: &OwnedFd) -> bool {
    let latest = Instant::now() + PATIENCE;
    loop {
        let had_any = drain(watch);
        if !wait_for(watch, stop, Some(QUIET)) {
            return false;
        }
        if !had_any || Instant::now() >= latest {
            drain(watch);
            return true;
        }
    }
}

/// Reads what has happened; whether anything has.
fn drain(watch: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut any = false;
    while reader.next().is_ok() {
        any = true;
    }
    any
}
