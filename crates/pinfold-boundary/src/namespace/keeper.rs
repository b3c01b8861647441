//! Putting masks back that the host took off.
//!
//! Linux detaches a mount when a process in another mount namespace renames a file over the name
//! that it lies on, or removes that name (`__detach_mounts` in fs/namespace.c): an editor that saves
//! `.env` unmasks the new file in a live sandbox. The keeper is a process of its own outside the
//! sandbox that has joined its mount namespace. It watches the directories of masked names and puts
//! a mask back as soon as it is gone. That takes about 150 µs, so a program that waits for the save
//! can still read or open the file: the keeper reports each case to the supervisor, which notifies the user.
//! It also says whether the file may be the sandbox's: only the host can change a name that a mask lies
//! on, so what the first change after that has moved there is the host's. What was put on a name that the
//! host had freed, what replaced the host's file before the mask was back, and what no event reports is
//! doubtful.
//!
//! To close an inotify instance that watches takes the kernel up to 20 ms, which a short command
//! would wait for. So in the first moments of a session, and where the user's watches are used up, the
//! keeper waits for changes of the namespace's mounts (`mounts_poll` in fs/proc_namespace.c), which a
//! detached mask is, and looks at all masks every few milliseconds: a name that is moved away and
//! back takes its mask along, and changes no mount. Such a move within one step goes unseen.
//!
//! The sandbox cannot see or reach the keeper: it has no process of that name space in its own, and
//! the keeper is not dumpable. What it resolves lies beneath the sandbox's root and leads through no
//! link. It ends with its supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_wire::{Channel, LaunchOrder, Mask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::LinkNameSpaceType;

use super::masks::{Closed, put};
use super::root::{Root, inside};
use crate::sys;

mod fallen;
mod helper;
mod wall;
mod watches;

pub use fallen::Fallen;
pub use helper::start;
pub(crate) use helper::start_here;
use wall::Wall;
use watches::Watched;

/// A session that is over before this time watches nothing.
const SHORTEST: Duration = Duration::from_millis(200);
/// How often masks are looked at without inotify: in the first moments, and for a whole session.
const STEPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(20)];

/// Masks on whose names something happened, by their numbers: whether it was one move to the name.
type Touched = BTreeMap<usize, bool>;

/// Keeps masks until the supervisor's end of the channel is closed. The masks come over it, with a
/// descriptor of the mount namespace, and later those on new names; each that had fallen off is reported to `out`.
///
/// # Errors
/// Returns the error of the call that failed. No mask is put back then.
fn keep(channel: &Channel, out: &OwnedFd) -> Result<(), Errno> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
    allow_many_files();
    // The sandbox's own /proc does not show this process.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let this = rustix::fs::open("/proc/self", flags, Mode::empty())?;
    let Some((masks, namespace)) = receive(channel)? else { return Ok(()) };
    let wall = Wall::start(&masks, &namespace)?;
    join(&namespace)?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mounts = rustix::fs::openat(&this, "mountinfo", flags, Mode::empty())?;
    drop(this);
    let mut keeper = Keeper::new(&masks, wall, out)?;
    if keeper.raise_wall().is_err() {
        // As for an ordinary user.
        if let Some(wall) = keeper.wall.take() {
            wall.end();
        }
    }
    keeper.await_masks(channel)?;
    let opened = keeper.open();
    keeper.begin(&mounts)?;
    keeper.look_for(Some(SHORTEST), &mounts, channel)?;
    if !keeper.is_over && keeper.follow(&opened, channel).is_err() {
        keeper.look_for(None, &mounts, channel)?;
    }
    keeper.look_at(None)?;
    for (path, directory) in &opened {
        keeper.report_open(path, directory, Fallen::Doubtful)?;
    }
    // The supervisor does not wait until a watch is closed.
    rustix::io::write(out, &Fallen::Over.to_bytes()).map(|_| ())
}

/// Raises the limit of open files: a descriptor is held for each directory with masks.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn receive(channel: &Channel) -> Result<Option<(Vec<Mask>, OwnedFd)>, Errno> {
    let mut all = Vec::new();
    let mut namespace = None;
    loop {
        let received = channel.receive::<LaunchOrder>().map_err(|_| Errno::PROTO)?;
        let Some(received) = received else { return Ok(None) };
        namespace = received.descriptors.into_iter().next().or(namespace);
        match received.message {
            LaunchOrder::Mask(masks) => all.extend(masks),
            LaunchOrder::Seal(masks) => {
                all.extend(masks);
                return Ok(namespace.map(|namespace| (all, namespace)));
            }
            _ => {}
        }
    }
}

/// Joins a mount namespace, and first the user namespace that owns it, in which the caller has all
/// rights if he made it (user_namespaces(7)).
fn join(namespace: &OwnedFd) -> Result<(), Errno> {
    let owner = sys::owner_of_namespace(namespace.as_fd())?;
    match rustix::thread::move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User)) {
        // It is the caller's own.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
}

/// Returns a directory of the sandbox as a path from its root.
fn of_root(path: &Path) -> &Path {
    let relative = inside(path);
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}

