//! What is protected of one git directory that exists at the start (`git = guarded`).
//!
//! The inside works on private copies of what git executes or is configured by. `config` is
//! covered by a symbolic link to the copy: git resolves the link before it takes its lock, so
//! writers make `config.lock` beside the copy and rename it there. Hooks are a private
//! directory. What leads git elsewhere (`commondir`, `gitdir`) and what selects programs
//! (`attributes`) is read-only. What is missing is made, so that it can be covered.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_policy::protect::{GIT_CONFIG, GIT_HOOKS, Protection};
use rustix::fs::FileType;

use super::inspect::remember;
use super::pointer::{line, normal};
use super::read::{Content, kind_at, open_directory, read_beneath};
use super::secrets::without_secrets;
use crate::RunError;
use crate::anchor::Anchor;
use crate::placeholder::{COMMONDIR, Placeholder};
use crate::restrict::{Protect, Substitute};

/// Where the private copies of all git directories appear inside.
pub(crate) const INSIDE: &str = "/run/pinfold/git";

/// The files that git reads its configuration from.
pub(crate) const CONFIGS: [&str; 2] = ["config", "config.worktree"];

/// The mode of a copy that is a symbolic link; its content is where it leads.
pub(crate) const LINK: u32 = 0o120_000;

/// More hooks than these are no hooks.
const MOST_HOOKS: usize = 512;

/// A git directory whose private copies a session holds.
#[derive(Debug)]
pub(crate) struct Repository {
    /// The git directory on the host.
    pub(crate) host: PathBuf,
    /// Which directory that was at the start.
    pub(crate) anchor: Anchor,
    /// Its copies, by name: a name in [`CONFIGS`] or `hooks/…`, with the content at the start.
    pub(crate) copies: Vec<(PathBuf, Content)>,
    /// The directory of the copies on the host.
    pub(crate) private: PathBuf,
    /// Where objects came from besides its own, at the start.
    pub(crate) alternates: Option<Content>,
    /// The todo list of a rebase that had been stopped at the start.
    pub(crate) todo: Option<Content>,
}

impl Repository {
    /// A git directory that keeps what it has, but for what `remember` looks at.
    ///
    /// # Errors
    /// What opening it says.
    pub(crate) fn remembered(host: &Path, private: PathBuf) -> Result<Self, RunError> {
        let directory = open_directory(host).map_err(|errno| RunError::System(errno.into()))?;
        let anchor = Anchor::held(host, &directory).map_err(RunError::System)?;
        let (copies, alternates, todo) = (Vec::new(), None, None);
        let host = host.to_owned();
        let mut repository = Self { host, anchor, copies, private, alternates, todo };
        remember(&mut repository, &directory);
        Ok(repository)
    }
}

/// Guards the git directory at `host`; `number` names its private copies.
///
/// # Errors
/// A configuration of which no copy can be made, or the session's directory failing.
pub(crate) fn guard(
    host: &Path,
    number: usize,
    session: &Path,
    protection: &Protection,
    protect: &mut Protect,
) -> Result<Repository, RunError> {
    let directory = open_directory(host).map_err(|errno| RunError::System(errno.into()))?;
    let private = session.join(number.to_string());
    fs::DirBuilder::new().mode(0o700).create(&private).map_err(RunError::System)?;
    let inside = Path::new(INSIDE).join(number.to_string());
    let repository = Repository::remembered(host, private)?;
    let mut work = Work { directory, inside, repository, protect };
    let linked = kind_at(&work.directory, "commondir").is_some()
        && kind_at(&work.directory, "objects").is_none();
    if !protection.is_lifted(GIT_CONFIG) {
        // A linked worktree's directory has the configuration of its common directory.
        let configs = if linked { &CONFIGS[1..] } else { &CONFIGS[..] };
        configs.iter().try_for_each(|name| work.config(name))?;
    }
    if !linked && !protection.is_lifted(GIT_HOOKS) {
        work.hooks()?;
    }
    work.fixed("commondir", COMMONDIR);
    if linked {
        work.registration();
    } else {
        work.attributes();
    }
    let Work { repository, .. } = work;
    Ok(repository)
}

struct Work<'a> {
    directory: OwnedFd,
    inside: PathBuf,
    repository: Repository,
    protect: &'a mut Protect,
}

