//! Masks on names of the live workspace, which the host can take off by saving a file.
//!
//! A helper process puts them back (`pinfold_boundary::namespace::keeper`). What it reports is
//! shown at the end of the session: a secret may have been read in between, a file that the host
//! executes may have been written. If a mask cannot be put back, everything in the sandbox ends.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use pinfold_boundary::namespace::keeper::{self, Fallen};
use pinfold_boundary::{Ender, Inside, LaunchError, Mask, MaskKind};
use pinfold_git::layout::{PRIVATE, PROTECTED};
use pinfold_host::file_id::Moment;
use pinfold_policy::path::Escaped;
use pinfold_wire::Channel;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Where the private git directories lie in the sandbox.
const GIT: &[u8] = PRIVATE.as_bytes();
/// Masks that are named one by one at most.
const MOST_NAMED: usize = 8;

/// What is reported to the user if the helper did not live as long as the session.
const ENDED: &str = "what keeps masks in place ended before the session, which was ended as well: \
                     a file that the host saves in a live sandbox would lie open in it";

/// What a session does when the host takes a mask off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fall {
    /// It goes on: the mask is put back, and the user is notified.
    Mended,
    /// It ends: the mask cannot be put back in mount namespaces that its programs have made.
    Ends,
}

impl Fall {
    /// Returns what a session does whose programs may make namespaces of the mounts that masks are, or may not.
    #[must_use]
    pub fn of_nested(is_nested: bool) -> Self {
        if is_nested { Self::Ends } else { Self::Mended }
    }
}

/// What keeps the masks of one session.
#[derive(Debug)]
pub struct Masks {
    fall: Fall,
    /// The helper ends when this is closed.
    channel: Channel,
    helper: Helper,
    reports: File,
}

/// Masks that are kept.
#[derive(Debug)]
pub struct Kept {
    /// Ends the session whose masks cannot be put back, if it is one.
    ender: Option<Ender>,
    channel: Arc<Channel>,
    helper: Helper,
    thread: JoinHandle<Fell>,
}

/// What became of masks.
#[derive(Debug, Default)]
pub struct Fell {
    /// What the user should know, one line each.
    pub notes: Vec<String>,
    /// Files whose masks the host took off.
    pub unmasked: HashMap<PathBuf, Unmasked>,
    /// What the host made below a view under names of secrets, as far as that was seen.
    pub made: BTreeSet<PathBuf>,
    /// Where hidden files lie that the host renamed there, which the notes say.
    pub renamed: BTreeSet<PathBuf>,
}

impl Fell {
    /// Adds what came of a view.
    pub fn add(&mut self, other: Self) {
        self.notes.extend(other.notes);
        self.unmasked.extend(other.unmasked);
        self.made.extend(other.made);
        self.renamed.extend(other.renamed);
    }
}

/// What a file counts as whose mask the host took off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmasked {
    /// The host's, if it is still as it was right after its mask was put back.
    Host(Moment),
    /// The sandbox's: it may have put the file there; or the session was ended, and until then its programs
    /// could write to it.
    Sandbox,
}

impl Masks {
    /// Starts the helper of a sandbox, which has time until the masks are known. It is a copy of this process,
    /// which has one thread and has read no secret, or of init's parent.
    ///
    /// # Errors
    /// Returns the error of `socketpair(2)`, of `pipe2(2)` or of starting it.
    pub fn start(inside: &Inside, fall: Fall) -> Result<Self, LaunchError> {
        let failed = |what| move |source| LaunchError::System { what, source };
        let (channel, inner) = Channel::pair()?;
        let (reports, out) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|errno| failed("cannot make a pipe")(errno.into()))?;
        let helper = Helper(keeper::start(inside, inner, out)?);
        Ok(Self { fall, channel, helper, reports: reports.into() })
    }

    /// Has these masks kept in a mount namespace from now on, and returns once the sandbox has put them in place and
    /// they are watched; `None` if the sandbox has ended before.
    ///
    /// # Errors
    /// Returns that the helper cannot join the namespace, or the error of starting a thread.
    pub fn keep(
        mut self,
        masks: Vec<Mask>,
        mounts: &OwnedFd,
        inside: &Inside,
    ) -> io::Result<Option<Kept>> {
        // Nothing is taken out of `self` before the end: the channel is to be closed before the helper is waited for.
        let first = pinfold_wire::LaunchOrder::Mask(Vec::new());
        self.channel.send(&first, &[mounts.as_fd()]).map_err(io::Error::other)?;
        self.channel.seal(masks.clone()).map_err(io::Error::other)?;
        let ended = inside.ended();
        let mut ready =
            [PollFd::new(&self.reports, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut ready, None))?;
        if ready[0].revents().is_empty() {
            return Ok(None);
        }
        let ender = inside.ender()?;
        let mut bytes = [0; 4];
        self.reports.read_exact(&mut bytes)?;
        let first = Fallen::from_bytes(bytes);
        let Self { fall, .. } = self;
        let reports = self.reports;
        let of_renames = (fall == Fall::Ends).then(|| ender.try_clone()).transpose()?;
        let run = move || {
            let (mut fell, is_whole) = follow(first, reports, &masks, fall, &ender);
            if !is_whole {
                // From now on nobody would put a mask back, or nobody has looked for a last time.
                ender.end();
                fell.notes.push(ENDED.to_owned());
            }
            fell
        };
        let thread = thread::Builder::new().name("masks".to_owned()).spawn(run)?;
        let channel = Arc::new(self.channel);
        Ok(Some(Kept { ender: of_renames, channel, helper: self.helper, thread }))
    }
}