struct Keeper<'a> {
    masks: &'a [Mask],
    root: Root,
    /// The masks by the directory that they lie in.
    places: BTreeMap<PathBuf, Vec<(OsString, usize)>>,
    /// Directories above these, with the names that lead to them.
    above: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// What is watched, by the number of the watch.
    watched: BTreeMap<i32, Watched>,
    /// Those of them that do not lie at their paths any more.
    moved: BTreeSet<i32>,
    /// Masks that were in place at some time.
    seen: BTreeSet<usize>,
    /// Those that have fallen off: an event from before they were put back can still come.
    fell: BTreeSet<usize>,
    /// Those on names that were free, or changed in a way that was not seen.
    doubtful: BTreeSet<usize>,
    /// What keeps files without their masks closed, if there is something.
    wall: Option<Wall>,
    out: &'a OwnedFd,
    is_over: bool,
}

impl<'a> Keeper<'a> {
    fn new(masks: &'a [Mask], wall: Option<Wall>, out: &'a OwnedFd) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Root::of(rustix::fs::open("/", flags, Mode::empty())?);
        let mut places: BTreeMap<PathBuf, Vec<(OsString, usize)>> = BTreeMap::new();
        let mut above: BTreeMap<PathBuf, BTreeSet<OsString>> = BTreeMap::new();
        for (number, mask) in masks.iter().enumerate() {
            let path = mask_path(mask);
            let Some((parent, name)) = path.parent().zip(path.file_name()) else { continue };
            places.entry(parent.to_owned()).or_default().push((name.to_owned(), number));
            for step in parent.ancestors() {
                let Some((upper, name)) = step.parent().zip(step.file_name()) else { break };
                above.entry(upper.to_owned()).or_default().insert(name.to_owned());
            }
        }
        Ok(Self {
            masks,
            root,
            places,
            above,
            watched: BTreeMap::new(),
            moved: BTreeSet::new(),
            seen: BTreeSet::new(),
            fell: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            wall,
            out,
            is_over: false,
        })
    }

    /// Has opens held in the directories that hidden files lie in now.
    fn raise_wall(&self) -> Result<(), Errno> {
        let find = |path: &Path| self.root.resolve(of_root(path)).ok();
        self.wall.as_ref().map_or(Ok(()), |wall| wall.mark(find))
    }

    /// Waits for an event, the end of the channel, or a time.
    ///
    /// # Errors
    /// Returns the error of `poll(2)`, and `EPIPE` if the wall has ended.
    fn wait_for(
        &mut self,
        event: &OwnedFd,
        flags: PollFlags,
        channel: &Channel,
        longest: Option<&Timespec>,
    ) -> Result<(), Errno> {
        let mut all = vec![PollFd::new(event, flags), PollFd::new(channel, PollFlags::IN)];
        all.extend(self.wall.iter().map(|wall| PollFd::new(wall.ended(), PollFlags::IN)));
        match poll(&mut all, longest) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let is_addressed = !all[1].revents().is_empty();
        let has_wall_ended = all.get(2).is_some_and(|wall| !wall.revents().is_empty());
        self.is_over = is_addressed && !self.heed(channel)?;
        if has_wall_ended { Err(Errno::PIPE) } else { Ok(()) }
    }

    /// Puts the masks that come over the channel on names that hidden files of a view have got, and on new names of secrets
    /// there; returns false at its end. When such a name is looked up, overlayfs moves a renamed directory to its new
    /// place with the masks in it, and what lies at the old one has none.
    ///
    /// # Errors
    /// Returns the error of putting one in place.
    fn heed(&mut self, channel: &Channel) -> Result<bool, Errno> {
        let Ok(Some(received)) = channel.receive::<LaunchOrder>() else { return Ok(false) };
        match received.message {
            LaunchOrder::Mask(masks) => {
                for mask in masks.iter().filter(|mask| !self.is_in_place(mask)) {
                    match put(&self.root, mask, &mut Closed::default()) {
                        // It was removed a moment ago.
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(errno) => return Err(errno),
                    }
                }
                self.look_at(None)?;
            }
            LaunchOrder::MaskNew(masks) => {
                for mask in masks.iter().filter(|mask| !self.is_in_place(mask)) {
                    // The end of the session names it, whatever comes of this.
                    let place = self.root.resolve(inside(mask_path(mask)));
                    let _ = place.and_then(|place| self.root.hide(place));
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Waits until the sandbox has put all masks in place, while this process starts: then it closes its root. However
    /// slow it is, one that was put before its turn would come twice, or hide what a later one takes.
    fn await_masks(&mut self, channel: &Channel) -> Result<(), Errno> {
        let step = Timespec { tv_sec: 0, tv_nsec: 200_000 };
        loop {
            let is_sealed = self.root.is_sealed()?;
            for (number, mask) in self.masks.iter().enumerate() {
                if !self.seen.contains(&number) && self.is_in_place(mask) {
                    self.seen.insert(number);
                }
            }
            if is_sealed || self.seen.len() == self.masks.len() {
                return Ok(());
            }
            let mut end = [PollFd::new(channel, PollFlags::IN)];
            match poll(&mut end, Some(&step)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    self.is_over = true;
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Says that the masks are kept.
    fn begin(&mut self, mounts: &OwnedFd) -> Result<(), Errno> {
        // What the sandbox itself has mounted until now is known.
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(mounts, PollFlags::PRI)], Some(&now))?;
        self.look_at(None)?;
        rustix::io::write(self.out, &Fallen::None.to_bytes()).map(|_| ())
    }

    /// Keeps masks without inotify for some time, or until the end.
    fn look_for(
        &mut self,
        time: Option<Duration>,
        mounts: &OwnedFd,
        channel: &Channel,
    ) -> Result<(), Errno> {
        let (begun, [short, long]) = (Instant::now(), STEPS);
        let step = if time.is_some() { short } else { long };
        let step = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
        while !self.is_over && time.is_none_or(|time| begun.elapsed() < time) {
            self.wait_for(mounts, PollFlags::PRI, channel, Some(&step))?;
            self.look_at(None)?;
        }
        Ok(())
    }

    /// Opens each directory, wherever it is now.
    fn open(&self) -> Vec<(PathBuf, OwnedFd)> {
        let all: BTreeSet<&PathBuf> = self.places.keys().chain(self.above.keys()).collect();
        let open = |path: &PathBuf| Some((path.clone(), self.root.resolve(of_root(path)).ok()?));
        all.into_iter().filter_map(open).collect()
    }

    /// Reports masks that are not in place in a directory that had this path.
    fn report_open(
        &self,
        path: &Path,
        directory: &OwnedFd,
        as_what: fn(u32) -> Fallen,
    ) -> Result<(), Errno> {
        for (name, number) in self.places.get(path).into_iter().flatten() {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            let is_open = statx(directory, name, flags, StatxFlags::TYPE)
                .is_ok_and(|found| !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
            if is_open && self.seen.contains(number) {
                rustix::io::write(self.out, &as_what(numbered(*number)?).to_bytes())?;
            }
        }
        Ok(())
    }

    /// Looks whether masks are in place, all or these, and puts back those that are not.
    fn look_at(&mut self, only: Option<&Touched>) -> Result<(), Errno> {
        for (number, mask) in self.masks.iter().enumerate() {
            let touched = match only {
                Some(only) => only.get(&number).copied(),
                None => Some(false),
            };
            let Some(is_one_move) = touched else { continue };
            let found = self.find(mask);
            let is_touched = only.is_some();
            if found == Place::Free || (is_touched && !is_one_move) {
                self.doubtful.insert(number);
            }
            // One that was never seen may not have been there yet.
            let was_there = !self.seen.insert(number);
            let said = match found {
                Place::Open => self.put_back(number, is_one_move)?,
                // It was replaced once more before its mask was back.
                Place::Masked if is_touched && self.fell.contains(&number) => {
                    Some(Fallen::Doubtful(numbered(number)?))
                }
                Place::Masked | Place::Free => None,
            };
            let is_said = |said: &Fallen| was_there || matches!(said, Fallen::Lost(_));
            if let Some(said) = said.filter(is_said) {
                rustix::io::write(self.out, &said.to_bytes())?;
            }
        }
        Ok(())
    }

    /// Puts a mask back, and returns what is to be reported.
    fn put_back(&mut self, number: usize, is_one_move: bool) -> Result<Option<Fallen>, Errno> {
        let is_known = is_one_move && !self.doubtful.contains(&number);
        let said = match put(&self.root, &self.masks[number], &mut Closed::default()) {
            Ok(()) if is_known => Fallen::PutBack,
            Ok(()) => Fallen::Doubtful,
            // It was removed a moment ago.
            Err(Errno::NOENT) => {
                self.doubtful.insert(number);
                return Ok(None);
            }
            Err(_) => Fallen::Lost,
        };
        self.fell.insert(number);
        numbered(number).map(|number| Some(said(number)))
    }

    /// Returns whether a mount lies there, or nothing.
    fn is_in_place(&self, mask: &Mask) -> bool {
        self.find(mask) != Place::Open
    }

    /// Looks at the name of a mask.
    fn find(&self, mask: &Mask) -> Place {
        let place = match self.root.resolve(inside(mask_path(mask))) {
            Ok(place) => place,
            // What nobody can reach needs no mask.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Place::Free,
            Err(_) => return Place::Open,
        };
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        match statx(&place, "", flags, StatxFlags::TYPE) {
            Ok(found) if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => {
                Place::Masked
            }
            _ => Place::Open,
        }
    }
}

fn mask_path(mask: &Mask) -> &Path {
    Path::new(OsStr::from_bytes(&mask.path))
}

fn numbered(number: usize) -> Result<u32, Errno> {
    u32::try_from(number).map_err(|_| Errno::OVERFLOW)
}

/// What lies at the name of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A mount.
    Masked,
    /// Nothing, or nothing that can be reached.
    Free,
    /// Something without its mask.
    Open,
}
