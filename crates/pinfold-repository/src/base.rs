//! A base that lies in the repository itself: sessions run on it, and could change it for the next.
//!
//! A tarball is identified by its digest, a directory by one over the path, the kind and the content of
//! everything in it, and whether it may be executed: other rights are as the clone's umask has them. To read
//! all of that takes longer than a start may, so digests are kept by what changes with a content: sizes,
//! inode numbers and times of change, which nobody can set back.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use pinfold_host::digest::{Hex, digest_of_file};
use pinfold_host::directories::Places;
use pinfold_host::memo::Memo;
use pinfold_policy::project::Base;
use pinfold_rootfs::system::version_of;
use ring::digest::{Context, SHA256};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::content::feed;
use crate::error::RepositoryError;

/// The most names and bytes of a directory: what an image may have.
const MOST_NAMES: u64 = 1_000_000;
const MOST_BYTES: u64 = 32 << 30;
/// How deep it may be: each level takes a descriptor.
const DEEPEST: usize = 200;
/// A file that was changed so lately can be changed once more at the same time, as its file system
/// counts it.
const SETTLED: Duration = Duration::from_secs(2);
/// For what is not there, or is something else: the session that wants to run on it reports that.
const NOTHING: &str = "nothing";

/// What a base in the repository holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseContent {
    /// Where it lies, as the settings file names it.
    pub path: PathBuf,
    pub(super) digest: String,
}

/// Returns the content of a base, if it lies in the repository at `root`.
///
/// # Errors
/// Returns what cannot be read, or is too large to be read.
pub(super) fn content(
    base: &Base,
    root: &Path,
    places: &Places,
) -> Result<Option<BaseContent>, RepositoryError> {
    let (Base::Tarball(path) | Base::Directory(path)) = base else { return Ok(None) };
    let place = root.join(path);
    let failed = |cause| RepositoryError::Read { path: place.clone(), cause };
    let Ok(real) = fs::canonicalize(root) else { return Ok(None) };
    let found = fs::canonicalize(&place).ok();
    let is_named =
        place.starts_with(root) && !place.components().any(|c| c == Component::ParentDir);
    if !is_named && !found.as_ref().is_some_and(|found| found.starts_with(&real)) {
        return Ok(None);
    }
    let memo = Memo::of_bases(places);
    let digest = match (base, found) {
        (Base::Tarball(_), Some(found)) if found.is_file() => tarball(&found, &memo),
        // A link that leads out of the repository is not followed by who runs on it either.
        (Base::Directory(_), Some(found)) if found.is_dir() && found.starts_with(&real) => {
            directory(&found, &memo)
        }
        _ => Ok(NOTHING.to_owned()),
    };
    Ok(Some(BaseContent { path: path.clone(), digest: digest.map_err(failed)? }))
}

/// Returns a digest over the paths, kinds and contents of all that is in a directory, and whether it may be executed.
///
/// # Errors
/// Returns an error for what cannot be read, or is too large to be read.
pub fn digest_of_directory(path: &Path) -> io::Result<String> {
    Ok(Tree::read(path, What::Content)?.digest())
}

fn tarball(path: &Path, memo: &Memo) -> io::Result<String> {
    let version = version_of(&fs::metadata(path)?);
    if let Some(digest) = memo.get(&version) {
        return Ok(digest);
    }
    let digest = digest_of_file(path)?;
    // Sessions run on what has this digest, whatever the file becomes later.
    memo.put(&version, &digest)?;
    Ok(digest)
}

fn directory(path: &Path, memo: &Memo) -> io::Result<String> {
    if let Some(digest) = memo.get(&Tree::read(path, What::Times)?.name()) {
        return Ok(digest);
    }
    // What is mapped and not written out yet can be changed without a new time of change.
    rustix::fs::syncfs(File::open(path)?)?;
    let before = Tree::read(path, What::Times)?;
    let digest = Tree::read(path, What::Content)?.digest();
    let after = Tree::read(path, What::Times)?;
    let (is_settled, name) = (before.is_settled(), before.name());
    if name != after.name() {
        return Err(io::Error::other("it changes while it is read"));
    }
    if is_settled {
        memo.put(&name, &digest).map_err(io::Error::other)?;
    }
    Ok(digest)
}

