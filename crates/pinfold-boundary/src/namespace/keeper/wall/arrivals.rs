//! Which files get a hidden name, and where those go that had one.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::judge::Judge;
use crate::sys::fanotify::{Mark, Permissions};

/// What gives a name, and takes it.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::ONLYDIR);

/// Renames that are remembered.
const MOST_MOVED: usize = 64;

struct Directory {
    opened: OwnedFd,
    hidden: Vec<OsString>,
}

/// Watches the directories of hidden names.
pub(super) struct Arrivals {
    watch: OwnedFd,
    directories: HashMap<i32, Directory>,
    /// Renames of files that had a hidden name, by the numbers that the kernel gives both sides. The
    /// second side may come with a later read.
    moved: VecDeque<u32>,
}

impl Arrivals {
    pub(super) fn new() -> Result<Self, Errno> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { watch, directories: HashMap::new(), moved: VecDeque::new() })
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.watch
    }

    /// Has opens in a directory held, and notes the files that have a hidden name there.
    ///
    /// # Errors
    /// Returns the error of `inotify_add_watch(2)` or `fanotify_mark(2)`.
    pub(super) fn watch(
        &mut self,
        opened: OwnedFd,
        names: &[OsString],
        permissions: &Permissions,
        judge: &mut Judge<'_>,
    ) -> Result<(), Errno> {
        let by_number = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let number = inotify::add_watch(&self.watch, by_number, NAMES)?;
        permissions.mark(Mark::Children, &opened)?;
        for name in names {
            judge.note(&opened, Path::new(name));
        }
        self.directories.insert(number, Directory { opened, hidden: names.to_vec() });
        Ok(())
    }

    /// Notes the files that have a hidden name now.
    pub(super) fn note_hidden(&self, judge: &mut Judge<'_>) {
        for Directory { opened, hidden } in self.directories.values() {
            hidden.iter().for_each(|name| judge.note(opened, Path::new(name)));
        }
    }

    /// Notes what has happened until now.
    ///
    /// # Errors
    /// Returns the error of `read(2)`.
    pub(super) fn read(&mut self, judge: &mut Judge<'_>) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            };
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.note_hidden(judge);
                continue;
            }
            let Some(directory) = self.directories.get(&event.wd()) else { continue };
            let Some(name) = event.file_name() else { continue };
            let name = OsStr::from_bytes(name.to_bytes());
            let is_hidden = directory.hidden.iter().any(|hidden| hidden == name);
            let is_moved = self.moved.contains(&event.cookie());
            if what.contains(ReadFlags::MOVED_FROM) {
                if is_hidden {
                    self.moved.truncate(MOST_MOVED);
                    self.moved.push_front(event.cookie());
                    judge.note_gone();
                }
            } else if is_hidden || what.contains(ReadFlags::MOVED_TO) && is_moved {
                judge.note(&directory.opened, Path::new(name));
            }
        }
    }
}
