//! The hash of what is trusted.
//!
//! It is SHA-256 (FIPS 180-4) over `pinfold-trust-1`, then for the settings file and for each file
//! that its commands name, in the order of their paths: the path, the length in bytes as decimal
//! text, the content; a NUL byte ends each path and each length. The settings file's path is its
//! format, `json` or `toml`, so that it is the same wherever it lies. Ralph's file follows it, as
//! `.agent-loop/`, if it asks for something. Last comes a base that lies in
//! the repository, with a slash before its path and with its digest as content.
//!
//! A second hash leaves the file's limits out. It begins with the file as its values, as `values`, so it
//! equals no hash of the first kind.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::digest::ContentHash;
use ring::digest::{Context, SHA256};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::base::BaseContent;
use crate::error::RepositoryError;

const VERSION: &[u8] = b"pinfold-trust-1";

/// Returns the name of a settings file's own content in its hash: its format.
pub(super) fn format(path: &Path) -> &'static [u8] {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if is_json { b"json" } else { b"toml" }
}

/// Hashes a settings file with the files that its commands name.
///
/// # Errors
/// Returns an error for a file that cannot be read.
pub(super) fn hash(
    (format, bytes, ralph): (&[u8], &[u8], Option<&[u8]>),
    named: &[PathBuf],
    base: Option<&BaseContent>,
    root: &Path,
) -> Result<ContentHash, RepositoryError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause: io::Error| RepositoryError::Read { path, cause }
    };
    let mut context = Context::new(&SHA256);
    context.update(VERSION);
    entry(&mut context, format, bytes.len() as u64);
    context.update(bytes);
    if let Some(ralph) = ralph {
        // No name that a command gives has a slash at its end.
        entry(&mut context, b".agent-loop/", ralph.len() as u64);
        context.update(ralph);
    }
    let top = directory(root).map_err(|errno| failed(root)(errno.into()))?;
    for name in named {
        let (file, length) = open(&top, name)
            .map_err(|errno| failed(&root.join(name))(errno.into()))?
            .ok_or_else(|| failed(&root.join(name))(io::ErrorKind::NotFound.into()))?;
        entry(&mut context, name.as_os_str().as_bytes(), length);
        feed(&mut context, file.take(length)).map_err(failed(&root.join(name)))?;
    }
    if let Some(BaseContent { path, digest }) = base {
        let name = [b"/", path.as_os_str().as_bytes()].concat();
        entry(&mut context, &name, digest.len() as u64);
        context.update(digest.as_bytes());
    }
    Ok(ContentHash::of(context))
}

fn entry(context: &mut Context, name: &[u8], length: u64) {
    for part in [name, length.to_string().as_bytes()] {
        context.update(part);
        context.update(b"\0");
    }
}

pub(super) fn feed(context: &mut Context, mut content: impl io::Read) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(()),
            count => context.update(&buffer[..count]),
        }
    }
}

/// Returns the root of a repository.
///
/// # Errors
/// Returns the error of `open(2)`.
pub(super) fn directory(root: &Path) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty())
}

/// Returns a regular file with its length, by a path that stays below the root; none if something else,
/// or nothing, lies there.
///
/// # Errors
/// Returns the error of `openat2(2)`.
pub(super) fn open(top: impl rustix::fd::AsFd, path: &Path) -> Result<Option<(File, u64)>, Errno> {
    // A FIFO that somebody put there is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(top, path, flags, Mode::empty(), how) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NXIO) => {
            return Ok(None);
        }
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    Ok(Some((file.into(), u64::try_from(stat.st_size).unwrap_or(0))))
}
