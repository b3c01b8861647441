//! The look at the end: what the inside made that the host would execute.
//!
//! Nothing can keep an inside from making a repository, or a name that is only protected where it
//! exists. So when everything inside has ended, the directories that changed are read again, and
//! what is new and would be executed is set aside by a rename. Names in the working tree of a
//! repository that the inside made stay: it is a clone like any other, and host tools ask before
//! they trust a new one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pinfold_policy::authority::Reason;
use pinfold_policy::protect::Protection;
use pinfold_policy::settings::FileSettings;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use crate::git::aside::set_aside_beneath;
use crate::git::inspect::{Known, inspect};
use crate::git::pointer;
use crate::git::read::open_directory;
use crate::git::settle::Kept;
use crate::guard::{Guard, Walked};
use crate::protect::{Finding, Rules, Surveyor, What};
use crate::restrict::follow;
use crate::survey::walk_changed;

type Text = std::borrow::Cow<'static, str>;

/// What was protected at the start is not looked at again.
pub(crate) struct After<'a> {
    guard: &'a Guard,
    known: Known<'a>,
    kept: Vec<Kept>,
    /// Tops of the working trees that the inside made.
    new_trees: Vec<PathBuf>,
    /// Names that are new and would be executed.
    named: Vec<(PathBuf, Reason)>,
    /// What tools run on a build, in directories that changed.
    built: Vec<PathBuf>,
}

/// Looks the writable roots over again and returns what was set aside, and what lies in directories
/// that changed and tools run on a build.
pub(crate) fn look(
    guard: &Guard,
    files: &FileSettings,
    protection: &Protection,
) -> (Vec<Kept>, Vec<PathBuf>) {
    let writable: Vec<PathBuf> = guard.roots.iter().map(|root| root.path.clone()).collect();
    let known =
        Known { writable: &writable, readable: &guard.readable, repositories: &guard.repositories };
    let rules = Rules {
        protection: protection.clone(),
        files,
        own: &guard.own,
        roots: guard.readable.clone(),
    };
    let (kept, new_trees, named) = (Vec::new(), Vec::new(), Vec::new());
    let mut after = After { guard, known, kept, new_trees, named, built: Vec::new() };
    let mut done = HashSet::new();
    for root in &guard.roots {
        for finding in after.changed(root, &rules) {
            if done.insert(finding.path.clone()) {
                after.judge(finding);
            }
        }
    }
    after.set_named_aside();
    (after.kept, after.built)
}

impl After<'_> {
    fn changed(&mut self, root: &Walked, rules: &Rules<'_>) -> Vec<Finding> {
        let mut surveyor = Surveyor::new(rules, &root.path, &root.site, true);
        let walked = walk_changed(&root.path, &root.walk, &mut |listing, zone, below| {
            surveyor.visit(listing, zone, below);
        });
        match walked {
            Ok(unreadable) => {
                let why = "it cannot be read, so nobody knows what it would run";
                for path in unreadable.iter().map(|path| root.path.join(path)) {
                    // Closed for good before it is renamed: a name in it must lead nowhere.
                    if let Err(errno) = close(&path) {
                        let what = format!("{} ({errno}; remove it)", path.display());
                        self.kept.push(Kept::new(what, why));
                    }
                    self.set_aside(&path, why);
                }
            }
            Err(errno) => {
                let what = format!("{} could not be looked over ({errno})", root.path.display());
                let why = "repositories made in it may hold hooks: look before you run git there";
                self.kept.push(Kept::new(what, why));
            }
        }
        self.built.extend(surveyor.built);
        surveyor.findings
    }

    fn judge(&mut self, finding: Finding) {
        let Finding { path, kind, what } = finding;
        if self.guard.protected.contains(&path) {
            return;
        }
        match what {
            What::GitDirectory | What::BareRepository => self.git_directory(&path),
            What::GitFile => self.git_file(&path, kind),
            What::Named(class) => {
                let executed = class.executed().map(|class| (path, class.reason()));
                self.named.extend(executed);
            }
            What::Socket | What::Denied(..) | What::Own => {}
        }
    }

    fn git_directory(&mut self, path: &Path) {
        let is_new = !self.known.repositories.iter().any(|known| known.host == path);
        if is_new && path.ends_with(".git") {
            self.new_trees.extend(path.parent().map(Path::to_owned));
        }
        inspect(path, &self.known, &mut self.kept);
    }

    /// A new `.git` that leads to a git directory: that one is inspected, wherever it lies.
    fn git_file(&mut self, path: &Path, kind: FileType) {
        let led = match kind {
            FileType::Symlink => follow(path).map(|followed| followed.end),
            _ => pointer::gitdir(path),
        };
        let Some(led) = led else {
            return self.set_aside(path, "it does not say where its git directory is");
        };
        if !self.known.writable.iter().any(|root| led.starts_with(root)) {
            // The inside's own /tmp and home are gone; a worktree that was made there, or here
            // for a repository there, leads nowhere. What the host has there was not granted.
            if std::fs::symlink_metadata(&led).is_ok() {
                self.set_aside(path, "it leads git to a directory that was not granted");
            }
            return;
        }
        self.new_trees.extend(path.parent().map(Path::to_owned));
        if open_directory(&led).is_ok() {
            inspect(&led, &self.known, &mut self.kept);
        } else if std::fs::metadata(&led).is_ok() {
            self.set_aside(path, "it leads git through a symbolic link");
        }
    }

    fn set_named_aside(&mut self) {
        for (path, reason) in std::mem::take(&mut self.named) {
            // What lies in something protected came with it.
            let in_new_tree = self.new_trees.iter().any(|tree| path.starts_with(tree));
            let below = path.ancestors().skip(1).any(|above| self.guard.protected.contains(above));
            if !in_new_tree && !below && std::fs::symlink_metadata(&path).is_ok() {
                self.set_aside_for(&path, reason.text, reason.opt_in);
            }
        }
    }

    fn set_aside(&mut self, path: &Path, why: &'static str) {
        self.set_aside_for(path, why.into(), None);
    }

    fn set_aside_for(&mut self, path: &Path, why: Text, opt_in: Option<Text>) {
        let roots = self.known.writable.iter().filter(|root| path.starts_with(root));
        let root = roots.max_by_key(|root| root.as_os_str().len());
        let renamed = root.and_then(|root| {
            let relative = path.strip_prefix(root).ok()?;
            let renamed = open_directory(root).and_then(|root| set_aside_beneath(&root, relative));
            Some(renamed)
        });
        let what = match renamed {
            Some(Ok(())) => format!("{} (set aside)", path.display()),
            Some(Err(errno)) => format!("{} (still there: {errno}; remove it)", path.display()),
            None => format!("{} (still there; remove it)", path.display()),
        };
        self.kept.push(Kept { what, why, opt_in });
    }
}

/// Takes every permission from a directory.
fn close(path: &Path) -> Result<(), Errno> {
    let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::INVAL)?;
    let parent = open_directory(parent)?;
    // A directory it was, and nothing runs any more that could make it a link.
    rustix::fs::chmodat(parent, name, Mode::empty(), AtFlags::empty())
}
