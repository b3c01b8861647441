//! Rebuilding a repository that a session made, so that git on the host can be used in it.
//!
//! Nothing here decides whether a foreign git directory is harmless: only git knows what it does
//! with one. Git in a scratch sandbox reads the foreign one and hands out a pack of the objects
//! that its references reach, checked by `index-pack --strict`, and the names of branches, tags and
//! remotes. From these a new git directory is made: its configuration, HEAD and references are
//! written here from checked words, its index by the host's git. It takes the place of the foreign
//! one in a single rename. Hooks, reflogs, stopped operations and all other settings are left out.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::config::write;
use pinfold_git::host_git::HostGit;
use pinfold_git::settled::{Kept, Settled};
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::open_directory;
use pinfold_host::launcher::{HostProgram, Launcher};
use pinfold_host::sessions::remove_private;
use pinfold_policy::path::Escaped;
use pinfold_protect::set_aside::SetAside;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, openat, renameat_with, statat};

use super::modules::{GitFiles, Modules};

mod foreign;
mod new;

pub use foreign::Read;
pub(crate) use foreign::WorkTree;
pub(crate) use new::New;

/// A larger git directory is set aside instead: checking it would take more than some seconds.
const LARGEST: u64 = 64 << 20;
/// Entries that a git directory may have.
const MOST_ENTRIES: usize = 100_000;

/// Rebuilds repositories for one session.
pub(crate) struct Rebuild<'a> {
    /// The host's git, if there is one.
    pub(crate) git: Option<&'a HostProgram>,
    /// The session, for names of temporary files.
    pub(crate) session: &'a str,
    /// Where a foreign repository goes of which something was left out.
    pub(crate) aside: &'a SetAside,
    /// Reads it first.
    pub(crate) reader: Reader,
    /// Rebuilds submodules in it.
    pub(crate) modules: Option<Modules<'a>>,
}

/// Has git in scratch sandboxes read repositories that a session made.
pub(crate) struct Reader {
    /// A private directory of the session's for the results of scratch sandboxes.
    pub(crate) out: PathBuf,
    /// Objects that repositories in the sandbox may borrow: directories of the host, and where they
    /// were mounted.
    pub(crate) borrowed: Vec<(PathBuf, PathBuf)>,
    pub(crate) launcher: Launcher,
}

/// A repository that was rebuilt.
pub(crate) struct Rebuilt {
    /// What the user should know of it.
    pub(crate) note: String,
    /// Whether nothing was left out that the user may miss.
    pub(crate) is_whole: bool,
    /// The `.git` files of its submodules.
    pub(crate) files: GitFiles,
}

impl Rebuild<'_> {
    /// Rebuilds the git directory at `path` in its place.
    ///
    /// # Errors
    /// Returns why it cannot be rebuilt; it is unchanged then, and must be set aside.
    pub(crate) fn at(&self, path: &Path, settled: &mut Settled) -> Result<Rebuilt, String> {
        let git = self.git.ok_or("git on the host is needed to rebuild it")?;
        let (parent, name) = path.parent().zip(path.file_name()).ok_or("it has no name")?;
        let above = open_directory(parent).map_err(words)?;
        let owner = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).map_err(words)?;
        if FileType::from_raw_mode(owner.st_mode) != FileType::Directory {
            return Err("it is not a directory".to_owned());
        }
        let mut read = self.reader.read(path)?;
        let new = format!(".pinfold-new-{}", self.session);
        // By descriptor: another session in the checkout may replace a directory on the way.
        let at = held(&above).join(&new);
        let is_bare = name != ".git";
        let tree = if is_bare { WorkTree::Bare } else { WorkTree::Above };
        let _ = fs::remove_dir_all(&at);
        let is_root = rustix::process::geteuid().is_root();
        let owner = is_root.then_some((owner.st_uid, owner.st_gid));
        let made = New::below(&above, &new, owner)
            .and_then(|top| self.reader.make(&top, &read, tree))
            .and_then(|()| if is_bare { Ok(()) } else { index(git, &parent.join(&new), &at) });
        let _ = fs::remove_dir_all(&self.reader.out);
        let replaced = made.and_then(|()| {
            renameat_with(&above, &new, &above, name, RenameFlags::EXCHANGE).map_err(words)
        });
        if replaced.is_err() {
            let _ = fs::remove_dir_all(&at);
        }
        replaced?;
        let files = self.submodules(&parent.join(&new), path, &mut read, settled);
        let is_whole = read.left_out.is_empty();
        if is_whole {
            remove_private(&at);
        } else if let Err(error) = self.aside.take(&above, Path::new(&new), path) {
            // The new one is in its place already.
            let what = format!("what was left out of {}", Escaped(path));
            settled.kept.push(Kept::new(what, format!("it cannot be set aside: {error}")));
        }
        Ok(Rebuilt { note: format!("new repository {}", read.note(path)), is_whole, files })
    }

    /// Rebuilds the submodules of a repository that was rebuilt at `git`. The foreign one is at
    /// `foreign`.
    fn submodules(
        &self,
        foreign: &Path,
        git: &Path,
        read: &mut Read,
        settled: &mut Settled,
    ) -> GitFiles {
        let has_any = read.left_out.iter().any(|what| what == "modules");
        let (Some(modules), true) = (&self.modules, has_any) else { return GitFiles::new() };
        let before = settled.kept.len();
        let files = modules.of_rebuilt(foreign, git, settled);
        if settled.kept.len() == before {
            read.leave_out_no_modules();
        }
        files
    }
}

