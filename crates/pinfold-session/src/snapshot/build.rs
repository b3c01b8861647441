//! Running the set-up commands: each in a session of its own on what those before it left.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use pinfold_host::launcher::start_own;
use pinfold_host::sys;
use pinfold_policy::limits::Limits;
use pinfold_policy::network::NetworkRule;
use pinfold_policy::origin::Valued;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::Settings;
use pinfold_rootfs::system::{Landing, Stack, System};
use rustix::event::{PollFd, PollFlags};

use super::step::{self, Step, StepLimits};
use super::{LOG, SnapshotError, Summary, TREE, build_hosts};
use crate::outcome::LimitReached;
use crate::supervise::disk_watch::Bound;
use crate::supervise::resume::shown;

/// Where changes land while commands run.
const LANDING: &str = "landing";
/// What a command is described by for the process that runs it.
const STEP: &str = "step.json";
/// Directories that a base may lack and that set-up commands write to.
const SEED: &str = "seed";
const SEEDED: [&str; 7] = ["boot", "home/agent", "root", "opt", "srv", "usr/local", "var/lib"];
/// Files that each session has its own of.
const OWN_FILES: [&str; 3] = ["hosts", "hostname", "resolv.conf"];
/// How much of the output is kept to be shown, in bytes.
const KEPT: usize = 8192;

/// What is being done, for a user who waits.
#[derive(Debug)]
pub enum Building<'a> {
    /// Another process makes the same; this one waits for it.
    Waiting,
    Command {
        /// The place in the list, from 0.
        index: usize,
        /// Of how many.
        of: usize,
        /// What it is.
        command: &'a str,
    },
    /// It says this.
    Output(&'a [u8]),
}

/// The making of one snapshot.
pub(super) struct Work<'a> {
    pub(super) system: &'a System,
    pub(super) summary: &'a Summary,
    pub(super) settings: &'a Settings,
    pub(super) staging: &'a Path,
    pub(super) report: &'a dyn Fn(Building<'_>),
}

