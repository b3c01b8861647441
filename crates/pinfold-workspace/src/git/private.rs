//! The private git directory of a session: a copy of the host's.
//!
//! Everything is copied except objects. A read-only mount of the host's objects lies next to the
//! copy, and `objects/info/alternates` of the copy names it. So all of git works in the sandbox, with
//! hooks and configuration, and the copy holds exactly what the session made. An overlay would do the
//! same, but it needs more of the kernel and of the file system, and leaves whiteouts to interpret.
//! Files of Git LFS are borrowed in the same way.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Mask, MaskKind};
use pinfold_git::baseline::Start;
use pinfold_git::copied_ahead::CopiedAhead;
use pinfold_git::layout::{CONFIGS, OBJECTS};
use pinfold_git::secrets::without_secrets;
use pinfold_git::stamp::{Stamp, Stamps};
use pinfold_git::{packed, special_files};
use pinfold_host::anchor::Anchor;
use pinfold_protect::restrict::{Protect, follow};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::GuardError;

mod loose;

use loose::{Directories, Loose};

/// A git directory of more bytes than these, objects aside, is not copied.
const LARGEST: u64 = 512 << 20;

/// Levels of directories of references.
const DEEPEST: usize = 64;

/// Returns whether a file of this path in the copy is a hook's example (`templates/hooks` of git). A
/// directory may be the git directory of a submodule.
fn is_sample(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sample")
        && path.parent().is_some_and(|directory| directory.ends_with("hooks"))
}

/// Returns whether git has a file of this name as long as it changes another one. In the copy nobody
/// would ever remove it.
fn is_lock(name: &OsStr) -> bool {
    name.as_bytes().ends_with(b".lock")
}

/// A git directory of which the sandbox has a copy.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    /// The git directory on the host.
    pub(crate) host: Anchor,
    /// The copy, on the host.
    pub(crate) private: PathBuf,
    /// Where the host's objects are mounted inside.
    pub(crate) base: PathBuf,
    /// What it held at the start.
    pub(crate) start: Start,
    /// A name for it.
    pub(crate) number: usize,
    /// The host's files that [`Stamps::of`] lists, when they were copied.
    pub(crate) stamps: Stamps,
    /// The same files of the private directory, before the session started, where that is known. A repository
    /// without commits has none of them.
    pub(crate) own_stamps: Option<Stamps>,
}

impl Copied {
    /// Returns whether a file of the host's git directory is the one that was copied, unchanged. One
    /// that was not there and still is not counts as unchanged.
    pub(crate) fn is_as_copied(&self, name: &str) -> bool {
        self.stamps.get(name) == Stamp::of(&self.host.path().join(name))
    }
}

/// What was copied of one repository.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The git directory and those of its submodules.
    pub(crate) directories: Vec<Copied>,
    /// Host directories and where they are borrowed inside, read-only.
    borrowed: Vec<(PathBuf, PathBuf)>,
    copied: u64,
    links: Vec<PathBuf>,
    /// How many git directories borrow from the host's.
    bases: usize,
    /// An index that is copied already.
    ahead: Option<CopiedAhead>,
}

impl Copies {
    /// Begins to copy the index of a working tree's repository, to be used when its git directory is copied.
    /// `private` is the directory of all copies.
    pub(crate) fn begin_with_index(&mut self, top: &Path, private: &Path) {
        if self.ahead.is_none() {
            self.ahead = CopiedAhead::begin(top, private.join("index"));
        }
    }

    /// Forgets an index that was copied and did not get a place, as in a repository that is hidden.
    pub(crate) fn end_with_index(&mut self) {
        self.ahead = None;
    }

