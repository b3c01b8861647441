//! Changing a configuration file of the host's, as git-config(1) does.
//!
//! git goes by paths, and follows the links in them. Another session may put some into the very
//! directories while it runs. So git changes a copy in a directory of pinfold's own, and the copy
//! takes the file's place by the descriptor of its directory, as git would have it: through
//! `config.lock`, which keeps other gits out.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, openat, renameat, unlinkat};

use super::read::{Content, open_directory, owner_at, read_beneath};
use crate::launcher::{Launcher, Spot};
use crate::state::SessionId;

/// The copy that git changes.
const COPY: &str = "config";

/// A configuration file that is being changed.
pub(crate) struct Change<'a> {
    git: &'a Path,
    /// Where the file lies, and what it is called there.
    directory: OwnedFd,
    name: &'static str,
    before: Option<Content>,
    owner: Option<(u32, u32)>,
    scratch: Scratch,
}

impl<'a> Change<'a> {
    /// Begins with what the file holds. The copy lies beside `private`.
    ///
    /// # Errors
    /// Why it cannot be read or copied, in words.
    pub(crate) fn begin(
        git: &'a Path,
        directory: OwnedFd,
        name: &'static str,
        private: &Path,
    ) -> Result<Self, String> {
        let before = read(&directory, name)?;
        let is_root = rustix::process::geteuid().is_root();
        let owner = owner_at(&directory, name).filter(|_| is_root);
        let bytes = before.as_ref().map_or(&[][..], |content| &content.bytes);
        let words = |error: io::Error| format!("a copy cannot be made: {error}");
        let scratch = Scratch::make(private, bytes, owner).map_err(words)?;
        Ok(Self { git, directory, name, before, owner, scratch })
    }

    /// Sets a key to these values, or removes it.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn set(&self, key: &str, values: &[&[u8]]) -> Result<(), String> {
        let key = OsStr::new(key);
        let Some((first, more)) = values.split_first() else {
            return self.run(&["--unset-all".as_ref(), key]);
        };
        self.run(&["--replace-all".as_ref(), key, OsStr::from_bytes(first)])?;
        let mut more = more.iter().map(|value| OsStr::from_bytes(value));
        more.try_for_each(|value| self.run(&["--add".as_ref(), key, value]))
    }

    fn run(&self, arguments: &[&OsStr]) -> Result<(), String> {
        let first = [self.git.as_os_str(), "config".as_ref(), "--file".as_ref(), COPY.as_ref()];
        let argv: Vec<OsString> =
            first.iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        // It reads nothing but this file.
        let variables = [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_DIR", "/dev/null"),
        ];
        let spot = Spot { path: &self.scratch.path, opened: &self.scratch.directory };
        let output = Launcher.run_in(spot, self.owner, &argv, &variables, None);
        let output = output.map_err(|error| error.to_string())?;
        if output.code == Some(0) {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().escape_debug().to_string())
    }

    /// Puts what it is now in the file's place.
    ///
    /// # Errors
    /// Why it stays as it was, in words.
    pub(crate) fn finish(self) -> Result<(), String> {
        let changed = read(&self.scratch.directory, COPY)?.ok_or("git left no copy")?;
        let lock = format!("{}.lock", self.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = openat(&self.directory, &lock, flags, Mode::from_raw_mode(0o600));
        let file = File::from(opened.map_err(|errno| format!("{lock}: {errno}"))?);
        let installed = self.install(&file, &changed.bytes, &lock);
        if installed.is_err() {
            let _ = unlinkat(&self.directory, &lock, AtFlags::empty());
        }
        installed
    }

    fn install(&self, mut file: &File, bytes: &[u8], lock: &str) -> Result<(), String> {
        let words = |error: io::Error| format!("{lock}: {error}");
        // Now that other gits are kept out.
        if read(&self.directory, self.name)? != self.before {
            return Err("it was changed meanwhile".to_owned());
        }
        file.write_all(bytes).map_err(words)?;
        if let Some((uid, gid)) = self.owner {
            fchown(file, Some(uid), Some(gid)).map_err(words)?;
        }
        let mode = self.before.as_ref().map_or(0o644, |content| content.mode);
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(|it| words(it.into()))?;
        renameat(&self.directory, lock, &self.directory, self.name).map_err(|it| words(it.into()))
    }
}

fn read(directory: &OwnedFd, name: &str) -> Result<Option<Content>, String> {
    read_beneath(directory, Path::new(name)).map_err(|unread| format!("it {unread}"))
}

/// A directory for one copy, which goes when this does.
struct Scratch {
    path: PathBuf,
    directory: OwnedFd,
}

impl Scratch {
    fn make(private: &Path, bytes: &[u8], owner: Option<(u32, u32)>) -> io::Result<Self> {
        let name = format!("pinfold-{}", SessionId::generate()?);
        // git names its files by whole paths, and other users cannot go through root's state.
        let path = match owner {
            Some((uid, _)) if uid != 0 => std::env::temp_dir().join(name),
            _ => private.with_file_name(name),
        };
        DirBuilder::new().mode(0o700).create(&path)?;
        let path = fs::canonicalize(path)?;
        let scratch = Self { directory: open_directory(&path)?, path };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let mut file = File::from(openat(&scratch.directory, COPY, flags, mode)?);
        file.write_all(bytes)?;
        if let Some((uid, gid)) = owner {
            fchown(&file, Some(uid), Some(gid))?;
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            chownat(&scratch.directory, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for name in [COPY, "config.lock"] {
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
        let _ = fs::remove_dir(&self.path);
    }
}
