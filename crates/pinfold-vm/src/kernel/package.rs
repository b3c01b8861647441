//! A kernel that is taken out of packages of a distribution's.
//!
//! Only regular files below `boot` and `lib/modules` are taken, with names of their own and without links, owners
//! or modes. What came together is looked at as a whole before it takes the place of the kernel before it.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tar::{Archive, EntryType};
use tempfile::TempDir;
use thiserror::Error;

use super::{Kernel, KernelError, NoKernel};
use crate::architecture::Architecture;
use crate::kept;
use crate::modules::{ModuleError, WANTED};

/// What is unpacked in all at most, and files of it. Ubuntu's general kernel has 600 MiB in 7000.
const LARGEST: u64 = 2 << 30;
const MOST_FILES: u32 = 50_000;
/// The most bytes of a name that are read (PATH_MAX).
const LONGEST_NAME: u64 = 4096;
/// What an archive may have in addition to that: headers, and what is not taken.
const OTHER: u64 = 1 << 30;

/// Why a kernel was not taken.
#[derive(Debug, Error)]
pub enum PackageError {
    /// The archive is broken, or its files cannot be written.
    #[error("cannot unpack the kernel's files: {0}")]
    Unpack(#[source] io::Error),
    /// The directory of kernels cannot be changed.
    #[error("cannot change {path}: {source}")]
    Place {
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is more than any kernel has.
    #[error("the packages have more than {MOST_FILES} files or {} MiB of a kernel", LARGEST >> 20)]
    TooLarge,
    /// No image came with its modules.
    #[error(transparent)]
    None(#[from] NoKernel),
    /// Its image cannot be booted.
    #[error(transparent)]
    Image(#[from] KernelError),
    /// It lacks what a guest needs.
    #[error(transparent)]
    Modules(#[from] ModuleError),
}

/// Files of a kernel that come out of packages. They are removed on drop unless [`Self::finish`] has put them in place.
#[derive(Debug)]
pub struct Fetched {
    place: PathBuf,
    unfinished: TempDir,
    bytes: u64,
    files: u32,
}

impl Fetched {
    /// Begins with nothing, next to the place where the kernel will be.
    ///
    /// # Errors
    /// Returns an error if nothing can be made there.
    pub fn begin(place: &Path) -> Result<Self, PackageError> {
        let failed = |source| PackageError::Place { path: place.into(), source };
        let parent = place.parent().unwrap_or(Path::new("/"));
        kept::make_directory(parent).map_err(failed)?;
        let unfinished = tempfile::Builder::new().prefix(".kernel-").tempdir_in(parent);
        let unfinished = unfinished.map_err(failed)?;
        Ok(Self { place: place.into(), unfinished, bytes: 0, files: 0 })
    }

    /// Takes the kernel's files out of a package's, which are a tar archive.
    ///
    /// # Errors
    /// Returns an error for an archive that cannot be read, and for more than any kernel has.
    pub fn add(&mut self, archive: impl Read) -> Result<(), PackageError> {
        let mut archive = Archive::new(archive.take(LARGEST + OTHER));
        // The library reads a long name whole, however long it is.
        let mut long = None;
        for entry in archive.entries().map_err(PackageError::Unpack)?.raw(true) {
            let entry = entry.map_err(PackageError::Unpack)?;
            let named = long.take().unwrap_or_else(|| entry.path_bytes().into_owned());
            match entry.header().entry_type() {
                EntryType::GNULongName => {
                    long = Some(long_name(entry).map_err(PackageError::Unpack)?);
                    continue;
                }
                EntryType::Regular => {}
                _ => continue,
            }
            let Some(path) = of_kernel(Path::new(OsStr::from_bytes(&named))) else { continue };
            self.files += 1;
            let room = LARGEST - self.bytes;
            if self.files > MOST_FILES || entry.size() > room {
                return Err(PackageError::TooLarge);
            }
            self.bytes += self.write(&path, entry.take(room)).map_err(PackageError::Unpack)?;
        }
        Ok(())
    }

    fn write(&self, path: &Path, mut content: impl Read) -> io::Result<u64> {
        let path = self.unfinished.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(self.unfinished.path()))?;
        let mut file = File::options().write(true).create_new(true).open(path)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        io::copy(&mut content, &mut file)
    }

    /// Checks that it is a kernel with all that a guest needs, and puts it in place of what is there.
    ///
    /// # Errors
    /// Returns an error for what is missing. What was in place stays then.
    pub fn finish(self) -> Result<Kernel, PackageError> {
        let kernel = Kernel::below(self.unfinished.path())?;
        kernel.vmlinux(Architecture::HOST)?;
        kernel.modules()?.in_order(&WANTED)?;
        let failed =
            |errno: Errno| PackageError::Place { path: self.place.clone(), source: errno.into() };
        let put = |how| renameat_with(CWD, self.unfinished.path(), CWD, &self.place, how);
        match put(RenameFlags::NOREPLACE) {
            Ok(()) => drop(self.unfinished.keep()),
            // What was there has the other name then, and goes.
            Err(Errno::EXIST) => put(RenameFlags::EXCHANGE).map_err(failed)?,
            Err(errno) => return Err(failed(errno)),
        }
        Ok(Kernel::below(&self.place)?)
    }
}

/// Reads the name of the entry that follows, which ends with a NUL.
///
/// # Errors
/// Returns an error for a name that is longer than any.
fn long_name(entry: impl Read) -> io::Result<Vec<u8>> {
    let mut name = Vec::new();
    entry.take(LONGEST_NAME).read_to_end(&mut name)?;
    let end = name.iter().position(|byte| *byte == 0);
    name.truncate(end.ok_or_else(|| io::Error::other("a file's name is too long"))?);
    Ok(name)
}

/// Returns the path of a file that a kernel has, without what is above it; `None` for any other, and for one that could
/// lead out of its directory.
fn of_kernel(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            _ => return None,
        }
    }
    let parts = parts.strip_prefix(&["usr"]).unwrap_or(&parts);
    let is_wanted = match parts {
        ["boot", image] => image.starts_with("vmlinuz-"),
        ["lib", "modules", _, .., name] => {
            name.contains(".ko") || name.starts_with("modules.") || *name == "vmlinuz"
        }
        _ => false,
    };
    is_wanted.then(|| parts.iter().collect())
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    /// An archive with these entries: kind, path as it is written, and what it has or leads to.
    fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for (kind, path, content) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o6777);
            let content = if kind.is_symlink() || kind.is_hard_link() {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
                ""
            } else {
                content
            };
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn taken(below: &Path) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(below).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                all.extend(taken(&entry.path()));
            } else {
                all.push(entry.path().display().to_string());
            }
        }
        all.sort();
        all
    }

    #[test]
    fn only_regular_files_of_a_kernel_are_taken() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("machines/kernel");
        let mut fetched = Fetched::begin(&place).unwrap();
        let all = archive(&[
            (EntryType::Regular, "./boot/vmlinuz-6.1", "image"),
            (EntryType::Regular, "./usr/lib/modules/6.1/kernel/a.ko.xz", "module"),
            (EntryType::Regular, "./usr/lib/modules/6.1/modules.builtin", ""),
            (EntryType::Regular, "./boot/../../../escaped.ko", "evil"),
            (EntryType::Regular, "./lib/modules/../../../../escaped.ko", "evil"),
            (EntryType::Regular, "/lib/modules/6.1/absolute.ko", "evil"),
            (EntryType::Symlink, "./lib/modules/6.1/build", "/etc"),
            (EntryType::Symlink, "./lib/modules/6.1/kernel/b.ko", "/etc/passwd"),
            (EntryType::Link, "./lib/modules/6.1/kernel/c.ko", "/etc/passwd"),
            (EntryType::Char, "./lib/modules/6.1/kernel/d.ko", ""),
            (EntryType::Fifo, "./boot/vmlinuz-6.2", ""),
            (EntryType::Regular, "./usr/bin/tool", "evil"),
        ]);
        fetched.add(&all[..]).unwrap();
        let below = fetched.unfinished.path().to_owned();
        let at = |path: &str| below.join(path).display().to_string();
        let expected = [
            "boot/vmlinuz-6.1",
            "lib/modules/6.1/kernel/a.ko.xz",
            "lib/modules/6.1/modules.builtin",
        ];
        assert_eq!(taken(&below), expected.map(at));
        let mode = fs::metadata(below.join("boot/vmlinuz-6.1")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o644);
        // What is there is not written to again.
        let again = archive(&[(EntryType::Regular, "boot/vmlinuz-6.1", "other")]);
        assert!(fetched.add(&again[..]).is_err());
        drop(fetched);
        assert!(taken(cache.path()).is_empty());
    }

    #[test]
    fn long_names_are_read_and_bounded() {
        let cache = tempfile::tempdir().unwrap();
        let mut fetched = Fetched::begin(&cache.path().join("machines/kernel")).unwrap();
        let long = format!("./lib/modules/6.1/{}/a.ko", ["directory"; 20].join("/"));
        let endless = format!("./lib/modules/6.1/{}", "x".repeat(20 << 20));
        let all = archive(&[
            (EntryType::GNULongName, "././@LongLink", &format!("{long}\0")),
            (EntryType::Regular, "./lib/modules/6.1/directory", "module"),
        ]);
        fetched.add(&all[..]).unwrap();
        let all = archive(&[(EntryType::GNULongName, "././@LongLink", &endless)]);
        let error = fetched.add(&all[..]).unwrap_err().to_string();
        assert!(error.contains("name is too long"), "{error}");
        let expected = fetched.unfinished.path().join(long.trim_start_matches("./"));
        assert_eq!(taken(fetched.unfinished.path()), [expected.display().to_string()]);
    }

    #[test]
    fn more_than_a_kernel_has_is_refused_before_it_is_read() {
        let cache = tempfile::tempdir().unwrap();
        let mut fetched = Fetched::begin(&cache.path().join("machines/kernel")).unwrap();
        let mut header = Header::new_gnu();
        header.set_path("boot/vmlinuz-6.1").unwrap();
        header.set_size(LARGEST + 1);
        header.set_cksum();
        let error = fetched.add(&header.as_bytes()[..]).unwrap_err();
        assert!(matches!(error, PackageError::TooLarge), "{error}");
        fetched.files = MOST_FILES;
        let one = archive(&[(EntryType::Regular, "boot/vmlinuz-6.1", "image")]);
        let error = fetched.add(&one[..]).unwrap_err();
        assert!(matches!(error, PackageError::TooLarge), "{error}");
        assert!(taken(cache.path()).is_empty());
    }

    #[test]
    fn what_is_no_kernel_leaves_the_one_before_it_in_place() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("machines/kernel");
        fs::create_dir_all(place.join("boot")).unwrap();
        fs::set_permissions(place.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
        let kept = place.join("boot/vmlinuz-6.0");
        fs::write(&kept, "kept").unwrap();
        for (entries, expected) in [
            (vec![], "no kernel for the machine"),
            (vec![(EntryType::Regular, "boot/vmlinuz-6.1", "image")], "no kernel for the machine"),
            (
                vec![
                    (EntryType::Regular, "boot/vmlinuz-6.1", "image"),
                    (EntryType::Regular, "lib/modules/6.1/modules.builtin", ""),
                ],
                "not a kernel image",
            ),
        ] {
            let mut fetched = Fetched::begin(&place).unwrap();
            fetched.add(&archive(&entries)[..]).unwrap();
            let error = fetched.finish().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let mut fetched = Fetched::begin(&place).unwrap();
        assert!(fetched.add(&b"no archive"[..]).is_err());
        drop(fetched);
        assert_eq!(taken(cache.path()), [kept.display().to_string()]);
    }
}