    /// Copies the git directory at `host` to `private`; `number` names it in the sandbox.
    ///
    /// # Errors
    /// Returns the file system's error, or a directory that is too large.
    pub(crate) fn make(
        &mut self,
        host: &Path,
        number: usize,
        private: &Path,
        protect: &mut Protect,
    ) -> Result<(), GuardError> {
        let objects = Path::new(OBJECTS).join(number.to_string());
        let failed = |error: io::Error| {
            let what = format!("cannot copy {}: {error}", host.display());
            GuardError::refused(
                what,
                Some(
                    "move the large files out of it, or work in a view of another checkout"
                        .to_owned(),
                ),
            )
        };
        special_files::refuse(host).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top =
            rustix::fs::open(host, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let place = Place { objects, host: host.to_owned(), top };
        let first = self.directories.len();
        self.directory(&place, private, host).map_err(failed)?;
        for copied in self.directories.iter_mut().skip(first) {
            copied.start = Start::read(&copied.private);
        }
        for link in std::mem::take(&mut self.links) {
            // The host's hooks still lead there. What lies in the copied directory does not.
            if follow(&link).is_some_and(|followed| !followed.end.starts_with(host)) {
                protect.keep_targets(&link);
            }
        }
        Ok(())
    }

    /// Notes the state of the private files. Call it before the session starts.
    pub(crate) fn note_stamps(&mut self) {
        for copied in &mut self.directories {
            copied.own_stamps = Some(copied.stamps.of_copy(&copied.private));
        }
    }

    /// Returns where the copy of a repository's or a linked worktree's git directory is.
    pub(crate) fn copy_of(&self, git: &Path) -> Option<PathBuf> {
        let within = self
            .directories
            .iter()
            .filter_map(|copied| Some((copied, git.strip_prefix(copied.host.path()).ok()?)));
        let (copied, rest) = within.min_by_key(|(_, rest)| rest.as_os_str().len())?;
        // Nothing to add would be a trailing slash.
        let is_itself = rest.as_os_str().is_empty();
        Some(if is_itself { copied.private.clone() } else { copied.private.join(rest) })
    }

    fn directory(&mut self, place: &Place, private: &Path, from: &Path) -> io::Result<()> {
        fs::create_dir(private)?;
        // By descriptor: a program in the workspace may put a link in the place of anything.
        let opened = place.open(from, OFlags::DIRECTORY)?;
        let here = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let mut loose = Loose::new();
        let (mut samples, mut led) = (Vec::new(), Vec::new());
        let has_head = here.join("HEAD").exists();
        let is_git = has_head && here.join("objects").is_dir();
        let base = place.objects.join(self.bases.to_string());
        self.bases += usize::from(is_git);
        for entry in fs::read_dir(&here)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let (to, host) = (private.join(&name), from.join(&name));
            if is_git && name == "packed-refs" || has_head && is_lock(&name) {
                continue;
            }
            if kind.is_dir() && is_git && name == "objects" {
                self.borrow_objects(&base, private, Anchor::held(from, &opened)?)?;
            } else if kind.is_dir() && is_git && name == "refs" {
                fs::create_dir(&to)?;
                let directories = Directories { place, private, host: from };
                self.loose(&directories, Path::new("refs"), &mut loose, DEEPEST)?;
            } else if kind.is_dir() && is_git && name == "logs" {
                self.logs(place, &to, &host)?;
            } else if kind.is_file() && is_sample(&to) {
                // What git executes has another name. A template brings a dozen of them.
                samples.push(name);
            } else if kind.is_dir() && is_git && name == "lfs" {
                // Where git-lfs looks for files of a repository that lends its objects.
                self.borrowed.push((host, base.join("lfs")));
            } else if kind.is_dir() && is_git && name == "branches" && has_nothing(&entry.path())? {
                // Every template of git has one, and no git of these days uses it.
            } else if kind.is_dir() {
                self.directory(place, &to, &host).or_else(|error| vanished(error, &host, &to))?;
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                std::os::unix::fs::symlink(&target, to)?;
                led.push(target);
                self.links.push(host);
            } else if kind.is_file() {
                self.file(place, &host, &to).or_else(|error| vanished(error, &host, &to))?;
            }
        }
        // `git pack-refs` and `git gc` write this file first and remove the loose references then. So who
        // reads it last misses none (git reads them in this order, too).
        let packed =
            if is_git { self.packed(place, &from.join("packed-refs"))? } else { Vec::new() };
        // A hook may be a link to its example.
        for name in samples.iter().filter(|name| led.iter().any(|led| led.ends_with(name))) {
            self.file(place, &from.join(name), &private.join(name))?;
        }
        if !packed.is_empty() || !loose.is_empty() {
            let packed = packed::with_loose(&packed, &loose);
            let mut file = File::create_new(private.join("packed-refs"))?;
            io::Write::write_all(&mut file, &packed)?;
        }
        Ok(())
    }

