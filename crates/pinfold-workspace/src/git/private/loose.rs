//! Loose references: one small file each, of which a repository may have thousands.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pinfold_git::refs;
use rustix::fs::{FileType, Mode, OFlags};

use super::{Copies, LARGEST, Place, is_gone, vanished};

/// Loose references: the object of each name.
pub(super) type Loose = BTreeMap<Vec<u8>, Vec<u8>>;

/// A file of more bytes than these is no reference to an object.
const LONGEST: usize = 128;

/// The git directory of the host that is copied, and its copy.
pub(super) struct Directories<'a> {
    pub(super) place: &'a Place,
    pub(super) private: &'a Path,
    pub(super) host: &'a Path,
}

impl Copies {
    /// Collects the loose references below `name`, which is relative to the git directory: the copy
    /// has them packed. Symbolic ones stay files.
    ///
    /// # Errors
    /// Returns the file system's error, and that directories are nested too deeply.
    pub(super) fn loose(
        &mut self,
        directories: &Directories<'_>,
        name: &Path,
        loose: &mut Loose,
        deepest: usize,
    ) -> io::Result<()> {
        let Directories { place, private, host } = directories;
        let from = host.join(name);
        let too_deep = || io::Error::other(format!("{} is nested too deeply", from.display()));
        let deepest = deepest.checked_sub(1).ok_or_else(too_deep)?;
        let opened = place.open(&from, OFlags::DIRECTORY)?;
        for entry in fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = name.join(entry.file_name());
            let path = host.join(&name);
            if kind.is_dir() {
                match self.loose(directories, &name, loose, deepest) {
                    // Packed since.
                    Err(error) if is_gone(&error, &path) => {}
                    done => done?,
                }
                continue;
            }
            if kind.is_file() {
                match self.object(&opened, entry.file_name().as_bytes()) {
                    Err(error) if is_gone(&error, &path) => continue,
                    object => {
                        if let Some(object) = object? {
                            loose.insert(super::super::bytes(&name), object);
                            continue;
                        }
                    }
                }
            }
            let copy = private.join(&name);
            copy.parent().map_or(Ok(()), fs::create_dir_all)?;
            if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, copy)?;
                self.links.push(path);
            } else if kind.is_file() {
                self.file(place, &path, &copy).or_else(|error| vanished(error, &path, &copy))?;
            }
        }
        Ok(())
    }

    /// Returns what a file names if that is an object. The file is opened in its directory, through
    /// no link, and read by one call: a start reads all of them.
    fn object(&mut self, directory: impl AsFd, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let mut buffer = [0; LONGEST];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer))?;
        self.copied += length as u64;
        if self.copied > LARGEST {
            return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
        }
        let is_whole = length < LONGEST;
        let object = buffer[..length].trim_ascii();
        let is_object = is_whole && std::str::from_utf8(object).is_ok_and(refs::is_object);
        Ok(is_object.then(|| object.to_vec()))
    }
}
