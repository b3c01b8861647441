//! Keeping masks by watching the directories that they lie in (inotify(7)).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use pinfold_wire::Channel;
use rustix::event::PollFlags;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::{Fallen, Keeper, Touched, numbered};

/// What changes a name.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE);

/// That, and the end of a use in which a file was open for writing: a file whose mask had fallen off may have been written to.
const FILES: WatchFlags = NAMES.union(WatchFlags::CLOSE_WRITE);

/// A directory that is watched.
pub(super) struct Watched {
    path: PathBuf,
    /// The directory itself, if masks lie in it: it may be moved, and its masks with it.
    opened: Option<OwnedFd>,
}

impl Keeper<'_> {
    /// Keeps masks by watching their directories until the end.
    ///
    /// # Errors
    /// Returns that they cannot be watched, as [`Self::add`].
    pub(super) fn follow(
        &mut self,
        opened: &[(PathBuf, OwnedFd)],
        channel: &Channel,
    ) -> Result<(), Errno> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let known = opened.iter().map(|(path, directory)| {
            rustix::io::fcntl_dupfd_cloexec(directory, 0).map(|directory| (path.clone(), directory))
        });
        self.add(&watch, known.collect::<Result<_, _>>()?)?;
        while !self.is_over {
            self.watch(&watch)?;
            // If the wall has ended, the next wait says so.
            let _ = self.raise_wall();
            self.look_at(None)?;
            while self.wait(&watch, channel)? {
                if self.turn(&watch)? {
                    break;
                }
            }
        }
        // What happened in the last moment.
        while rustix::io::ioctl_fionread(&watch)? > 0 {
            self.turn(&watch)?;
        }
        Ok(())
    }

    /// Watches each directory, wherever it is now.
    ///
    /// # Errors
    /// Returns the errors of [`Self::add`].
    fn watch(&mut self, watch: &OwnedFd) -> Result<(), Errno> {
        let now = self.add(watch, self.open())?;
        self.moved = self.watched.keys().filter(|number| !now.contains(*number)).copied().collect();
        self.look_at_moved()
    }

    /// Watches these directories, and returns the numbers of the watches.
    ///
    /// # Errors
    /// Returns that one cannot be watched: a user's sandboxes share the number of watches that the
    /// kernel gives them (`fs.inotify.max_user_watches`), and one sandbox can use them up.
    fn add(
        &mut self,
        watch: &OwnedFd,
        opened: Vec<(PathBuf, OwnedFd)>,
    ) -> Result<BTreeSet<i32>, Errno> {
        let mut now = BTreeSet::new();
        for (path, directory) in opened {
            // Of this process there is no /proc here, so what a descriptor is open on has no path.
            if rustix::process::fchdir(&directory).is_err() {
                continue;
            }
            let flags = if self.places.contains_key(&path) { FILES } else { NAMES };
            match inotify::add_watch(watch, ".", flags | WatchFlags::ONLYDIR) {
                Ok(number) => {
                    let opened = self.places.contains_key(&path).then_some(directory);
                    self.watched.insert(number, Watched { path, opened });
                    now.insert(number);
                }
                // It was removed a moment ago, or nobody in the sandbox may list it.
                Err(Errno::NOENT | Errno::ACCESS) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(now)
    }

    /// Looks whether masks are in place in directories that were moved away from their paths. Where
    /// such a one is now is not known, so what fell off there cannot be put back.
    fn look_at_moved(&self) -> Result<(), Errno> {
        for watched in self.moved.iter().filter_map(|number| self.watched.get(number)) {
            if let Some(directory) = &watched.opened {
                self.report_open(&watched.path, directory, Fallen::Lost)?;
            }
        }
        Ok(())
    }

    /// Waits for a change; false at the end.
    fn wait(&mut self, watch: &OwnedFd, channel: &Channel) -> Result<bool, Errno> {
        self.wait_for(watch, PollFlags::IN, channel, None)?;
        Ok(!self.is_over)
    }

    /// Deals with what has happened, as far as one buffer holds it; true if a directory was replaced, or
    /// something was missed.
    fn turn(&mut self, watch: &OwnedFd) -> Result<bool, Errno> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let (mut touched, mut is_moved, mut is_missed) = (Touched::new(), false, false);
        let mut events = inotify::Reader::new(watch, &mut buffer);
        // The sandbox can fill the queue as fast as it is read: what one buffer reports is dealt with first.
        let mut is_begun = false;
        while !std::mem::replace(&mut is_begun, true) || !events.is_buffer_empty() {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                is_missed = true;
                continue;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                self.watched.remove(&event.wd());
                continue;
            }
            let Some(Watched { path, .. }) = self.watched.get(&event.wd()) else { continue };
            let Some(name) = event.file_name() else { continue };
            let name = OsStr::from_bytes(name.to_bytes());
            is_moved |= self.above.get(path).is_some_and(|names| names.contains(name));
            // While the mask lies there, only the host can move something to the name.
            let is_moved_to = event.events().contains(ReadFlags::MOVED_TO);
            let masks = self.places.get(path).into_iter().flatten();
            for (_, number) in masks.filter(|(mask, _)| mask == name) {
                let is_written = event.events().contains(ReadFlags::CLOSE_WRITE);
                // It is the host that saves in place, where the sandbox has only the mask.
                if is_written && !self.fell.contains(number) && !touched.contains_key(number) {
                    continue;
                }
                let is_alone = !touched.contains_key(number);
                touched.insert(*number, is_alone && is_moved_to);
            }
        }
        if !touched.is_empty() {
            self.look_at(Some(&touched))?;
            self.look_at_moved()?;
        }
        // A sandbox that floods the queue can hide that it has replaced what the host saved.
        for number in self.fell.iter().filter(|_| is_missed) {
            rustix::io::write(self.out, &Fallen::Doubtful(numbered(*number)?).to_bytes())?;
        }
        Ok(is_moved || is_missed)
    }
}