impl Work<'_> {
    fn config(&mut self, name: &str) -> Result<(), RunError> {
        let path = self.repository.host.join(name);
        let content = read_beneath(&self.directory, Path::new(name)).map_err(|unread| {
            let what = format!("{} {unread}: no private copy can be made of it", path.display());
            let hint =
                format!("make it a regular file, or let it be changed: --opt-in {GIT_CONFIG}");
            RunError::refused(what, Some(hint))
        })?;
        self.keep(name, Some(b""));
        let content = match content {
            Some(Content { bytes, mode }) => {
                Content { bytes: without_secrets(&bytes).unwrap_or(bytes), mode }
            }
            None => Content { bytes: Vec::new(), mode: 0o644 },
        };
        self.copy(Path::new(name), content)?;
        let link = Substitute::Link(self.inside.join(name));
        self.protect.substitute(
            path,
            link,
            reason("git runs what its configuration names", GIT_CONFIG),
        );
        Ok(())
    }

    fn hooks(&mut self) -> Result<(), RunError> {
        let path = self.repository.host.join("hooks");
        let private = self.repository.private.join("hooks");
        fs::DirBuilder::new().mode(0o755).create(private).map_err(RunError::System)?;
        let inside = self.inside.join("hooks");
        self.keep("hooks", None);
        let substitute = match kind_at(&self.directory, "hooks") {
            Some(FileType::Symlink) => {
                self.protect.keep_targets(&path);
                Substitute::Link(inside)
            }
            Some(FileType::Directory) => {
                self.copy_hooks(Path::new("hooks"))?;
                Substitute::Replace(inside)
            }
            None => Substitute::Replace(inside),
            Some(_) => {
                self.read_only("hooks");
                return Ok(());
            }
        };
        self.protect.substitute(path, substitute, reason("git runs its hooks", GIT_HOOKS));
        Ok(())
    }

    /// Copies a directory of hooks. Samples are no hooks; links are made again, and what they
    /// lead to is protected.
    fn copy_hooks(&mut self, below: &Path) -> Result<(), RunError> {
        let host = self.repository.host.join(below);
        let failed = |error: io::Error| {
            let what = format!("cannot copy the hooks in {}: {error}", host.display());
            RunError::refused(what, Some(format!("let them be changed: --opt-in {GIT_HOOKS}")))
        };
        for entry in fs::read_dir(&host).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let relative = below.join(entry.file_name());
            let private = self.repository.private.join(&relative);
            let kind = entry.file_type().map_err(failed)?;
            if self.repository.copies.len() > MOST_HOOKS {
                return Err(failed(io::Error::other("there are too many")));
            }
            if kind.is_dir() {
                fs::create_dir(private).map_err(failed)?;
                self.copy_hooks(&relative)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).map_err(failed)?;
                std::os::unix::fs::symlink(&target, private).map_err(failed)?;
                let bytes = target.into_os_string().into_vec();
                self.repository.copies.push((relative, Content { bytes, mode: LINK }));
                self.protect.keep_targets(&entry.path());
            } else if kind.is_file() && relative.extension().is_none_or(|end| end != "sample") {
                let content = read_beneath(&self.directory, &relative)
                    .map_err(|unread| failed(io::Error::other(unread.to_string())))?;
                if let Some(content) = content {
                    self.copy(&relative, content)?;
                }
            }
        }
        Ok(())
    }

    /// Where a linked worktree lies stays. One that the inside cannot see would be missing to its
    /// git, which forgets missing ones (`git gc` does, too) unless they are locked.
    fn registration(&mut self) {
        let file = self.repository.host.join("gitdir");
        let Some(named) = line(&file, b"") else { return };
        self.read_only("gitdir");
        let named = normal(&self.repository.host.join(named));
        if self.protect.writable_root(&named).is_none() {
            self.fixed("locked", b"");
        }
    }

    fn attributes(&mut self) {
        match kind_at(&self.directory, "info") {
            Some(FileType::Directory) | None => self.keep("info", None),
            Some(_) => return self.read_only("info"),
        }
        self.fixed("info/attributes", b"");
    }

    /// Something that the inside sees as it is, made with this content where it is missing.
    fn fixed(&mut self, name: &str, content: &'static [u8]) {
        self.keep(name, Some(content));
        self.read_only(name);
    }

    fn read_only(&mut self, name: &str) {
        let path = self.repository.host.join(name);
        let text = "it tells git where to look, or what to run".into();
        let reason = Reason { why: Why::HostExecutes, text, opt_in: None };
        self.protect.keep_targets(&path);
        self.protect.restrict(path, Effect::ReadOnly, reason);
    }

    /// Something that has to be there as long as the session lasts. Whether it is missing is decided
    /// under the sessions' lock: what was there at the look may be another session's placeholder,
    /// which goes with that session.
    fn keep(&mut self, name: &str, content: Option<&'static [u8]>) {
        let path = self.repository.host.join(name);
        self.protect.placeholders.push(Placeholder { path, content });
    }

    fn copy(&mut self, relative: &Path, content: Content) -> Result<(), RunError> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(content.mode)
            .open(self.repository.private.join(relative))
            .map_err(RunError::System)?;
        io::Write::write_all(&mut file, &content.bytes).map_err(RunError::System)?;
        self.repository.copies.push((relative.to_owned(), content));
        Ok(())
    }
}

fn reason(text: &'static str, opt_in: &'static str) -> Reason {
    Reason { why: Why::HostExecutes, text: text.into(), opt_in: Some(opt_in.into()) }
}
