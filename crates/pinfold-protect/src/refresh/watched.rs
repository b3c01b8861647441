//! The directories of a workspace that are watched for changed names.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::hidden::Hidden;
use super::wait;

/// Directories that are watched at most. Each takes the kernel about 1 KiB.
const MOST: usize = 16_384;
/// The user's editor and build tools need watches, too: at most one in so many is taken.
const SHARE: usize = 4;
/// The number of watches that a user may have (inotify(7)).
const LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";
/// What lies deeper is not watched.
const DEEPEST: usize = 64;
/// The sandbox has a git directory of its own, so the host's is not shown in the view.
const GIT: &[u8] = b".git";

/// What changes names, and who may use them.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::ONLYDIR);

/// Directories that are watched.
pub(super) struct Watched {
    /// The workspace and the watch; none if it cannot be watched.
    opened: Option<(OwnedFd, OwnedFd)>,
    /// The paths of the directories in the workspace, by the number of the watch.
    paths: HashMap<i32, PathBuf>,
    most: usize,
    is_complete: bool,
}

impl Watched {
    /// Watches every directory of a workspace, unless it is asked to stop.
    pub(super) fn new(hidden: &mut Hidden, stop: &OwnedFd) -> Self {
        let limit = fs::read_to_string(LIMIT).ok().and_then(|text| text.trim().parse().ok());
        let most = limit.map_or(0, |limit: usize| limit / SHARE).min(MOST);
        let open = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(hidden.workspace(), flags, Mode::empty())?;
            Ok((root, inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
        };
        let opened: Result<_, Errno> = open();
        let is_complete = opened.is_ok();
        let opened = opened.ok();
        let mut watched = Self { opened, paths: HashMap::new(), most, is_complete };
        watched.add(Path::new(""), Some(stop), hidden);
        watched
    }

    /// Returns whether each directory is watched.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns a descriptor that is readable when something has changed.
    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        self.opened.as_ref().map(|(_, watch)| watch)
    }

    /// Reads what has happened and watches new directories; returns whether anything has happened.
    /// What was renamed goes to `hidden`, and so do new names.
    pub(super) fn has_changed(&mut self, hidden: &mut Hidden) -> bool {
        let Some((_, watch)) = &self.opened else { return false };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut events = inotify::Reader::new(watch, &mut buffer);
        let (mut has_changed, mut new) = (false, Vec::new());
        while let Ok(event) = events.next() {
            has_changed = true;
            let what = event.events();
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            let path = self.paths.get(&event.wd()).zip(name).map(|(above, name)| above.join(name));
            if let Some(path) = &path {
                hidden.note(what, event.cookie(), path);
            }
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                new.push(PathBuf::new());
            } else if what.contains(ReadFlags::IGNORED) {
                self.paths.remove(&event.wd());
            } else if what.contains(ReadFlags::ISDIR)
                && what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)
            {
                new.extend(path);
            }
        }
        for path in new {
            self.add(&path, None, hidden);
        }
        has_changed
    }

    /// Watches a directory and those below it. One that is gone is no error.
    fn add(&mut self, path: &Path, stop: Option<&OwnedFd>, hidden: &mut Hidden) {
        let Some((root, watch)) = self.opened.take() else { return };
        if let Ok(directory) = open(&root, path) {
            let depth = path.components().count();
            self.add_tree(&watch, directory, path, depth, stop, hidden);
        }
        self.opened = Some((root, watch));
    }

    fn add_tree(
        &mut self,
        watch: &OwnedFd,
        directory: OwnedFd,
        path: &Path,
        depth: usize,
        stop: Option<&OwnedFd>,
        hidden: &mut Hidden,
    ) {
        let is_ended = stop.is_some_and(|stop| !wait(stop, None, Some(std::time::Duration::ZERO)));
        if path.file_name() == Some(OsStr::from_bytes(GIT)) || is_ended {
            return;
        }
        let by_number = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let added = if self.paths.len() < self.most && depth < DEEPEST {
            inotify::add_watch(watch, by_number, CHANGES)
        } else {
            Err(Errno::NOSPC)
        };
        match added {
            Ok(number) => self.paths.insert(number, path.to_owned()),
            // Nobody can list it, or it is gone.
            Err(Errno::ACCESS | Errno::NOENT) => return,
            Err(_) => {
                self.is_complete = false;
                return;
            }
        };
        let Ok(mut entries) = Dir::read_from(&directory) else { return };
        let mut names = Vec::new();
        while let Some(Ok(entry)) = entries.read() {
            if ![b".".as_slice(), b".."].contains(&entry.file_name().to_bytes()) {
                names.push((entry.file_name().to_owned(), entry.file_type()));
            }
        }
        drop(entries);
        hidden.note_names(path, names.iter().map(|(name, kind)| (name.to_bytes(), *kind)));
        let is_below = |kind| matches!(kind, FileType::Directory | FileType::Unknown);
        for (name, _) in names.into_iter().filter(|(_, kind)| is_below(*kind)) {
            let name = Path::new(OsStr::from_bytes(name.to_bytes()));
            if let Ok(opened) = open(&directory, name) {
                self.add_tree(watch, opened, &path.join(name), depth + 1, stop, hidden);
            }
        }
    }
}

/// Opens a directory, through no link and on no other file system: a view shows no other.
fn open(above: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(above, path, flags, Mode::empty(), how)
}