impl Kept {
    /// Takes further masks (`LaunchOrder::Mask`). The helper lives until this is dropped.
    pub(crate) fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.channel)
    }

    /// Returns what ends the session if a mask would have to follow a hidden file to another name and cannot.
    ///
    /// # Errors
    /// Returns the error of duplicating a descriptor.
    pub(crate) fn ender(&self) -> io::Result<Option<Ender>> {
        self.ender.as_ref().map(Ender::try_clone).transpose()
    }

    /// Ends it, once it has looked for a last time. Nobody else has the channel by now.
    pub fn end(self) -> (Fell, Helper) {
        let Self { channel, helper, thread, .. } = self;
        drop(channel);
        let ended = |_| Fell { notes: vec![ENDED.to_owned()], ..Fell::default() };
        (thread.join().unwrap_or_else(ended), helper)
    }
}

/// The helper process, if it is this process's. Once its channel is closed it ends, but it takes the kernel up to 20 ms to
/// close its watch. Waits on drop.
#[derive(Debug)]
pub struct Helper(Option<OwnedFd>);

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            let wait = || waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
            let _ = rustix::io::retry_on_intr(wait);
        }
    }
}

/// Reads what the helper reports until it ends, and whether it says itself that the session is over.
fn follow(
    first: Fallen,
    mut reports: File,
    masks: &[Mask],
    fall: Fall,
    ender: &Ender,
) -> (Fell, bool) {
    let mut is_whole = false;
    let mut unmasked = HashMap::new();
    let mut paths = FellPaths::default();
    let read_one = move || {
        let mut bytes = [0; 4];
        reports.read_exact(&mut bytes).is_ok().then(|| Fallen::from_bytes(bytes))
    };
    for fallen in std::iter::once(first).chain(std::iter::from_fn(read_one)) {
        let number = match fallen {
            Fallen::None => continue,
            Fallen::Over => {
                is_whole = true;
                break;
            }
            Fallen::PutBack(number) | Fallen::Doubtful(number) | Fallen::Lost(number) => number,
        };
        let Some(mask) = masks.get(number as usize) else { continue };
        // A workspace has the same path on the host.
        let host = Path::new(OsStr::from_bytes(&mask.path));
        let path = Escaped(host).to_string();
        // It would be the host's own git directory that the sandbox writes to.
        let is_git = matches!(&mask.kind, MaskKind::Replace(from)
            if from.starts_with(GIT) && !from.starts_with(PROTECTED.as_bytes()));
        if matches!(fallen, Fallen::Lost(_)) || is_git || fall == Fall::Ends {
            ender.end();
            paths.lost.insert(path);
            unmasked.insert(host.to_owned(), Unmasked::Sandbox);
            continue;
        }
        // A process that has entered a directory before, or some directory in it, can still write there, which may change
        // no time of its own.
        let is_directory = std::fs::symlink_metadata(host).is_ok_and(|found| found.is_dir());
        if matches!(fallen, Fallen::Doubtful(_)) || is_directory {
            unmasked.insert(host.to_owned(), Unmasked::Sandbox);
        } else if unmasked.get(host) != Some(&Unmasked::Sandbox) {
            let moment = Moment::of(host).ok();
            unmasked.extend(moment.map(|moment| (host.to_owned(), Unmasked::Host(moment))));
        }
        if mask.kind.hides() && matches!(fallen, Fallen::Doubtful(_)) {
            paths.perhaps_read.insert(path);
        } else if mask.kind.hides() {
            paths.read.insert(path);
        } else if unmasked.get(host) == Some(&Unmasked::Sandbox) {
            paths.written.remove(&path);
            paths.doubtful.insert(path);
        } else {
            paths.written.insert(path);
        }
    }
    (Fell { notes: paths.notes(), unmasked, ..Fell::default() }, is_whole)
}

/// The masked paths that the host's programs took the masks off, by what the sandbox may have done there.
#[derive(Default)]
struct FellPaths {
    read: BTreeSet<String>,
    /// Those of hidden files that a rename in the sandbox may have brought there.
    perhaps_read: BTreeSet<String>,
    written: BTreeSet<String>,
    doubtful: BTreeSet<String>,
    lost: BTreeSet<String>,
}

impl FellPaths {
    /// Returns what the user is notified of.
    fn notes(mut self) -> Vec<String> {
        self.perhaps_read.retain(|path| !self.read.contains(path));
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
            self.read,
            "saved on the host while the sandbox ran: the sandbox may have read it in that moment, and \
             written to it; change the secrets in it, then move it out of reach (`pinfold hide`) or work in a view \
             (--workspace overlay)",
        );
        say(
            self.perhaps_read,
            "replaced while the sandbox ran, by the host or by the sandbox: if it was the host, the sandbox may have \
             read it in that moment, and written to it; then change the secrets in it",
        );
        say(
            self.written,
            "saved on the host while the sandbox ran: the sandbox may have written to it in that \
             moment; look at it before you use it",
        );
        say(
            self.doubtful,
            "replaced while the sandbox ran, by the host or by the sandbox: what your machine would \
             run is set aside (`pinfold adopt` puts it back)",
        );
        say(self.lost, "replaced on the host while the sandbox ran: the session was ended");
        notes
    }
}
