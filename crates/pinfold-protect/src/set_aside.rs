//! Setting aside what programs on the host must not execute.
//!
//! It goes out of the workspace, into pinfold's state, and loses every permission, so that neither
//! a program nor the next session meets it. A workspace on another file system keeps it, under
//! another name; a repository there stops being one. What is moved is written down first.
//! `pinfold adopt` lists it and puts it back.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use pinfold_git::refs::shell_word;
use pinfold_git::settled::Kept;
use pinfold_host::Refusal;
use pinfold_host::beneath::open_directory;
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_policy::path::Escaped;
use pinfold_trees::remove_tree;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What stays in the workspace has this added to its name.
const SUFFIX: &str = "pinfold-quarantine";
/// Names that are tried at most.
const MOST: u32 = 100_000;
/// Bytes of a record.
const LONGEST_RECORD: u64 = 64 << 10;

/// What one session sets aside.
#[derive(Debug)]
pub struct SetAside {
    directory: PathBuf,
    /// No record has this number or a higher one, unless another process makes it.
    next: AtomicU32,
}

/// What is written down of one file or directory.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Its path before, as bytes.
    path: Vec<u8>,
    /// Its path now, if it stayed in the workspace.
    stays: Option<Vec<u8>>,
    /// Its permissions before; none for a link.
    mode: Option<u32>,
    /// Whether its HEAD has another name now.
    is_broken: bool,
}

impl SetAside {
    /// Makes the place of a session of this name.
    pub fn of(places: &Places, session: &str) -> Self {
        Self { directory: directory(places).join(session), next: AtomicU32::new(0) }
    }

