//! Having git read a foreign repository in a scratch sandbox, and making the new one from checked parts.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::config::write;
use pinfold_git::foreign::{Foreign, WorkTree};
use pinfold_git::host_git::HostGit;
use pinfold_git::new_directory::NewDirectory;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::open_directory;
use pinfold_host::launcher::{HostProgram, Launcher, Spot};
use rustix::fs::{Mode, OFlags, openat};

/// A larger git directory is set aside instead: checking it would take more than some seconds.
const LARGEST: u64 = 64 << 20;
/// Entries that a git directory may have.
const MOST_ENTRIES: usize = 100_000;

/// Has git in scratch sandboxes read repositories that a session made.
#[derive(Clone)]
pub(crate) struct Reader {
    /// A private directory of the session's for the results of scratch sandboxes.
    pub(crate) out: PathBuf,
    /// Objects that repositories in the sandbox may borrow: directories of the host, and where they were mounted.
    pub(crate) borrowed: Vec<(PathBuf, PathBuf)>,
    pub(crate) launcher: Launcher,
}

impl Reader {
    /// Has git in a scratch sandbox read the foreign repository.
    ///
    /// # Errors
    /// Returns why it cannot be rebuilt.
    pub(crate) fn read(&self, path: &Path) -> Result<Foreign, Refusal> {
        let size = size_of(path, &mut MOST_ENTRIES.clone())?;
        if size > LARGEST {
            return Err(Refusal::new(format!(
                "it is a new repository of {} MB, too large to be rebuilt by itself",
                size >> 20
            )));
        }
        let _ = fs::remove_dir_all(&self.out);
        DirBuilder::new().mode(0o700).create(&self.out)?;
        pinfold_boundary::ownership::hand_over(&self.out)?;
        let own = std::env::current_exe()?;
        let mut argv: Vec<OsString> = vec![own.into(), "read-repository".into()];
        argv.extend([path.into(), self.out.clone().into_os_string()]);
        for (host, inside) in &self.borrowed {
            argv.extend([host.into(), inside.into()]);
        }
        let spot = Spot { path: &self.out, opened: &open_directory(&self.out)? };
        let read = self.launcher.run_in(spot, None, &argv, &[], None);
        let output = read.map_err(Refusal::about("reading it failed"))?;
        if output.code != Some(0) {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().last().unwrap_or_default();
            return Err(Refusal::new(format!("it cannot be rebuilt: {}", last.escape_debug())));
        }
        Foreign::from(&self.out, size)
    }

    /// Makes the new git directory from checked parts.
    ///
    /// # Errors
    /// Returns the error of the call that failed.
    pub(crate) fn make(
        &self,
        git: &NewDirectory,
        read: &Foreign,
        tree: WorkTree<'_>,
    ) -> Result<(), Refusal> {
        let objects = git.directory("objects")?;
        let packs = objects.directory("pack")?;
        objects.directory("info")?;
        let refs = git.directory("refs")?;
        for kind in ["heads", "tags"] {
            refs.directory(kind)?;
        }
        let put = |name: &str, content: &[u8]| -> Result<(), Refusal> {
            git.file(name, 0o644)?.write_all(content).map_err(Refusal::from)
        };
        let out = open_directory(&self.out)?;
        for (from, to) in read.pack_files() {
            copy(&out, Path::new(&from), packs.file(&to, 0o444)?)?;
        }
        put("HEAD", read.head.as_bytes())?;
        put("packed-refs", read.packed_refs().as_bytes())?;
        put("config", &write(&read.config(tree)))?;
        if !read.shallow.is_empty() {
            put("shallow", read.shallow.as_bytes())?;
        }
        Ok(())
    }
}

/// Has the host's git write the index of the new repository, which lies at `at`.
///
/// # Errors
/// Returns what git says, or that another directory took its place.
pub(crate) fn index(git: &HostProgram, path: &Path, at: &Path) -> Result<(), Refusal> {
    let directory = Anchor::of(path)?;
    let opened = File::open(at)?;
    if Anchor::held(path, &opened)? != directory {
        return Err("another directory took its place".into());
    }
    let host = HostGit { program: git, directory: &directory };
    if host.object("HEAD^{commit}")?.is_some() {
        host.run(&["read-tree", "HEAD"], None)?;
    }
    Ok(())
}

/// Returns bytes of the files in a directory that may hold anything, following no link.
fn size_of(directory: &Path, left: &mut usize) -> Result<u64, Refusal> {
    let mut size = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        *left = left.checked_sub(1).ok_or("it holds too many files to be rebuilt by itself")?;
        let found = entry.metadata()?;
        size += if found.is_dir() { size_of(&entry.path(), left)? } else { found.len() };
    }
    Ok(size)
}

/// Copies a file that a scratch sandbox wrote.
fn copy(from: &OwnedFd, name: &Path, mut to: File) -> Result<(), Refusal> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(from, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err("the scratch sandbox left no file".into());
    }
    // Objects of a shallow clone may be packed less tightly than they were.
    let copied = io::copy(&mut io::Read::take(file, 4 * LARGEST), &mut to)?;
    if copied == 4 * LARGEST { Err("its objects are too large".into()) } else { Ok(()) }
}
