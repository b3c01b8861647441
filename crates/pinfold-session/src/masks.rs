//! Masks on names of the live workspace, which the host can take off by saving a file.
//!
//! A helper process puts them back (`pinfold_boundary::namespace::keeper`). What it reports is
//! shown at the end of the session: a secret may have been read in between, a file that the host
//! executes may have been written. If a mask cannot be put back, everything in the sandbox ends.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use pinfold_boundary::namespace::keeper::Fallen;
use pinfold_boundary::{Cover, CoverKind};
use pinfold_policy::path::Escaped;
use pinfold_wire::Channel;
use rustix::process::{Signal, pidfd_send_signal};

use crate::file_id::Moment;
use crate::git::layout::PRIVATE;
use crate::launcher::Launcher;

/// The subcommand that keeps masks.
const SUBCOMMAND: &str = "keep-masks";
/// Where the private git directories lie in the sandbox.
const GIT: &[u8] = PRIVATE.as_bytes();
/// Masks that are named one by one at most.
const MOST_NAMED: usize = 8;

/// What keeps the masks of one session.
#[derive(Debug)]
pub(crate) struct Masks {
    /// The helper ends when this is closed.
    channel: Channel,
    thread: JoinHandle<Fell>,
}

/// What became of masks.
#[derive(Debug, Default)]
pub(crate) struct Fell {
    /// What the user should know, one line each.
    pub(crate) notes: Vec<String>,
    /// Files that the host saved, as they were right after their masks were put back.
    pub(crate) saved: HashMap<PathBuf, Moment>,
}

impl Masks {
    /// Starts to keep these masks in a mount namespace. `init` is a descriptor of the sandbox's
    /// first process.
    ///
    /// # Errors
    /// Returns the error of starting a thread, or of duplicating a descriptor.
    pub(crate) fn keep(masks: Vec<Cover>, mounts: OwnedFd, init: OwnedFd) -> io::Result<Self> {
        let (channel, inner) = Channel::pair().map_err(io::Error::other)?;
        let theirs = channel.as_fd().try_clone_to_owned()?;
        // The start of the session does not wait for it.
        let run = move || {
            let reports = hand_over(&Channel::from(theirs), inner, &mounts, masks.clone());
            reports.map_or_else(
                |error| Fell {
                    notes: vec![format!("masks are not put back ({error})")],
                    saved: HashMap::new(),
                },
                |reports| follow(reports, &masks, &init),
            )
        };
        let thread = thread::Builder::new().name("masks".to_owned()).spawn(run)?;
        Ok(Self { channel, thread })
    }

    /// Ends it.
    pub(crate) fn end(self) -> Fell {
        // Another descriptor of the same socket may still be open in the thread.
        let _ = rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Both);
        self.thread.join().unwrap_or_default()
    }
}

/// Starts the helper, and gives it the masks.
fn hand_over(
    channel: &Channel,
    inner: Channel,
    mounts: &OwnedFd,
    masks: Vec<Cover>,
) -> io::Result<std::process::ChildStdout> {
    let mut child =
        Launcher.start_talking(&[OsStr::new(SUBCOMMAND)], inner.as_fd().try_clone_to_owned()?)?;
    drop(inner);
    let reports = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let first = pinfold_wire::Order::Cover(Vec::new());
    channel.send(&first, &[mounts.as_fd()]).map_err(io::Error::other)?;
    channel.seal(masks).map_err(io::Error::other)?;
    // It is waited for by whoever reads to the end of its reports.
    thread::Builder::new().name("masks-end".to_owned()).spawn(move || child.wait())?;
    Ok(reports)
}

/// Reads what the helper reports until it ends.
fn follow(mut reports: std::process::ChildStdout, masks: &[Cover], init: &OwnedFd) -> Fell {
    let mut saved = HashMap::new();
    let (mut read, mut written, mut lost) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut bytes = [0; 4];
    while reports.read_exact(&mut bytes).is_ok() {
        let (number, is_lost) = match Fallen::from_bytes(bytes) {
            Fallen::PutBack(number) => (number, false),
            Fallen::Lost(number) => (number, true),
        };
        let Some(mask) = masks.get(number as usize) else { continue };
        // A workspace has the same path on the host.
        let host = Path::new(OsStr::from_bytes(&mask.path));
        saved.extend(Moment::of(host).ok().map(|moment| (host.to_owned(), moment)));
        let path = Escaped(host).to_string();
        // It would be the host's own git directory that the sandbox writes to.
        let is_git = matches!(&mask.kind, CoverKind::Replace(from) if from.starts_with(GIT));
        if is_lost || is_git {
            lost.insert(path);
            let _ = pidfd_send_signal(init, Signal::KILL);
        } else if mask.kind == CoverKind::Hide {
            read.insert(path);
        } else {
            written.insert(path);
        }
    }
    let mut notes = Vec::new();
    let mut say = |paths: BTreeSet<String>, what: &str| {
        if paths.is_empty() {
            return;
        }
        let count = paths.len();
        let mut names: Vec<String> = paths.into_iter().take(MOST_NAMED).collect();
        if count > MOST_NAMED {
            names.push(format!("and {} more", count - MOST_NAMED));
        }
        notes.push(format!("{}: {what}", names.join(", ")));
    };
    say(
        read,
        "saved on the host while the sandbox ran: the sandbox may have read it in that moment; \
         change the secrets in it, or work in a view (--workspace overlay)",
    );
    say(
        written,
        "saved on the host while the sandbox ran: the sandbox may have written to it in that \
         moment; look at it before you use it",
    );
    say(lost, "replaced on the host while the sandbox ran: the session was ended");
    Fell { notes, saved }
}