impl Work<'_> {
    /// Runs the commands and leaves what they changed as a tree.
    ///
    /// # Errors
    /// Returns an error for the first command that failed, or what kept it from being run.
    pub(super) fn run(&self) -> Result<(), SnapshotError> {
        self.check_disk(self.bound().look()?, "nothing was run")?;
        let (landing, seed) = (self.staging.join(LANDING), self.staging.join(SEED));
        fs::create_dir(&landing)?;
        for name in SEEDED {
            fs::create_dir_all(seed.join(name))?;
        }
        let mut log = OpenOptions::new().append(true).create(true).open(self.staging.join(LOG))?;
        let stack = Stack {
            trees: vec![self.system.tree.clone(), fs::canonicalize(seed)?],
            over_host: self.system.over_host,
            landing: Landing::Kept(landing),
            is_root: true,
            held: Arc::default(),
        };
        let signals = sys::signal_events().map_err(io::Error::from)?;
        let done = self.commands(&stack, &mut log, &signals);
        // What comes next dies of them as before.
        sys::release_signals();
        done?;
        self.settle(&stack)
    }

    fn commands(
        &self,
        stack: &Stack,
        log: &mut File,
        signals: &OwnedFd,
    ) -> Result<(), SnapshotError> {
        let Landing::Kept(landing) = &stack.landing else { return Ok(()) };
        let internal = &self.settings.network.internal;
        let (hosts, bound) = (reachable(self.settings)?, self.bound());
        let of = self.summary.setup.len();
        for (index, command) in self.summary.setup.iter().enumerate() {
            (self.report)(Building::Command { index, of, command });
            writeln!(log, "+ {command}")?;
            let step = Step {
                trees: stack.trees.clone(),
                over_host: stack.over_host,
                landing: landing.clone(),
                command: command.clone(),
                hosts: hosts.iter().map(|rule| rule.value.to_string()).collect(),
                internal: internal.iter().map(|rule| rule.value.to_string()).collect(),
                limits: StepLimits::of(self.settings, &bound),
                parent: std::process::id(),
            };
            let (status, tail) = self.step(&step, log, signals)?;
            if status != 0 {
                let command = Escaped(command.as_ref()).to_string();
                let (tail, over_host) = (shown(&tail), self.system.over_host);
                let limit = step::limit(self.staging).or(self.bound().look()?);
                self.check_disk(limit, &format!("{command}\n{tail}"))?;
                let error =
                    SnapshotError::Command { index, command, status, tail, over_host, limit };
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns what the build may write to the disk.
    fn bound(&self) -> Bound {
        let most = self.settings.limits.build.as_ref().map(|limit| limit.value);
        Bound { dir: self.staging.to_owned(), most: most.unwrap_or(Limits::DEFAULT_BUILD) }
    }

    /// Checks that the disk was no limit. `during` is what was being done.
    fn check_disk(&self, limit: Option<LimitReached>, during: &str) -> Result<(), SnapshotError> {
        let during = during.to_owned();
        match limit {
            Some(LimitReached::Room) => {
                let dir = self.staging.parent().unwrap_or(self.staging).to_owned();
                Err(SnapshotError::NoRoom { dir, during })
            }
            Some(LimitReached::Build) => {
                Err(SnapshotError::TooMuch { most: self.bound().most, during })
            }
            _ => Ok(()),
        }
    }

    /// Runs one command in a process of its own, since a boundary starts from a process with one
    /// thread; its status, and the end of its output.
    fn step(
        &self,
        step: &Step,
        log: &mut File,
        signals: &OwnedFd,
    ) -> Result<(i32, Vec<u8>), SnapshotError> {
        let path = self.staging.join(STEP);
        // The word of the command before says nothing about this one.
        pinfold_trees::remove_tree(&self.staging.join(step::LIMIT))?;
        fs::write(&path, serde_json::to_vec(step).map_err(io::Error::from)?)?;
        let (output, theirs) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let mut child = start_own(&["snapshot-step".as_ref(), path.as_os_str()], theirs)?;
        let mut output = File::from(output);
        let (mut tail, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        let mut ended_by = None;
        loop {
            let mut ready = [
                PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            ];
            match rustix::event::poll(&mut ready, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
            let (said, signalled) =
                (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if signalled && let Some(signal) = sys::next_signal(signals) {
                match signal {
                    // A shell stops all of a job, and continues all of it.
                    libc::SIGTSTP => sys::stop_self(),
                    libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => {
                        ended_by = Some(signal);
                        sys::pass_signal(&child, signal);
                    }
                    _ => sys::pass_signal(&child, signal),
                }
            }
            if !said {
                continue;
            }
            let count = output.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let said = &buffer[..count];
            (self.report)(Building::Output(said));
            log.write_all(said)?;
            tail.extend_from_slice(said);
            let surplus = tail.len().saturating_sub(KEPT);
            tail.drain(..surplus);
        }
        let status = child.wait()?;
        if let Some(signal) = ended_by {
            return Err(SnapshotError::Interrupted { signal });
        }
        Ok((status.code().unwrap_or(128 + libc::SIGKILL), tail))
    }

    /// Turns what landed into one tree, of which nothing has a set-user-ID bit.
    fn settle(&self, stack: &Stack) -> Result<(), SnapshotError> {
        let tree = self.staging.join(TREE);
        fs::create_dir(&tree)?;
        for (changes, place) in stack.landed()? {
            let place = tree.join(place);
            fs::create_dir_all(place.parent().unwrap_or(&tree))?;
            fs::rename(changes, place)?;
        }
        for name in OWN_FILES {
            match fs::remove_file(tree.join("etc").join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        without_special_bits(&tree)?;
        // What was closed is open now, and nobody writes any more.
        self.check_disk(self.bound().look()?, "all commands were run")?;
        for name in [LANDING, SEED, STEP, step::LIMIT] {
            pinfold_trees::remove_tree(&self.staging.join(name))?;
        }
        Ok(())
    }
}

/// Returns what commands may reach: the registries, as far as the administrator allows them, and the
/// hosts that the snapshot names.
pub(super) fn reachable(settings: &Settings) -> Result<Vec<Valued<NetworkRule>>, SnapshotError> {
    let mut hosts = build_hosts()?;
    hosts.retain(|rule| settings.ceiling.check_host(rule).is_ok());
    hosts.extend(settings.snapshot.hosts.iter().cloned());
    Ok(hosts)
}

/// Takes set-user-ID and set-group-ID bits away, and lets the owner into every directory.
fn without_special_bits(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, found) = (entry.path(), entry.metadata()?);
        let mode = found.mode();
        if found.is_dir() {
            let wanted = (mode | 0o700) & 0o1777;
            fs::set_permissions(&path, Permissions::from_mode(wanted))?;
            without_special_bits(&path)?;
        } else if found.is_file() && mode & 0o6000 != 0 {
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o1777))?;
        }
    }
    Ok(())
}
