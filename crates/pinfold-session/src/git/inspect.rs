//! What a git directory that the inside made would have the host execute.
//!
//! `git init`, `git clone`, `git worktree add` and `git submodule add` make directories that pass
//! without a word. Whatever else would run a program or lead git elsewhere is set aside, and a
//! configuration goes on with its harmless remainder.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::aside::{put, set_aside, set_aside_beneath};
use super::config::{Config, Setting, write};
use super::directory::{CONFIGS, INSIDE, Repository};
use super::keys::{Verdict, judge};
use super::pointer::normal;
use super::read::{Content, Unread, kind_at, open_directory, read_beneath};
use super::settle::Kept;

/// The todo list of a stopped rebase; its `exec` lines are run by `git rebase --continue`.
const REBASE_PLAN: &str = "rebase-merge/git-rebase-todo";
/// Where git looks for objects besides its own.
const ALTERNATES: &str = "objects/info/alternates";

/// What is known when the inside has ended.
pub(crate) struct Known<'a> {
    /// Roots that the inside could write.
    pub(crate) writable: &'a [PathBuf],
    /// Roots that the inside could read.
    pub(crate) readable: &'a [PathBuf],
    /// Git directories that were there at the start.
    pub(crate) repositories: &'a [Repository],
}

/// Inspects a git directory and sets aside what is wrong with it.
pub(crate) fn inspect(host: &Path, known: &Known<'_>, kept: &mut Vec<Kept>) {
    let directory = match open_directory(host) {
        Ok(directory) => directory,
        Err(errno) => {
            let what = format!("{} cannot be inspected ({errno})", host.display());
            kept.push(Kept::new(what, "it may hold hooks"));
            return;
        }
    };
    let before = known.repositories.iter().find(|repository| repository.host == host);
    let mut inspection = Inspection { directory, host, known, kept };
    if before.is_none() {
        CONFIGS.iter().for_each(|name| inspection.config(name));
        inspection.hooks();
        inspection.commondir();
    }
    inspection.alternates(before);
    inspection.todo(before);
}

struct Inspection<'a, 'k> {
    directory: OwnedFd,
    host: &'a Path,
    known: &'a Known<'k>,
    kept: &'a mut Vec<Kept>,
}

impl Inspection<'_, '_> {
    fn read(&self, name: &str) -> Result<Option<Content>, Unread> {
        read_beneath(&self.directory, Path::new(name))
    }

    fn set_aside(&mut self, name: &str, why: &'static str) {
        let path = self.host.join(name);
        let what = match set_aside_beneath(&self.directory, Path::new(name)) {
            Ok(()) => format!("{} (set aside)", path.display()),
            Err(errno) => format!("{} (still there: {errno}; remove it)", path.display()),
        };
        self.kept.push(Kept::new(what, why));
    }

    fn config(&mut self, name: &str) {
        let content = match self.read(name) {
            Ok(None) => return,
            Ok(Some(content)) => content,
            Err(Unread::Link) => match self.copy_of_ours(name) {
                // A repository that was there at the start was copied with its link.
                Some(content) => return self.replace(name, &Config::parse(&content.bytes)),
                None => return self.set_aside(name, "it is a symbolic link"),
            },
            Err(_) => return self.set_aside(name, "it cannot be read as a configuration"),
        };
        let config = Config::parse(&content.bytes);
        if config.broken {
            return self.set_aside(name, "it is not well-formed");
        }
        let bad: Vec<&str> = config
            .settings
            .iter()
            .filter(|setting| !self.is_harmless(setting))
            .map(|setting| setting.key.as_str())
            .collect();
        if bad.is_empty() {
            return;
        }
        let what = format!("{}: {}", self.host.join(name).display(), bad.join(", ").escape_debug());
        let why = "it may run a program or lead git elsewhere; the file was set aside";
        self.kept.push(Kept::new(what, why));
        self.replace(name, &config);
    }

    /// Puts the harmless remainder of a configuration in its place.
    fn replace(&mut self, name: &str, config: &Config) {
        let harmless = |setting: &&Setting| self.is_harmless(setting);
        let rest: Vec<Setting> = config.settings.iter().filter(harmless).cloned().collect();
        let put = set_aside(&self.directory, Path::new(name))
            .and_then(|()| put(&self.directory, name, &write(&rest)));
        if let Err(errno) = put {
            let what = format!("{} ({errno}; remove it)", self.host.join(name).display());
            self.kept.push(Kept::new(what, "it could not be replaced"));
        }
    }

