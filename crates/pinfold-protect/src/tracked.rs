//! Files that are hidden for their names, in the light of git.
//!
//! A file whose very content git has is in the objects that the sandbox reads, so hiding it would
//! protect nothing and only make `git status` show it as changed. It is judged once, at the start,
//! byte for byte: what a filter decrypts (git-crypt) or fetches (git-lfs) is not what git has.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use pinfold_git::index::Index;
use pinfold_git::pointer::{self, line, normal};
use pinfold_host::beneath::{open_directory, read_beneath};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};

use crate::restrict::follow;

/// What git knows of some files.
#[derive(Debug, Default)]
pub struct Tracked {
    /// Those of which git has this very content.
    pub same: BTreeSet<PathBuf>,
    /// Those that git tracks with another content.
    pub other: BTreeSet<PathBuf>,
}

impl Tracked {
    /// Takes back what is known of a file.
    pub fn forget(&mut self, file: &Path) {
        self.same.remove(file);
        self.other.remove(file);
    }

    /// Looks files up in the indexes of the repositories that they lie in. `is_seen` says whether
    /// the sandbox sees a git directory.
    pub fn look_up<'p>(
        files: impl Iterator<Item = &'p PathBuf>,
        roots: &[PathBuf],
        is_seen: impl Fn(&Path) -> bool,
    ) -> Self {
        let mut repositories: HashMap<(PathBuf, PathBuf), Vec<&Path>> = HashMap::new();
        for file in files {
            let found = repository_of(file, roots).filter(|(_, git)| is_seen(git));
            let relative = found.as_ref().and_then(|(top, _)| file.strip_prefix(top).ok());
            if let (Some(relative), Some(found)) = (relative, found) {
                repositories.entry(found).or_default().push(relative);
            }
        }
        let mut tracked = Self::default();
        for ((top, git), files) in repositories {
            let (Some(index), Ok(opened)) = (Index::open(&git), open_directory(&top)) else {
                continue;
            };
            let read = |path: &Path| Some(read_beneath(&opened, path).ok()??.bytes);
            for (path, is_same) in index.compare(files.into_iter(), read) {
                let set = if is_same { &mut tracked.same } else { &mut tracked.other };
                set.insert(top.join(path));
            }
        }
        tracked
    }
}

/// Returns the top and the git directory of the innermost repository that a file in a granted root lies
/// in.
fn repository_of(file: &Path, roots: &[PathBuf]) -> Option<(PathBuf, PathBuf)> {
    let is_granted = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let mut above = file.ancestors().skip(1).take_while(|above| is_granted(above));
    let (top, kind) = above.find_map(|top| {
        let found = fs::symlink_metadata(top.join(".git")).ok()?;
        Some((top, FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&found))))
    })?;
    let git = top.join(".git");
    let git = match kind {
        FileType::Directory => git,
        FileType::Symlink => follow(&git)?.end,
        _ => pointer::gitdir(&git)?,
    };
    is_granted(&git).then(|| (top.to_owned(), git))
}

/// Makes git inside skip what is hidden from it: marks these paths in the indexes of private copies,
/// and has the copies ignore them, so that `git add .` does not take what stands for a hidden file.
/// What is read-only and tracked is ignored where another branch does not track it: it stays there, since
/// nothing in the sandbox can remove it, and would be in the way of the next checkout. `tops` are the working
/// trees, each with the copy of its git directory in `private`.
///
/// # Errors
/// Returns the error of writing an index or a list of ignored files.
pub fn skip_hidden(
    hidden: &[PathBuf],
    read_only: &[PathBuf],
    tops: &[(PathBuf, PathBuf)],
    private: &Path,
) -> io::Result<()> {
    for (top, copy) in tops {
        let skipped = within(top, hidden);
        let ignored = [&skipped[..], &within(top, read_only)].concat();
        if ignored.is_empty() {
            continue;
        }
        let index = (!skipped.is_empty()).then(|| Index::open(copy)).flatten();
        let skipped = skipped.iter().map(PathBuf::as_path);
        if let Some(new) = index.and_then(|index| index.without(skipped)) {
            let mut file = OpenOptions::new().write(true).open(copy.join("index"))?;
            let modified = file.metadata()?.modified()?;
            file.set_len(0)?;
            file.write_all(&new)?;
            file.set_modified(modified)?;
        }
        ignore(&info(&common(copy, private))?, &ignored)?;
    }
    Ok(())
}

