//! Finding an identity's directory, and reading from it what nobody else put there.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_git::index::Index;
use pinfold_git::pointer;
use pinfold_worktree::workspace::Workspace;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::refusal;
use pinfold_host::Refusal;

/// Where identities are, below the root of the main worktree.
const PLACES: [&str; 2] = [".moltnet", ".pinfold/identities"];
/// Bytes of one file at most.
const LONGEST: u64 = 1 << 20;

/// An identity's directory that can be trusted.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) name: String,
    /// Where it is, without a symbolic link on the way from the root of the worktree.
    pub(super) path: PathBuf,
    opened: OwnedFd,
}

impl Directory {
    /// Finds an identity by its name.
    ///
    /// # Errors
    /// Returns an error if there is no such identity, or one that cannot be trusted.
    pub(super) fn find(name: &str, workspace: &Workspace) -> Result<Self, Refusal> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
            return Err(refusal(
                format!(
                    "\"{}\" is not a valid identity name: use letters, digits, `.`, `_` and `-`",
                    name.escape_debug()
                ),
                None,
            ));
        }
        let main = main_worktree(workspace);
        let mut found = Vec::new();
        for place in PLACES {
            let relative = Path::new(place).join(name);
            if let Some(directory) = Self::open(name, &main, &relative)? {
                is_untracked(&main, &relative)?;
                found.push(directory);
            }
        }
        if let [one, other] = &found[..] {
            // What a sandbox makes must not take the place of what is there.
            let (one, other) = (one.path.display(), other.path.display());
            let what = format!("the identity {name} is there twice, as {one} and {other}");
            return Err(refusal(what, Some("keep the one that is yours".to_owned())));
        }
        if let Some(directory) = found.pop() {
            return Ok(directory);
        }
        let looked: Vec<String> =
            PLACES.iter().map(|place| main.join(place).join(name).display().to_string()).collect();
        Err(refusal(
            format!("no identity {name}: looked for {}", looked.join(" and ")),
            Some(
                "an identity lies in the root of the main worktree, with moltnet.json and env in it"
                    .to_owned(),
            ),
        ))
    }

    fn open(name: &str, main: &Path, relative: &Path) -> Result<Option<Self>, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let failed = |path: &Path, errno| match errno {
            Errno::LOOP => refused(path, "is, or lies behind, a symbolic link"),
            errno => refused(path, &format!("cannot be opened ({errno})")),
        };
        let top = rustix::fs::open(
            main,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| failed(main, errno))?;
        let mut last = None;
        let ancestors: Vec<&Path> = relative.ancestors().collect();
        // From the worktree's root downwards: who may change one of them may replace the rest.
        for path in ancestors.iter().rev().skip(1) {
            let shown = main.join(path);
            let opened = match rustix::fs::openat2(&top, *path, flags, Mode::empty(), how) {
                Ok(opened) => opened,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(errno) => return Err(failed(&shown, errno)),
            };
            let stat = rustix::fs::fstat(&opened).map_err(|errno| failed(&shown, errno))?;
            is_own(&shown, &stat)?;
            is_of_this_repository(&shown, &opened)?;
            last = Some(opened);
        }
        let path = main.join(relative);
        Ok(last.map(|opened| Self { name: name.to_owned(), path, opened }))
    }

    /// Returns a file's path, for a message.
    pub(super) fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Returns the names of the files in it, not of those in directories in it.
    ///
    /// # Errors
    /// Returns the error of `getdents(2)`.
    pub(super) fn names(&self) -> Result<Vec<String>, Refusal> {
        let failed = |errno| refused(&self.path, &format!("cannot be listed ({errno})"));
        let entries = rustix::fs::Dir::read_from(&self.opened).map_err(failed)?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            names.extend(Some(name).filter(|name| name != "." && name != ".."));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a file that is the caller's own; `None` where it is missing.
    fn file(&self, name: &Path) -> Result<Option<(File, Stat)>, Refusal> {
        let shown = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = match rustix::fs::openat2(&self.opened, name, flags, Mode::empty(), how) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) => return Err(refused(&shown, "is, or lies behind, a symbolic link")),
            Err(errno) => return Err(refused(&shown, &format!("cannot be opened ({errno})"))),
        };
        let stat = rustix::fs::fstat(&file).map_err(Refusal::new)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused(&shown, "is not a regular file"));
        }
        is_own(&shown, &stat)?;
        Ok(Some((File::from(file), stat)))
    }

    /// Returns the path of a file, if it is there.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be trusted.
    pub(super) fn path(&self, name: &Path) -> Result<Option<PathBuf>, Refusal> {
        Ok(self.file(name)?.map(|_| self.path.join(name)))
    }

    /// Checks that a file is there.
    ///
    /// # Errors
    /// Returns an error for one that is not, or cannot be trusted.
    pub(super) fn require(&self, name: &Path) -> Result<(), Refusal> {
        self.file(name)?.map(|_| ()).ok_or_else(|| self.missing(name))
    }

    /// Returns a file's content, if it is there.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be trusted or read.
    pub(super) fn read(&self, name: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Refusal> {
        let Some((file, stat)) = self.file(name)? else { return Ok(None) };
        let shown = self.path.join(name);
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > LONGEST {
            return Err(refused(&shown, "is larger than 1 MiB"));
        }
        // Room for all of it from the beginning: nothing of it is left behind by growing.
        let mut bytes = Zeroizing::new(Vec::with_capacity(size as usize + 1));
        let read = file.take(size).read_to_end(&mut bytes);
        read.map_err(|error| refused(&shown, &format!("cannot be read ({error})")))?;
        Ok(Some(bytes))
    }

    /// Returns the content of a file that has to be there.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read`], and one that is missing.
    pub(super) fn secret(&self, name: &Path) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        self.read(name)?.ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &Path) -> Refusal {
        refusal(
            format!("the identity {} has no {}", self.name, self.path.join(name).display()),
            Some("an identity needs moltnet.json and env; what else it has is optional".to_owned()),
        )
    }
}

