//! A directory only its owner can read, and the files in it.
//!
//! Everything is done relative to one open descriptor of the directory, no symbolic link is
//! followed, and what is read was checked on the descriptor it is read from.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat,
    renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use zeroize::Zeroizing;

use crate::Error;
use crate::secret::MAX_LEN;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Names of files that are being written. No [`crate::SecretId`] begins with a dot.
const TEMPORARY: &str = ".new-";

/// An open private directory.
pub(crate) struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens the directory; `None` when it is missing.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let kind = "a symbolic link or a file";
                return Err(Error::WrongKind { path: path.into(), kind, wanted: "a directory" });
            }
            Err(errno) => return Err(failed("open", path, errno)),
        };
        let stat = fstat(&fd).map_err(|errno| failed("look at", path, errno))?;
        check_private(&stat, path, DIR_MODE)?;
        Ok(Some(Self { fd, path: path.into() }))
    }

    /// Opens the directory, making it and its parents when they are missing.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        let made = std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(path);
        made.map_err(|cause| Error::File { action: "make", path: path.into(), cause })?;
        Self::open(path)?.ok_or_else(|| failed("open", path, Errno::NOENT))
    }

    /// Returns the path of a file in it, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns whether there is a file with something in it, by its metadata alone.
    pub(crate) fn holds(&self, name: &str) -> Result<bool, Error> {
        Ok(self.open_file(name)?.is_some_and(|(_, stat)| stat.st_size > 0))
    }

    /// Returns the content of a file; `None` when it is missing.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let Some((fd, _)) = self.open_file(name)? else { return Ok(None) };
        // One byte more than is ever accepted, and room for it from the start: a vector that
        // grows leaves copies behind.
        let mut content = Zeroizing::new(Vec::with_capacity(MAX_LEN + 2));
        let limit = u64::try_from(MAX_LEN + 1).unwrap_or(u64::MAX);
        File::from(fd).take(limit).read_to_end(&mut content).map_err(|cause| Error::File {
            action: "read",
            path: self.path_of(name),
            cause,
        })?;
        Ok(Some(content))
    }

    /// Writes a file as a whole or not at all: temporary, `fsync`, rename, `fsync` of the
    /// directory.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let _lock = self.lock()?;
        self.put(name, content)
    }

    /// Works like [`PrivateDir::write`], if the file is there and its content is as expected; says
    /// whether it was.
    pub(crate) fn replace(
        &self,
        name: &str,
        content: &[u8],
        is_expected: impl FnOnce(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let _lock = self.lock()?;
        match self.read(name)? {
            Some(current) if is_expected(&current) => self.put(name, content).map(|()| true),
            Some(_) | None => Ok(false),
        }
    }

    /// Writes a file under the lock.
    fn put(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        self.sweep()?;
        let temporary = format!("{TEMPORARY}{name}");
        let written = self.write_temporary(&temporary, content).and_then(|()| {
            renameat(&self.fd, &temporary, &self.fd, name)
                .map_err(|errno| failed("rename to", &self.path_of(name), errno))
        });
        if written.is_err() {
            // The first error is the one to tell; a temporary that stays is swept by the next.
            let _ = unlinkat(&self.fd, &temporary, AtFlags::empty());
        }
        written?;
        rustix::fs::fsync(&self.fd).map_err(|errno| failed("sync", &self.path, errno))
    }

    /// Removes a file, and what an interrupted write left; says whether there was one.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, Error> {
        let _lock = self.lock()?;
        self.sweep()?;
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failed("remove", &self.path_of(name), errno)),
        }
        rustix::fs::fsync(&self.fd).map_err(|errno| failed("sync", &self.path, errno))?;
        Ok(true)
    }

    /// Returns the names of the files in it that are not hidden, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = self.all_names()?;
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        Ok(names)
    }

    fn all_names(&self) -> Result<Vec<String>, Error> {
        let list = |errno| failed("list", &self.path, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(list)? {
            let entry = entry.map_err(list)?;
            if let Ok(name) = entry.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open_file(&self, name: &str) -> Result<Option<(OwnedFd, Stat)>, Error> {
        let path = self.path_of(name);
        // NONBLOCK: opening a FIFO must not hang; it has no effect on a regular file.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {
                let kind = "a symbolic link";
                return Err(Error::WrongKind { path, kind, wanted: "a plain file" });
            }
            Err(errno) => return Err(failed("open", &path, errno)),
        };
        let stat = fstat(&fd).map_err(|errno| failed("look at", &path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let kind = "not a regular file";
            return Err(Error::WrongKind { path, kind, wanted: "a plain file" });
        }
        check_private(&stat, &path, FILE_MODE)?;
        Ok(Some((fd, stat)))
    }

    fn write_temporary(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.path_of(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::from_raw_mode(FILE_MODE))
            .map_err(|errno| failed("make", &path, errno))?;
        // A umask can only take bits away, and may take the owner's too.
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(FILE_MODE))
            .map_err(|errno| failed("set the mode of", &path, errno))?;
        let mut file = File::from(fd);
        file.write_all(content).and_then(|()| file.sync_all()).map_err(|cause| Error::File {
            action: "write",
            path,
            cause,
        })
    }

    /// Removes temporaries of writers that were killed. Called under the lock, so none is alive.
    fn sweep(&self) -> Result<(), Error> {
        for name in self.all_names()?.iter().filter(|name| name.starts_with(TEMPORARY)) {
            match unlinkat(&self.fd, name.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed("remove", &self.path_of(name), errno)),
            }
        }
        Ok(())
    }

    /// Waits for a lock of this name, which no writer holds, and takes it. It is given back when
    /// the descriptor is closed, also by the end of the process (flock(2)).
    pub(crate) fn lock_named(&self, name: &str) -> Result<OwnedFd, Error> {
        let path = self.path_of(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::from_raw_mode(FILE_MODE))
            .map_err(|errno| failed("open", &path, errno))?;
        loop {
            match flock(&fd, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(fd),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("lock", &path, errno)),
            }
        }
    }

    /// Returns one writer at a time. The lock belongs to an open file description of its own and goes
    /// with it.
    fn lock(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(&self.fd, ".", flags, Mode::empty())
            .map_err(|errno| failed("lock", &self.path, errno))?;
        flock(&fd, FlockOperation::LockExclusive)
            .map_err(|errno| failed("lock", &self.path, errno))?;
        Ok(fd)
    }
}

/// Checks that the owner is the caller, and that nobody else has any permission.
fn check_private(stat: &Stat, path: &Path, wanted: u32) -> Result<(), Error> {
    let uid = geteuid().as_raw();
    if stat.st_uid != uid {
        return Err(Error::ForeignOwner { path: path.into(), owner: stat.st_uid, uid });
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(Error::ModeTooWide { path: path.into(), mode, wanted });
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path, errno: Errno) -> Error {
    Error::File { action, path: path.into(), cause: io::Error::from(errno) }
}
