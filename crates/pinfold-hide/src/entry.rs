//! One hidden file in pinfold's state: a directory with a record, and the file under its own name.
//!
//! On one file system a single exchange of two names moves the file in and the link out. On two, a
//! durable copy is made first, and the original is removed when its link is in place. Killed at any
//! step, the file is whole on one side, and [`Entry::tidy`] removes what is left on the other.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_host::beneath::open_directory;
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionId;
use rustix::fs::{AtFlags, CWD, FileType, RenameFlags, Stat};
use rustix::fs::{renameat_with, statat, symlinkat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{Hidden, copy, sync};

/// The record's name. No hidden file has it: the file lies one level below.
const RECORD: &str = "record.json";
/// The directory in which the file lies.
const FILE: &str = "file";
/// What says that the link was in place.
const LINKED: &str = "linked";
/// What says that a file of the same path was hidden later.
const OLDER: &str = "older";
/// A copy that is not whole yet.
const COPY: &str = "copy";

/// What lies in the workspace for a moment, and why.
#[derive(Debug, Clone, Copy)]
enum Between {
    /// The link, and then the original, of a file that is moved in.
    Taking,
    /// The copy, and then the link, of a file that is moved out.
    Giving,
}

/// What lies at the path of a hidden file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The link to it.
    Hidden,
    /// Whatever became of a file that was hidden later.
    Older,
    /// Something else.
    Replaced,
    /// Nothing is there any more.
    Gone,
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// Where the link is, as bytes.
    path: Vec<u8>,
}

/// A hidden file.
pub(super) struct Entry {
    directory: PathBuf,
    path: PathBuf,
}

/// Returns where hidden files lie.
pub(super) fn store(places: &Places) -> PathBuf {
    places.state.join("hidden")
}

impl Entry {
    /// Makes a place for a file, and writes down where it comes from.
    pub(super) fn create(places: &Places, path: &Path) -> io::Result<Self> {
        let store = store(places);
        Places::make_private(&store)?;
        let directory = store.join(SessionId::generate()?.as_str());
        Places::make_private(&directory.join(FILE))?;
        let record = Record { path: path.as_os_str().as_bytes().to_vec() };
        let mut file = fs::File::create_new(directory.join(RECORD))?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.sync_all()?;
        sync(&open_directory(&directory)?)?;
        sync(&open_directory(&store)?)?;
        Ok(Self { directory, path: path.to_owned() })
    }