    /// The content behind a link to a private copy of this session.
    fn copy_of_ours(&self, name: &str) -> Option<Content> {
        let link = rustix::fs::readlinkat(&self.directory, name, Vec::new()).ok()?;
        let relative = Path::new(OsStr::from_bytes(link.as_bytes())).strip_prefix(INSIDE).ok()?;
        let (number, file) = (relative.parent()?, relative.file_name()?);
        let ours = self.known.repositories.iter().find(|ours| ours.private.ends_with(number))?;
        read_beneath(open_directory(&ours.private).ok()?, Path::new(file)).ok()?
    }

    /// Beyond what a repository of the person takes over: what git itself writes for submodules,
    /// partial clones and sparse checkouts.
    fn is_harmless(&self, setting: &Setting) -> bool {
        if judge(setting) != Verdict::Keep {
            return true;
        }
        let value = setting.value.as_deref().unwrap_or(b"true");
        let is_word =
            || value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte));
        match setting.key.as_str() {
            "core.worktree" => self.is_granted(&self.host.join(OsStr::from_bytes(value))),
            "extensions.worktreeconfig" | "extensions.partialclone" => is_word(),
            "gc.autodetach" | "maintenance.auto" | "lfs.repositoryformatversion" => is_word(),
            _ => false,
        }
    }

    fn is_granted(&self, path: &Path) -> bool {
        self.known.writable.iter().any(|root| normal(path).starts_with(root))
    }

    fn hooks(&mut self) {
        match kind_at(&self.directory, "hooks") {
            None => {}
            Some(FileType::Directory) => {
                let hooks = std::fs::read_dir(self.host.join("hooks"));
                let is_sample = |name: &OsStr| name.as_bytes().ends_with(b".sample");
                let mut entries = hooks.into_iter().flatten().flatten();
                if entries.any(|entry| !is_sample(&entry.file_name())) {
                    self.set_aside("hooks", "git would run them on the host");
                }
            }
            Some(_) => self.set_aside("hooks", "it is not a directory"),
        }
    }

    /// A linked worktree's directory names the one above its own; nothing else names any.
    fn commondir(&mut self) {
        let common = match self.read("commondir") {
            Ok(None) => return,
            Ok(Some(content)) => content.bytes,
            Err(_) => return self.set_aside("commondir", "it cannot be read"),
        };
        let named = common.trim_ascii_end();
        let is_linked = self.host.parent().is_some_and(|parent| parent.ends_with("worktrees"));
        if named != b"." && !(is_linked && named == b"../..") {
            self.set_aside("commondir", "it leads git to another configuration");
        }
    }

    /// Objects may come from what the inside could read, and from where they came at the start.
    fn alternates(&mut self, before: Option<&Repository>) {
        let now = match self.read(ALTERNATES) {
            Ok(None) => return,
            Ok(Some(content)) => content,
            Err(_) => return self.set_aside(ALTERNATES, "it cannot be read"),
        };
        if before.is_some_and(|before| before.alternates.as_ref() == Some(&now)) {
            return;
        }
        let objects = self.host.join("objects");
        let mut paths = now.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let is_known = |line: &[u8]| {
            let path = normal(&objects.join(OsStr::from_bytes(line)));
            self.known.readable.iter().any(|root| path.starts_with(root))
        };
        if !paths.all(is_known) {
            self.set_aside(ALTERNATES, "it lends objects that were not granted");
        }
    }

    fn todo(&mut self, before: Option<&Repository>) {
        let Ok(Some(now)) = self.read(REBASE_PLAN) else { return };
        if before.is_some_and(|before| before.todo.as_ref() == Some(&now)) {
            return;
        }
        let runs = |line: &[u8]| {
            let word = line.trim_ascii_start().split(u8::is_ascii_whitespace).next();
            matches!(word, Some(b"exec" | b"x"))
        };
        if now.bytes.split(|byte| *byte == b'\n').any(runs) {
            self.set_aside(
                REBASE_PLAN,
                "git rebase --continue would run its exec lines on the host",
            );
        }
    }
}

/// What is remembered of a git directory at the start, for the functions here.
pub(crate) fn remember(repository: &mut Repository, directory: &OwnedFd) {
    let read = |name: &str| read_beneath(directory, Path::new(name)).ok().flatten();
    repository.alternates = read(ALTERNATES);
    repository.todo = read(REBASE_PLAN);
}