    /// Copies the logs of HEAD and of the stash. Those of all other references are the host's.
    fn logs(&mut self, place: &Place, to: &Path, from: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        for name in ["HEAD", "refs/stash"] {
            let private = to.join(name);
            match place.open(&from.join(name), OFlags::NONBLOCK) {
                Ok(_) => {
                    private.parent().map_or(Ok(()), fs::create_dir_all)?;
                    self.file(place, &from.join(name), &private)?;
                }
                // None is there, or a link to anywhere.
                Err(error) if is_missing_or_link(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the file of packed references; nothing where it is missing, or is a link, through which git
    /// would not write it either.
    fn packed(&mut self, place: &Place, path: &Path) -> io::Result<Vec<u8>> {
        match self.content(place, path) {
            Err(error) if is_missing_or_link(&error) => Ok(Vec::new()),
            content => content,
        }
    }

    /// Returns what a file holds.
    fn content(&mut self, place: &Place, from: &Path) -> io::Result<Vec<u8>> {
        let file = File::from(place.open(from, OFlags::NONBLOCK)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!(
                "{} was changed in the meantime",
                from.display()
            )));
        }
        let room = LARGEST - self.copied;
        let mut content = Vec::new();
        self.copied += io::Read::read_to_end(&mut file.take(room + 1), &mut content)? as u64;
        if self.copied > LARGEST {
            return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
        }
        Ok(content)
    }

    fn file(&mut self, place: &Place, from: &Path, to: &Path) -> io::Result<()> {
        let file = File::from(place.open(from, OFlags::NONBLOCK)?);
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other(format!(
                "{} was changed in the meantime",
                from.display()
            )));
        }
        // As much as may be, whatever it has grown to.
        let room = LARGEST - self.copied;
        let ahead =
            self.ahead.take_if(|ahead| ahead.is_of(&file)).and_then(|ahead| ahead.take(&file, to));
        let mut new = OpenOptions::new();
        let copy = match ahead {
            Some(_) => new.write(true).open(to)?,
            None => new.write(true).create_new(true).open(to)?,
        };
        self.copied += match ahead {
            Some(length) => length,
            None => io::copy(&mut file.take(room + 1), &mut &copy)?,
        };
        if self.copied > LARGEST {
            return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
        }
        copy.set_permissions(about.permissions())?;
        if CONFIGS.iter().any(|name| from.ends_with(name))
            && let Some(clean) = without_secrets(&fs::read(to)?)
        {
            fs::write(to, clean)?;
        }
        // By the time of an index git knows which files may have changed since it looked at them
        // (Documentation/technical/racy-git.txt).
        copy.set_modified(about.modified()?)
    }

    fn borrow_objects(&mut self, base: &Path, private: &Path, host: Anchor) -> io::Result<()> {
        let own = private.join("objects");
        for path in [own.clone(), own.join("info"), own.join("pack")] {
            fs::create_dir(path)?;
        }
        let inside = base.join("objects");
        fs::write(own.join("info/alternates"), format!("{}\n", inside.display()))?;
        self.borrowed.push((host.path().join("objects"), inside.clone()));
        let stamps = Stamps::of(host.path());
        self.directories.push(Copied {
            host,
            private: private.to_owned(),
            base: inside,
            start: Start::default(),
            number: self.directories.len(),
            stamps,
            own_stamps: None,
        });
        Ok(())
    }

    /// Directories of the host and where they are borrowed inside.
    pub(crate) fn borrowed(&self) -> impl Iterator<Item = &(PathBuf, PathBuf)> {
        self.borrowed.iter()
    }

    /// Returns the masks that mount what is borrowed, to come before all others: they take from the
    /// host's git directory while it can still be seen.
    pub(crate) fn masks(&self) -> impl Iterator<Item = Mask> {
        self.borrowed.iter().map(|(host, inside)| {
            let kind = MaskKind::Borrow(super::bytes(host));
            Mask { path: super::bytes(inside), kind }
        })
    }
}

/// Skips what the host has removed since its directory was listed, as git does with its locks.
/// Nothing of it stays in the copy.
fn vanished(error: io::Error, host: &Path, copy: &Path) -> io::Result<()> {
    if !is_gone(&error, host) {
        return Err(error);
    }
    match fs::symlink_metadata(copy) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(copy),
        Ok(_) => fs::remove_file(copy),
        Err(_) => Ok(()),
    }
}

/// Returns whether something could not be read because it is not there any more.
fn is_gone(error: &io::Error, path: &Path) -> bool {
    error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err()
}

fn is_missing_or_link(error: &io::Error) -> bool {
    let link = rustix::io::Errno::LOOP.raw_os_error();
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(link)
}

/// Returns whether a directory has no entries.
fn has_nothing(directory: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(directory)?.next().is_none())
}

/// Where one git directory of the host lies, and where its objects appear in the sandbox.
struct Place {
    objects: PathBuf,
    host: PathBuf,
    top: OwnedFd,
}

impl Place {
    /// Opens what lies below, following no link.
    fn open(&self, host: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = host.strip_prefix(&self.host).map_err(io::Error::other)?;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.top, path, flags, Mode::empty(), how)?)
    }
}

#[cfg(test)]
mod tests;