    pub(super) fn read(directory: PathBuf) -> Option<Self> {
        let record: Record =
            serde_json::from_slice(&fs::read(directory.join(RECORD)).ok()?).ok()?;
        let path = PathBuf::from(OsString::from_vec(record.path));
        path.file_name()?;
        Some(Self { directory, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where the file lies.
    pub(super) fn content(&self) -> PathBuf {
        self.directory.join(FILE).join(self.name())
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    pub(super) fn describe(&self) -> Hidden {
        let (path, content) = (self.path.clone(), self.content());
        let when = fs::metadata(self.directory.join(RECORD)).and_then(|found| found.modified());
        let condition = match fs::symlink_metadata(&path) {
            Ok(_) if leads_to(&path, &content) => Condition::Hidden,
            _ if self.directory.join(OLDER).exists() => Condition::Older,
            Err(_) => Condition::Gone,
            Ok(_) => Condition::Replaced,
        };
        Hidden { path, content, when: when.unwrap_or(SystemTime::UNIX_EPOCH), condition }
    }

    /// Notes that another file of the same path was hidden.
    pub(super) fn outdate(&self) -> io::Result<()> {
        fs::write(self.directory.join(OLDER), "")
    }

    /// Settles what an interrupted move left; false if nothing is hidden here.
    pub(super) fn tidy(&self) -> bool {
        let content = self.content();
        let is_here = is_file(&content);
        let (taking, giving) = (self.between(Between::Taking), self.between(Between::Giving));
        if is_here && fs::symlink_metadata(&giving).is_ok() {
            let _ = fs::remove_file(giving);
        }
        if leads_to(&taking, &content) {
            // The link has not got its place.
            let _ = fs::remove_file(&taking);
        } else if leads_to(&self.path, &content) && is_file(&taking) {
            // The link has its place, and this is the original.
            if copy::are_equal(&taking, &content) {
                let _ = fs::remove_file(&taking);
            } else if exchange(&taking, &self.path).is_ok() {
                let _ = fs::remove_file(&taking);
                self.remove();
                return false;
            }
        }
        let is_linked = leads_to(&self.path, &content);
        if is_here && is_linked {
            let _ = fs::write(self.directory.join(LINKED), "");
            return true;
        }
        let was_linked = self.directory.join(LINKED).exists();
        if is_here && (was_linked || !copy::are_equal(&self.path, &content)) {
            return true;
        }
        if !is_linked {
            self.remove();
        }
        false
    }

    /// Moves the file of this name in, and the link out. `stat` is what was checked.
    pub(super) fn take(&self, parent: &OwnedFd, name: &Path, stat: &Stat) -> io::Result<()> {
        let store = open_directory(&self.directory.join(FILE))?;
        symlinkat(self.content(), &store, name)?;
        match renameat_with(parent, name, &store, name, RenameFlags::EXCHANGE) {
            Err(Errno::XDEV) => {
                unlinkat(&store, name, AtFlags::empty())?;
                self.take_copy(parent, name, stat)?;
            }
            exchanged => {
                exchanged.map_err(cannot_exchange)?;
                if !is_same(&statat(&store, name, AtFlags::SYMLINK_NOFOLLOW)?, stat) {
                    renameat_with(parent, name, &store, name, RenameFlags::EXCHANGE)?;
                    return Err(has_changed());
                }
                sync(&store)?;
                sync(parent)?;
            }
        }
        fs::write(self.directory.join(LINKED), "")
    }

    fn take_copy(&self, parent: &OwnedFd, name: &Path, stat: &Stat) -> io::Result<()> {
        let directory = open_directory(&self.directory)?;
        let store = open_directory(&self.directory.join(FILE))?;
        copy::copy(parent, name, &directory, Path::new(COPY))?;
        renameat_with(&directory, COPY, &store, name, RenameFlags::NOREPLACE)?;
        sync(&store)?;
        let between = self.between(Between::Taking);
        let link = Path::new(between.file_name().unwrap_or_default());
        symlinkat(self.content(), parent, link)?;
        let exchange = || renameat_with(parent, link, parent, name, RenameFlags::EXCHANGE);
        if let Err(errno) = exchange() {
            let _ = unlinkat(parent, link, AtFlags::empty());
            return Err(cannot_exchange(errno));
        }
        let original = statat(parent, link, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_same(&original, stat) || !copy::are_equal(&between, &self.content()) {
            exchange()?;
            unlinkat(parent, link, AtFlags::empty())?;
            unlinkat(&store, name, AtFlags::empty())?;
            return Err(has_changed());
        }
        sync(parent)?;
        unlinkat(parent, link, AtFlags::empty())?;
        sync(parent)
    }

    /// Puts the file back in the place of its link, or where nothing is.
    pub(super) fn give_back(&self, parent: &OwnedFd, name: &Path) -> io::Result<()> {
        let store = open_directory(&self.directory.join(FILE))?;
        let is_there = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let how = if is_there { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let _ = fs::remove_file(self.directory.join(LINKED));
        match renameat_with(&store, name, parent, name, how) {
            Err(Errno::XDEV) => self.give_copy(parent, name, &store, how)?,
            moved => {
                moved.map_err(cannot_exchange)?;
                if is_there && !leads_to(&self.content(), &self.content()) {
                    renameat_with(&store, name, parent, name, how)?;
                    return Err(has_changed());
                }
            }
        }
        sync(parent)?;
        self.remove();
        Ok(())
    }

    fn give_copy(
        &self,
        parent: &OwnedFd,
        name: &Path,
        store: &OwnedFd,
        how: RenameFlags,
    ) -> io::Result<()> {
        let between = self.between(Between::Giving);
        let new = Path::new(between.file_name().unwrap_or_default());
        copy::copy(store, name, parent, new)?;
        if let Err(errno) = renameat_with(parent, new, parent, name, how) {
            unlinkat(parent, new, AtFlags::empty())?;
            return Err(cannot_exchange(errno));
        }
        if how == RenameFlags::EXCHANGE {
            if !leads_to(&between, &self.content()) {
                renameat_with(parent, new, parent, name, how)?;
                unlinkat(parent, new, AtFlags::empty())?;
                return Err(has_changed());
            }
            unlinkat(parent, new, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Returns the path of what lies in the workspace for a moment. Sessions do not see it: it is an
    /// environment file by its name.
    fn between(&self, why: Between) -> PathBuf {
        let mut name = OsString::from(match why {
            Between::Taking => ".env.pinfold-hide-",
            Between::Giving => ".env.pinfold-show-",
        });
        name.push(self.directory.file_name().unwrap_or_default());
        self.path.with_file_name(name)
    }

    /// Removes the entry.
    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

/// Returns whether a link at this path leads there.
fn leads_to(path: &Path, to: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target == to)
}

/// Returns whether this is the regular file that was checked, unchanged. A rename changes its change
/// time.
fn is_same(now: &Stat, before: &Stat) -> bool {
    FileType::from_raw_mode(now.st_mode) == FileType::RegularFile
        && (now.st_dev, now.st_ino, now.st_size) == (before.st_dev, before.st_ino, before.st_size)
        && (now.st_mtime, now.st_mtime_nsec) == (before.st_mtime, before.st_mtime_nsec)
        && now.st_nlink == 1
}

fn has_changed() -> io::Error {
    io::Error::other("it changed while it was moved; try again")
}

fn cannot_exchange(errno: Errno) -> io::Error {
    match errno {
        Errno::INVAL | Errno::NOSYS => {
            io::Error::other("its file system cannot exchange two names (renameat2(2))")
        }
        errno => errno.into(),
    }
}