impl Reader {
    /// Has git in a scratch sandbox read the foreign repository.
    ///
    /// # Errors
    /// Returns why it cannot be rebuilt.
    pub(crate) fn read(&self, path: &Path) -> Result<Read, String> {
        let size = size_of(path, &mut MOST_ENTRIES.clone())?;
        if size > LARGEST {
            return Err(format!(
                "it is a new repository of {} MB, too large to be rebuilt by itself",
                size >> 20
            ));
        }
        let _ = fs::remove_dir_all(&self.out);
        DirBuilder::new().mode(0o700).create(&self.out).map_err(words)?;
        crate::guard::hand_over(&self.out).map_err(words)?;
        let own = std::env::current_exe().map_err(words)?;
        let mut argv: Vec<OsString> = vec![own.into(), "read-repository".into()];
        argv.extend([path.into(), self.out.clone().into_os_string()]);
        for (host, inside) in &self.borrowed {
            argv.extend([host.into(), inside.into()]);
        }
        let output = self.launcher.run_to_end(&argv, &[], None).map_err(words)?;
        if output.code != Some(0) {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().last().unwrap_or_default();
            return Err(format!("it cannot be rebuilt: {}", last.escape_debug()));
        }
        Read::from(&self.out, size)
    }

    /// Makes the new git directory from checked parts.
    ///
    /// # Errors
    /// Returns the error of the call that failed.
    pub(crate) fn make(&self, git: &New, read: &Read, tree: WorkTree<'_>) -> Result<(), String> {
        let objects = git.directory("objects")?;
        let packs = objects.directory("pack")?;
        objects.directory("info")?;
        let refs = git.directory("refs")?;
        for kind in ["heads", "tags"] {
            refs.directory(kind)?;
        }
        let put = |name: &str, content: &[u8]| -> Result<(), String> {
            git.file(name, 0o644)?.write_all(content).map_err(words)
        };
        let out = open_directory(&self.out).map_err(words)?;
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
pub(crate) fn index(git: &HostProgram, path: &Path, at: &Path) -> Result<(), String> {
    let directory = Anchor::of(path).map_err(words)?;
    let opened = File::open(at).map_err(words)?;
    if Anchor::held(path, &opened).map_err(words)? != directory {
        return Err("another directory took its place".to_owned());
    }
    let host = HostGit { program: git, directory: &directory };
    if host.line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]).is_some() {
        host.run(&["read-tree", "HEAD"], None)?;
    }
    Ok(())
}

/// The path of what a descriptor is open on.
pub(crate) fn held(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Bytes of the files in a directory that may hold anything, following no link.
fn size_of(directory: &Path, left: &mut usize) -> Result<u64, String> {
    let mut size = 0;
    for entry in fs::read_dir(directory).map_err(words)? {
        let entry = entry.map_err(words)?;
        *left = left.checked_sub(1).ok_or("it holds too many files to be rebuilt by itself")?;
        let found = entry.metadata().map_err(words)?;
        size += if found.is_dir() { size_of(&entry.path(), left)? } else { found.len() };
    }
    Ok(size)
}

/// Copies a file that a scratch sandbox wrote.
fn copy(from: &OwnedFd, name: &Path, mut to: File) -> Result<(), String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(from, name, flags, Mode::empty()).map_err(words)?);
    if !file.metadata().map_err(words)?.is_file() {
        return Err("the scratch sandbox left no file".to_owned());
    }
    // Objects of a shallow clone may be packed less tightly than they were.
    let copied = io::copy(&mut io::Read::take(file, 4 * LARGEST), &mut to).map_err(words)?;
    if copied == 4 * LARGEST { Err("its objects are too large".to_owned()) } else { Ok(()) }
}

pub(crate) fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
