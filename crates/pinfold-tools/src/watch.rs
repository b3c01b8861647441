//! Telling what changes (inotify(7)).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::error::{ErrorKind, ToolError};
use crate::list::start;
use crate::operation::{Change, EntryKind, Event, Watch};
use crate::roots::Roots;
use crate::walk::{Cancel, comes_to, walk_unsorted};

/// Directories that one watch covers at most.
const DIRECTORIES: usize = 50_000;

struct Watcher<'a> {
    events: OwnedFd,
    /// Where each watch lies.
    places: HashMap<i32, PathBuf>,
    root: PathBuf,
    /// Whether the directories below the root are watched as well.
    is_recursive: bool,
    watch: &'a Watch,
    report: &'a mut dyn FnMut(Event) -> bool,
}

/// Tells what changes until it is cancelled, or nobody listens any more.
///
/// # Errors
/// Returns an error for a place that cannot be watched; that it was cancelled.
pub(crate) fn watch(
    roots: &Roots,
    watch: &Watch,
    cancel: &Cancel,
    report: &mut dyn FnMut(Event) -> bool,
) -> Result<(), ToolError> {
    let (root, kind) = start(roots, &watch.path)?;
    let system = |errno| ToolError::system(&watch.path)(errno);
    let events = new_queue().map_err(system)?;
    let is_recursive = watch.recursive && kind == EntryKind::Directory;
    let mut watcher = Watcher { events, places: HashMap::new(), root, is_recursive, watch, report };
    watcher.add_all()?;
    if !(watcher.report)(Event { change: Change::Ready, path: watch.path.clone() }) {
        return Ok(());
    }
    loop {
        let mut ready = [
            PollFd::new(&watcher.events, PollFlags::IN),
            PollFd::new(&cancel.event, PollFlags::IN),
        ];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system(errno)),
        }
        cancel.check()?;
        if !watcher.read()? {
            return Ok(());
        }
    }
}

/// Returns an inotify instance without watches.
fn new_queue() -> Result<OwnedFd, Errno> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
}

impl Watcher<'_> {
    fn add_all(&mut self) -> Result<(), ToolError> {
        let root = self.root.clone();
        self.add(&root)?;
        if self.is_recursive {
            self.add_below(&root, false)?;
        }
        Ok(())
    }

    /// Watches everything again after the kernel dropped events, and then reports that. Among the dropped ones may
    /// be the creation of a directory, which would never be watched, or its move, after which its watch reports
    /// wrong paths. Returns false if the client or the root has gone.
    fn start_over(&mut self) -> Result<bool, ToolError> {
        self.events = new_queue().map_err(ToolError::system(&self.watch.path))?;
        self.places.clear();
        match self.add_all() {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            done => done?,
        }
        Ok((self.report)(Event { change: Change::Overflow, path: self.watch.path.clone() }))
    }

    fn add(&mut self, at: &Path) -> Result<(), ToolError> {
        if self.places.len() >= DIRECTORIES {
            let what = format!("more than {DIRECTORIES} directories to be watched");
            return Err(ToolError::about(ErrorKind::TooLarge, &what, &self.watch.path));
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF
            | WatchFlags::DONT_FOLLOW;
        let watched = inotify::add_watch(&self.events, at, flags).map_err(|errno| match errno {
            Errno::NOSPC => {
                let what = "the system's limit of watches is reached (fs.inotify.max_user_watches)";
                ToolError::about(ErrorKind::NoSpace, what, &at.into())
            }
            errno => ToolError::system(&at.into())(errno),
        })?;
        self.places.insert(watched, at.to_owned());
        Ok(())
    }

    /// Watches the directories below one, and reports their entries if it is new. A directory is watched before it
    /// is read, so no entry is lost, and each reported directory is already watched. Returns false if the client has
    /// gone.
    fn add_below(&mut self, at: &Path, is_new: bool) -> Result<bool, ToolError> {
        for entry in walk_unsorted(at) {
            let entry = entry?;
            if entry.depth() == 0 {
                continue;
            }
            if entry.file_type().is_some_and(|kind| kind.is_dir()) {
                self.add_if_there(entry.path())?;
            }
            let event = || Event { change: Change::Created, path: entry.path().into() };
            if is_new && !(self.report)(event()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Watches a directory; skips one that has gone since, or cannot be read, as walks do. Returns
    /// whether it is watched.
    fn add_if_there(&mut self, at: &Path) -> Result<bool, ToolError> {
        match self.add(at) {
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Denied) => {
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    /// Watches a directory no more that went elsewhere, nor those below: watches go with what they are
    /// of, and would report it under the paths that it had.
    fn forget_below(&mut self, at: &Path) {
        let events = &self.events;
        self.places.retain(|watched, place| {
            let stays = !place.starts_with(at);
            if !stays {
                // It may have ended by itself.
                let _ = inotify::remove_watch(events, *watched);
            }
            stays
        });
    }

    /// Reports what there is to report; false when nobody listens any more, or nothing is left to watch.
    fn read(&mut self) -> Result<bool, ToolError> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut seen = Vec::new();
        {
            let mut reader = Reader::new(&self.events, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|name| name.to_bytes().to_vec());
                        seen.push((event.wd(), event.events(), name));
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(ToolError::system(&self.watch.path)(errno)),
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        for (watched, flags, name) in seen {
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                return self.start_over();
            }
            let Some(place) = self.places.get(&watched).cloned() else { continue };
            if flags.contains(ReadFlags::IGNORED) {
                self.places.remove(&watched);
                continue;
            }
            if !self.event(&place, flags, name)? {
                return Ok(false);
            }
        }
        Ok(!self.places.is_empty())
    }

    fn event(
        &mut self,
        place: &Path,
        flags: ReadFlags,
        name: Option<Vec<u8>>,
    ) -> Result<bool, ToolError> {
        let is_own = flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
        // The directory above reports it, if it is watched.
        if is_own && place != self.root {
            return Ok(true);
        }
        let at = name.map_or_else(|| place.to_owned(), |name| place.join(OsStr::from_bytes(&name)));
        let change = if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            Change::Created
        } else if is_own || flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            Change::Removed
        } else {
            Change::Modified
        };
        if !(self.report)(Event { change, path: at.as_path().into() }) {
            return Ok(false);
        }
        let is_directory = flags.contains(ReadFlags::ISDIR);
        if is_directory && flags.contains(ReadFlags::MOVED_FROM) {
            self.forget_below(&at);
        }
        // One that the rules leave out is reported, as any name is, and not watched.
        let is_new = change == Change::Created && is_directory;
        if is_new && self.is_recursive && comes_to(&at)? {
            // What was made in it before it was watched is reported, too.
            return if self.add_if_there(&at)? { self.add_below(&at, true) } else { Ok(true) };
        }
        Ok(true)
    }
}