    /// Sets aside what lies at `path` beneath `root`.
    ///
    /// # Errors
    /// Returns the error of the call that failed. It may still be there, which the caller must say.
    pub fn take_beneath(&self, root: &OwnedFd, path: &Path, whole: &Path) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let above = above.unwrap_or(Path::new("."));
        let parent = rustix::fs::openat2(root, above, flags, Mode::empty(), how)?;
        self.take(&parent, Path::new(name), whole)
    }

    /// Sets aside the entry `name` of a directory; `path` is what is written down of it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::take_beneath`].
    pub fn take(&self, parent: &OwnedFd, name: &Path, path: &Path) -> io::Result<()> {
        let opened = rustix::fs::openat(parent, name, ENTRY, Mode::empty())?;
        let mode = rustix::fs::fstat(&opened)?.st_mode;
        let kind = FileType::from_raw_mode(mode);
        let is_link = kind == FileType::Symlink;
        if kind == FileType::Directory && mode & 0o700 != 0o700 {
            // Moving a directory to another one writes to it.
            rustix::fs::chmod(held(&opened), Mode::from_raw_mode(mode & 0o777 | 0o700))?;
        }
        let mut record = Record {
            path: path.as_os_str().as_bytes().to_vec(),
            stays: None,
            mode: (!is_link).then_some(mode & 0o777),
            is_broken: false,
        };
        let (number, file) = match self.write_down(&record) {
            Err(error) if is_full(&error) => {
                return Err(keep_there(parent, name, &opened, &error)?);
            }
            written => written?,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let store = rustix::fs::open(&self.directory, flags, Mode::empty())?;
        let to = number.to_string();
        match rustix::fs::renameat_with(parent, name, &store, &to, RenameFlags::NOREPLACE) {
            Err(Errno::XDEV) => {
                let is_repository = kind == FileType::Directory
                    && rustix::fs::accessat(&opened, HEAD, Access::EXISTS, NOFOLLOW).is_ok();
                let renamed = rename_aside_to(parent, name, |stays| {
                    let whole = path.with_file_name(stays);
                    record.stays = Some(whole.into_os_string().into_vec());
                    record.is_broken = is_repository;
                    write(&file, &record)
                });
                match renamed {
                    Err(error) if is_full(&error) => {
                        return Err(keep_there(parent, name, &opened, &error)?);
                    }
                    renamed => renamed?,
                };
                if is_repository {
                    break_repository(&opened);
                }
            }
            renamed => renamed?,
        }
        if kind == FileType::RegularFile && rustix::fs::fstat(&opened)?.st_nlink > 1 {
            // Permissions belong to all its names, and the others stay with their user.
            let moved = record.stays.is_none();
            return if moved { separate(&opened, &store, Path::new(&to)) } else { Ok(()) };
        }
        if !is_link {
            rustix::fs::chmod(held(&opened), Mode::empty())?;
        }
        Ok(())
    }

    fn write_down(&self, record: &Record) -> io::Result<(u32, fs::File)> {
        Places::make_private(&self.directory)?;
        let (number, file) = self.new_record()?;
        write(&file, record)?;
        Ok((number, file))
    }

    fn new_record(&self) -> io::Result<(u32, fs::File)> {
        for _ in 0..MOST {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.directory.join(format!("{number}.json"));
            let options = &mut fs::OpenOptions::new();
            match options.write(true).create_new(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return Ok((number, opened?)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Renames in its directory what cannot be written down, because a session may have filled the disk for
/// that. Returns what is said of it.
///
/// # Errors
/// Returns the error of `renameat2(2)` or `chmod(2)`.
fn keep_there(
    parent: &OwnedFd,
    name: &Path,
    opened: &OwnedFd,
    error: &io::Error,
) -> io::Result<io::Error> {
    let stays = rename_aside(parent, name)?;
    let found = rustix::fs::fstat(opened)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind == FileType::Directory {
        break_repository(opened);
    }
    if kind == FileType::Directory || kind != FileType::Symlink && found.st_nlink == 1 {
        rustix::fs::chmod(held(opened), Mode::empty())?;
    }
    let what = format!("{error}, so it was renamed to {}", Escaped(Path::new(&stays)));
    Ok(io::Error::new(error.kind(), what))
}

/// Bytes of a file with several names that are copied at most.
const LARGEST_COPY: u64 = 64 << 20;

/// Puts a copy without permissions in the place of a file, so that nobody changes what was set aside
/// by another name of the file. A large or unreadable one stays.
///
/// # Errors
/// Returns the error of the call that failed.
fn separate(file: &OwnedFd, store: &OwnedFd, name: &Path) -> io::Result<()> {
    let Ok(file) = fs::File::open(held(file)) else { return Ok(()) };
    if file.metadata()?.len() > LARGEST_COPY {
        return Ok(());
    }
    let copy = name.with_extension("copy");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut to = fs::File::from(rustix::fs::openat(store, &copy, flags, Mode::empty())?);
    io::copy(&mut io::Read::take(&file, LARGEST_COPY), &mut to)?;
    Ok(rustix::fs::renameat(store, &copy, store, name)?)
}

const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;
const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns the directory of everything that was set aside out of workspaces.
#[must_use]
pub fn directory(places: &Places) -> PathBuf {
    places.state.join("set-aside")
}

fn write(mut file: &fs::File, record: &Record) -> io::Result<()> {
    io::Seek::rewind(&mut file)?;
    file.write_all(&serde_json::to_vec(record)?)
}

/// Returns the path of what a descriptor is open on.
fn held(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Renames an entry in its directory, so that another can have its name. Returns its new name.
///
/// # Errors
/// Returns the error of `renameat2(2)`.
pub fn rename_aside(parent: &OwnedFd, name: &Path) -> Result<OsString, Errno> {
    rename_aside_to(parent, name, |_| Ok(()))
}

/// Does the same after `note` has written down the new name. A kill in between leaves a note of what has not moved.
fn rename_aside_to<E: From<Errno>>(
    parent: &OwnedFd,
    name: &Path,
    mut note: impl FnMut(&OsStr) -> Result<(), E>,
) -> Result<OsString, E> {
    for number in 0..MOST {
        let mut aside = name.as_os_str().to_owned();
        aside.push(format!(".{SUFFIX}"));
        if number > 0 {
            aside.push(format!("-{number}"));
        }
        if rustix::fs::accessat(parent, &aside, Access::EXISTS, NOFOLLOW).is_ok() {
            continue;
        }
        note(&aside)?;
        match rustix::fs::renameat_with(parent, name, parent, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            renamed => return Ok(renamed.map(|()| aside)?),
        }
    }
    Err(Errno::EXIST.into())
}

const HEAD: &str = "HEAD";
const BROKEN_HEAD: &str = "HEAD.pinfold-quarantine";

/// Takes the file away without which git takes no directory for a repository: permissions keep
/// nobody who is root from entering one.
fn break_repository(directory: &OwnedFd) -> bool {
    rustix::fs::renameat_with(directory, HEAD, directory, BROKEN_HEAD, RenameFlags::NOREPLACE)
        .is_ok()
}

/// Returns whether this is a name that something got which was set aside in the workspace.
pub(crate) fn is_set_aside(name: &[u8]) -> bool {
    let length = SUFFIX.len() + 1;
    if name.len() <= length {
        return false;
    }
    let is_suffix = |part: &[u8]| part.strip_prefix(b".") == Some(SUFFIX.as_bytes());
    name.windows(length).rposition(is_suffix).is_some_and(|at| {
        let rest = &name[at + length..];
        let number = rest.strip_prefix(b"-").unwrap_or(b"x");
        at > 0 && (rest.is_empty() || number.iter().all(u8::is_ascii_digit))
    })
}

/// Something that was set aside and not put back.
#[derive(Debug)]
pub struct Aside {
    /// Its path before.
    pub path: PathBuf,
    /// The session that had made it.
    pub session: String,
    /// When it was set aside.
    pub when: SystemTime,
    file: PathBuf,
    record: Record,
}

/// Lists what was set aside, the newest first.
#[must_use]
pub fn list(places: &Places) -> Vec<Aside> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<Aside> = entries(&directory(places))
        .flat_map(|session| entries(&session.path()))
        .filter_map(|entry| Aside::read(entry.path()))
        .collect();
    all.sort_by_key(|aside| (std::cmp::Reverse(aside.when), aside.file.clone()));
    all
}

/// Removes everything that sessions set aside out of workspaces, except what `is_live` sessions did. What is still
/// in a workspace, under another name, stays there and can still be put back.
///
/// # Errors
/// Returns the error of the first entry that cannot be removed, with its path.
pub fn remove_all(places: &Places, is_live: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let mut sessions = HashSet::new();
    for aside in list(places).into_iter().filter(|aside| !is_live(&aside.session)) {
        if aside.record.stays.is_none() {
            // The record goes last: killed in between, what is left of a tree can still be found.
            remove_tree(&aside.now()).at("remove", &aside.path)?;
            remove_tree(&aside.file).at("remove", &aside.file)?;
        }
        sessions.extend(aside.file.parent().map(Path::to_owned));
    }
    for session in sessions {
        // One with a record of something in a workspace is not empty.
        let _ = fs::remove_dir(session);
    }
    Ok(())
}

/// Returns what is reported of something that was set aside, with the command that puts it back from where the
/// user is.
pub fn kept(path: &Path, why: impl ToString) -> Kept {
    let current = std::env::current_dir().ok().filter(|it| it.parent().is_some());
    let near = current
        .as_ref()
        .and_then(|it| path.strip_prefix(it).ok())
        .filter(|near| !near.as_os_str().as_bytes().starts_with(b"-"));
    let command = match near.unwrap_or(path).to_str() {
        Some(word) if !word.chars().any(char::is_control) => {
            format!("pinfold adopt {}", shell_word(word))
        }
        _ => "pinfold adopt".to_owned(),
    };
    Kept { adopt: Some(command), ..Kept::new(Escaped(path).to_string(), why) }
}

/// Puts back what was set aside last from a path. Returns the path.
///
/// # Errors
/// Returns why it stays where it is.
pub fn adopt(places: &Places, path: &Path) -> Result<PathBuf, Refusal> {
    let path = std::path::absolute(path).map_err(Refusal::about(Escaped(path)))?;
    // What lies above may be reached through a link.
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let path =
        parent.zip(path.file_name()).map_or(path.clone(), |(parent, name)| parent.join(name));
    let all = list(places);
    let around = all.iter().find(|aside| path.starts_with(&aside.path)).map(|aside| &aside.path);
    let nothing = || {
        let what = Refusal::new(format!("nothing was set aside from {}", Escaped(&path)));
        let hint = match around {
            Some(around) => format!("{} was set aside as a whole", Escaped(around)),
            None => "`pinfold adopt` lists what was set aside".to_owned(),
        };
        what.with_hint(hint)
    };
    let found = all.iter().find(|aside| aside.path == path || aside.stays_at(&path));
    let aside = found.ok_or_else(nothing)?;
    aside.put_back().map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Refusal::new(format!("{} is there; move it away first", Escaped(&aside.path)))
        }
        _ => Refusal::new(format!("{} cannot be put back", Escaped(&aside.path))).because(error),
    })?;
    Ok(aside.path.clone())
}

impl Aside {
    fn read(file: PathBuf) -> Option<Self> {
        if file.extension() != Some(OsStr::new("json")) {
            return None;
        }
        let found = fs::metadata(&file).ok().filter(|found| found.len() <= LONGEST_RECORD)?;
        let record: Record = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        let session = file.parent()?.file_name()?.to_string_lossy().into_owned();
        let path = PathBuf::from(OsString::from_vec(record.path.clone()));
        let aside = Self { path, session, when: found.modified().ok()?, file, record };
        // A session that was killed may have written down what it did not move any more.
        fs::symlink_metadata(aside.now()).is_ok().then_some(aside)
    }

    fn stays_at(&self, path: &Path) -> bool {
        self.record.stays.as_deref() == Some(path.as_os_str().as_bytes())
    }

    /// Returns where it lies now.
    fn now(&self) -> PathBuf {
        match &self.record.stays {
            Some(stays) => PathBuf::from(OsStr::from_bytes(stays)),
            None => self.file.with_extension(""),
        }
    }

    fn put_back(&self) -> io::Result<()> {
        let place = self.path.parent().zip(self.path.file_name());
        let (above, name) = place.ok_or(io::ErrorKind::InvalidInput)?;
        // Who may write above it could have put a link there.
        let above = open_directory(above)?;
        let now = self.now();
        let (from, now) = match (&self.record.stays, now.file_name()) {
            (Some(_), Some(name)) => (above.as_fd(), Path::new(name)),
            _ => (CWD, now.as_path()),
        };
        let opened = rustix::fs::openat(from, now, ENTRY, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
        let is_directory = kind == FileType::Directory;
        let mode = self.record.mode.map(Mode::from_raw_mode);
        let flags = RenameFlags::NOREPLACE;
        // Before it is in its place: killed after that, nothing is left to be done that anybody would miss.
        if let Some(mode) = mode {
            // Moving a directory to another one writes to it.
            let more = if is_directory { Mode::RWXU } else { Mode::empty() };
            rustix::fs::chmod(held(&opened), mode | more)?;
        }
        if self.record.is_broken {
            match rustix::fs::renameat_with(&opened, BROKEN_HEAD, &opened, HEAD, flags) {
                // An interrupted attempt did that.
                Err(Errno::NOENT) => {}
                renamed => renamed?,
            }
        }
        if let Err(errno) = rustix::fs::renameat_with(from, now, &above, name, flags) {
            if self.record.is_broken {
                break_repository(&opened);
            }
            if mode.is_some() {
                rustix::fs::chmod(held(&opened), Mode::empty())?;
            }
            return Err(errno.into());
        }
        if let Some(mode) = mode.filter(|_| is_directory) {
            rustix::fs::chmod(held(&opened), mode)?;
        }
        fs::remove_file(&self.file)?;
        // The session's directory goes with its last record.
        let _ = self.file.parent().map(fs::remove_dir);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