/// What git inside ignores in each working tree. It is opened before a session runs, which can put other directories and
/// links at the same paths.
#[derive(Debug)]
pub(crate) struct Ignored(Vec<(PathBuf, OwnedFd)>);

impl Ignored {
    /// Opens that of working trees, each with the private copy of its git directory.
    pub(crate) fn open(tops: &[(PathBuf, PathBuf)], private: &Path) -> Self {
        let info = |copy: &Path| info(&common(copy, private)).ok();
        Self(tops.iter().filter_map(|(top, copy)| Some((top.clone(), info(copy)?))).collect())
    }

    /// Adds what is hidden since a moment ago. What is tracked is not: an index may be in use.
    ///
    /// # Errors
    /// Returns the error of writing a list of ignored files.
    pub(crate) fn add(&self, hidden: &[PathBuf]) -> io::Result<()> {
        for (top, info) in &self.0 {
            let ignored = within(top, hidden);
            if !ignored.is_empty() {
                ignore(info, &ignored)?;
            }
        }
        Ok(())
    }
}

/// Returns those of these paths that lie below a directory, relative to it.
fn within(top: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let below = paths.iter().filter_map(|path| path.strip_prefix(top).ok());
    below.map(Path::to_owned).collect()
}

/// Returns the copy of the git directory that working trees share. Nothing is written elsewhere than in `private`, whatever
/// `commondir` says.
fn common(copy: &Path, private: &Path) -> PathBuf {
    let common = line(&copy.join("commondir"), b"").map(|common| normal(&copy.join(common)));
    common.filter(|common| common.starts_with(private)).unwrap_or_else(|| copy.to_owned())
}

/// Opens the directory of a private git directory with the list of files that it ignores. The host's may be a link, which
/// is not followed.
fn info(git: &Path) -> io::Result<OwnedFd> {
    let git = open_directory(git)?;
    let open = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&git, "info", flags, Mode::empty())
    };
    open().or_else(|_| {
        let _ = unlinkat(&git, "info", AtFlags::empty());
        mkdirat(&git, "info", Mode::from_raw_mode(0o777))?;
        Ok(open()?)
    })
}

/// Adds paths to a list of ignored files (`info/exclude`, gitignore(5)). One that is a link is replaced.
fn ignore(info: &OwnedFd, paths: &[PathBuf]) -> io::Result<()> {
    let before = read_beneath(info, Path::new("exclude")).ok().flatten();
    let mut content = before.map_or_else(Vec::new, |before| before.bytes);
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    content.extend(paths.iter().flat_map(|path| pattern(path)));
    let _ = unlinkat(info, "exclude", AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(info, "exclude", flags, Mode::from_raw_mode(0o666))?);
    let owner = fstat(info)?;
    fchown(&file, Some(owner.st_uid), Some(owner.st_gid))?;
    file.write_all(&content)
}

/// Returns the line that ignores this very path below the top.
fn pattern(path: &Path) -> Vec<u8> {
    let mut pattern = b"/".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            // Lines end with these; this stands for any byte but a slash.
            b'\n' | b'\r' => pattern.push(b'?'),
            b'\\' | b'*' | b'?' | b'[' | b']' | b' ' | b'\t' => pattern.extend([b'\\', *byte]),
            byte => pattern.push(*byte),
        }
    }
    pattern.push(b'\n');
    pattern
}