/// What is taken in of each name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Times,
    Content,
}

/// A directory as it is read.
struct Tree {
    what: What,
    context: Context,
    names: u64,
    bytes: u64,
    /// The latest time of change, in seconds.
    latest: i64,
}

impl Tree {
    fn read(path: &Path, what: What) -> io::Result<Self> {
        let context = Context::new(&SHA256);
        let mut tree = Self { what, context, names: 0, bytes: 0, latest: 0 };
        let top = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
        tree.visit(&top, Path::new(""), 0)?;
        Ok(tree)
    }

    fn digest(self) -> String {
        format!("sha256:{}", Hex(self.context.finish().as_ref()))
    }

    /// Returns what a digest of this version is kept by.
    fn name(self) -> String {
        format!("tree {}", self.digest())
    }

    fn is_settled(&self) -> bool {
        let latest = Duration::from_secs(u64::try_from(self.latest).unwrap_or(u64::MAX));
        let since = SystemTime::UNIX_EPOCH.checked_add(latest);
        since.and_then(|since| since.elapsed().ok()).is_some_and(|age| age > SETTLED)
    }

    fn visit(&mut self, directory: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(directory)? {
            let name = entry?.file_name().to_owned();
            if name.as_c_str() != c"." && name.as_c_str() != c".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        for name in names {
            let found = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            let path = path.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
            self.take(&path, &found)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory if depth == DEEPEST => {
                    return Err(io::Error::other(format!("it is deeper than {DEEPEST} levels")));
                }
                FileType::Directory => {
                    if let Some(below) = readable(directory, &name, DIRECTORY)? {
                        self.visit(&below, &path, depth + 1)?;
                    }
                }
                FileType::RegularFile if self.what == What::Content => {
                    if let Some(file) = readable(directory, &name, FILE)? {
                        feed(&mut self.context, File::from(file).take(found.st_size as u64))?;
                    }
                }
                FileType::Symlink if self.what == What::Content => {
                    let target = rustix::fs::readlinkat(directory, &name, Vec::new())?;
                    self.context.update(target.as_bytes_with_nul());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &Path, found: &Stat) -> io::Result<()> {
        self.names += 1;
        self.bytes = self.bytes.saturating_add(found.st_size as u64);
        self.latest = self.latest.max(found.st_ctime);
        if self.names > MOST_NAMES || self.bytes > MOST_BYTES {
            let most = format!("it holds more than {MOST_NAMES} names or {MOST_BYTES} bytes");
            return Err(io::Error::other(format!("{most}: keep it outside of the repository")));
        }
        self.context.update(path.as_os_str().as_bytes());
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        // A directory's size is its file system's affair.
        let size = if is_directory { 0 } else { found.st_size };
        let summary = match self.what {
            What::Content => {
                let kind = found.st_mode & libc::S_IFMT;
                let may_be_executed = found.st_mode & 0o111 != 0;
                format!("\0{kind}:{may_be_executed}:{size}\0")
            }
            What::Times => format!(
                "\0{}:{size}:{}:{}.{}:{}.{}\0",
                found.st_mode,
                found.st_ino,
                found.st_mtime,
                found.st_mtime_nsec,
                found.st_ctime,
                found.st_ctime_nsec
            ),
        };
        self.context.update(summary.as_bytes());
        Ok(())
    }
}

const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = FILE.union(OFlags::DIRECTORY);

/// Returns a file or directory; none where the caller may not read it, as no session of theirs may
/// either.
fn readable(directory: &OwnedFd, name: &CString, how: OFlags) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat(directory, name, how, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
