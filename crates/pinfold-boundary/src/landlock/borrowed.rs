//! Objects of the host's repositories, which private git directories borrow.
//!
//! Elsewhere they are mounted at a path of the sandbox's own, which these directories name
//! (`objects/info/alternates`, gitrepository-layout(5)). While the session lives they name the place on the host. After that
//! they name what they did, because the host reads them in a sandbox that has that path.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::layout::Layout;
use crate::namespace::Root;

/// Directories of submodules within each other at most.
const DEEPEST: usize = 16;
const ALTERNATES: &str = "objects/info/alternates";

/// A file that names where borrowed objects lie, with what it named before the session.
#[derive(Debug)]
pub(super) struct Alternates {
    git: PathBuf,
    named: Vec<u8>,
}

impl Alternates {
    /// Puts back what the file named. The sandbox may have put links in the place of what lies in the directory, and none is
    /// followed.
    ///
    /// # Errors
    /// Returns the error of writing it.
    pub(super) fn put_back(&self) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let git = Root::of(rustix::fs::openat(CWD, &self.git, flags, Mode::empty())?);
        git.create(ALTERNATES.as_ref(), 0o644, &self.named)
    }
}

/// Has a git directory, and those of its submodules, name where borrowed objects lie on the host. Nothing has run yet that
/// could have written there.
///
/// # Errors
/// Returns the error of reading or writing a file.
pub(super) fn put_in_place(git: &Path, layout: &Layout) -> Result<Vec<Alternates>, Errno> {
    let mut all = Vec::new();
    let done = in_directory(git, layout, DEEPEST, &mut all);
    done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(all)
}

fn in_directory(
    git: &Path,
    layout: &Layout,
    depth: usize,
    all: &mut Vec<Alternates>,
) -> io::Result<()> {
    let alternates = git.join(ALTERNATES);
    match fs::read(&alternates) {
        Ok(named) => {
            fs::write(&alternates, placed(&named, layout))?;
            all.push(Alternates { git: git.to_owned(), named });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match depth.checked_sub(1) {
        Some(depth) => below(&git.join("modules"), layout, depth, all),
        None => Ok(()),
    }
}

/// Returns the lines with each path as it lies.
fn placed(named: &[u8], layout: &Layout) -> Vec<u8> {
    let place = |line: &[u8]| match line.first() {
        Some(b'/') => {
            layout.place(Path::new(OsStr::from_bytes(line))).into_os_string().into_encoded_bytes()
        }
        _ => line.to_vec(),
    };
    named.split(|byte| *byte == b'\n').map(place).collect::<Vec<_>>().join(&b'\n')
}

/// Does the same for what lies below `modules`, where a name may have slashes.
fn below(
    directory: &Path,
    layout: &Layout,
    depth: usize,
    all: &mut Vec<Alternates>,
) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if entry.path().join("objects").is_dir() {
            in_directory(&entry.path(), layout, depth, all)?;
        } else if let Some(depth) = depth.checked_sub(1) {
            below(&entry.path(), layout, depth, all)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