fn refused(path: &Path, why: &str) -> Refusal {
    refusal(format!("the identity's {} {why}", path.display()), None)
}

/// Returns the root of the main worktree: of a linked one, where the common git directory lies.
fn main_worktree(workspace: &Workspace) -> PathBuf {
    let git = workspace.git_outside.as_ref().map(|git| git.as_path());
    let main = git.filter(|git| git.ends_with(".git")).and_then(Path::parent);
    main.unwrap_or(workspace.root.as_path()).to_owned()
}

fn is_own(path: &Path, stat: &Stat) -> Result<(), Refusal> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused(path, "belongs to another user"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(refusal(
            format!("other users can write to the identity's {}", path.display()),
            Some(format!("run `chmod go-w {}`", path.display())),
        ));
    }
    Ok(())
}

/// Refuses a directory that is a repository of its own, such as a submodule: what lies in it may have
/// come with that.
fn is_of_this_repository(path: &Path, opened: &OwnedFd) -> Result<(), Refusal> {
    match rustix::fs::statat(opened, ".git", rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Ok(_) => Err(refusal(
            format!(
                "{} is a git repository of its own: an identity may have come with it",
                path.display()
            ),
            Some(
                "if it is your own, copy it to a directory without a .git in or above it"
                    .to_owned(),
            ),
        )),
        Err(errno) => Err(refused(path, &format!("cannot be scanned ({errno})"))),
    }
}

/// Refuses a file that git tracks: it came with the repository.
fn is_untracked(main: &Path, relative: &Path) -> Result<(), Refusal> {
    let file = main.join(".git");
    let Ok(found) = std::fs::symlink_metadata(&file) else { return Ok(()) };
    let git = if found.is_dir() { Some(file) } else { pointer::gitdir(&file) };
    let unknown = || refused(&main.join(relative), "may be tracked: git's index cannot be read");
    let git = git.ok_or_else(unknown)?;
    if std::fs::symlink_metadata(git.join("index")).is_err() {
        // Nothing was ever added.
        return Ok(());
    }
    if Index::open(&git).and_then(|index| index.holds(relative)).ok_or_else(unknown)? {
        return Err(refusal(
            format!(
                "{} is tracked by git: it came with the repository, or leaves with it",
                main.join(relative).display()
            ),
            Some(format!(
                "if it is your own, run `git rm -r --cached {}` and add it to .gitignore",
                relative.display()
            )),
        ));
    }
    Ok(())
}
