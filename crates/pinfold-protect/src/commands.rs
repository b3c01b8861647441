//! Directories of a workspace on the caller's `PATH`: an activated environment, `node_modules/.bin`, direnv's `PATH_add bin`.
//! A program that a session puts there takes the place of the one that the user means by `git` or `ls`.

use std::collections::HashMap;
use std::env::{split_paths, var_os};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use pinfold_host::within::Within;
use pinfold_names::COMMANDS;
use pinfold_policy::authority::{Reason, Why};

use crate::restrict::resolve;
use crate::trusted::variable;

/// Where a system has its programs, whatever the variable says.
const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Names of one directory that are remembered.
const MOST: usize = 10_000;

/// A way of the caller's `PATH` through the workspace to a directory in which shells look for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// A path in the workspace that leads there by what lies in the workspace: it may lead elsewhere by now.
    pub written: PathBuf,
    /// Where that led at the start, without links. It may have been missing, or lie outside of the workspace.
    pub directory: PathBuf,
    /// What was in it at the start.
    pub names: Vec<OsString>,
}

/// Returns the ways of the caller's `PATH` through these roots, as they are now.
#[must_use]
pub fn ahead(roots: &[PathBuf]) -> Vec<Ahead> {
    ahead_on(&variable("PATH").unwrap_or_default(), is_of_npm(), roots)
}

/// Returns whether npm started this: it adds directories to the variable that the shell of the user does not have.
fn is_of_npm() -> bool {
    var_os("npm_execpath").is_some()
}

fn ahead_on(path: &OsStr, is_of_npm: bool, roots: &[PathBuf]) -> Vec<Ahead> {
    let within = Within::of(roots.to_vec());
    let mut all: Vec<Ahead> = Vec::new();
    let is_meant = |it: &PathBuf| !(is_of_npm && it.ends_with("node_modules/.bin"));
    for component in split_paths(path).filter(is_meant).flat_map(|it| places(&it, roots)) {
        let Some(end) = resolve(&component).end else { continue };
        for written in within.ways(&component) {
            if all.iter().all(|ahead| ahead.written != written) {
                let directory = within.place(&end).unwrap_or_else(|| end.clone());
                let names = entries(&end).take(MOST).map(|entry| entry.file_name()).collect();
                all.push(Ahead { written, directory, names });
            }
        }
    }
    all
}

/// Returns what a component of the variable stands for. A relative one is meant from wherever the shell is: from the current
/// directory, or the top of a grant.
fn places(component: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let of_roots = roots.iter().filter(|_| component.is_relative()).map(|it| it.join(component));
    // An empty one is the current directory.
    let here = if component.as_os_str().is_empty() { Path::new(".") } else { component };
    absolute(here).into_iter().chain(of_roots).collect()
}

fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

/// The programs outside of a session's reach that a user starts by their names.
#[derive(Debug, Default)]
pub struct Programs {
    by_name: HashMap<OsString, Program>,
}

#[derive(Debug)]
struct Program {
    /// The first one on `PATH`.
    path: PathBuf,
    /// Whether the system has one of this name.
    is_of_system: bool,
}

/// A new name in a directory of the workspace, which shells find before a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Shadowing {
    /// It stands before a program of the system.
    OfSystem(Reason),
    /// It stands before one of the user's own programs. Environments have such names: `ruff`, `tsc`.
    OfUser,
}

impl Programs {
    /// Finds those on the caller's `PATH` and those of the system, without what lies in a session's reach.
    #[must_use]
    pub fn find(reach: &Within) -> Self {
        let path = variable("PATH").unwrap_or_default();
        let mut by_name: HashMap<OsString, Program> = HashMap::new();
        for directory in split_paths(&path).chain(split_paths(SYSTEM)) {
            let real =
                Some(directory).filter(|it| it.is_absolute()).and_then(|it| resolve(&it).end);
            let Some(real) = real.filter(|it| !reach.has(it)) else { continue };
            let is_of_system = fs::metadata(&real).is_ok_and(|it| it.uid() == 0);
            for entry in entries(&real) {
                let first = || Program { path: entry.path(), is_of_system };
                by_name.entry(entry.file_name()).or_insert_with(first).is_of_system |= is_of_system;
            }
        }
        Self { by_name }
    }

    /// Judges what lies at a new name in such a directory; nothing if no program has it.
    #[must_use]
    pub fn judge(&self, name: &OsStr) -> Option<Shadowing> {
        let program = self.by_name.get(name)?;
        if !program.is_of_system {
            return Some(Shadowing::OfUser);
        }
        let text = format!("a shell with your PATH runs it instead of {}", program.path.display());
        let opt_in = Some(COMMANDS.into());
        Some(Shadowing::OfSystem(Reason { why: Why::HostExecutes, text: text.into(), opt_in }))
    }

    /// Returns what is new in a directory in a session's reach and has the name of a program. A link to that very program is it.
    /// Where a link of the session's leads to another directory, all of that is new.
    #[must_use]
    pub fn new_in(&self, ahead: &Ahead, reach: &Within) -> Vec<(PathBuf, Shadowing)> {
        let end = resolve(&ahead.written).end;
        let Some(directory) = end.and_then(|end| reach.place(&end)) else { return Vec::new() };
        let is_other = directory != ahead.directory;
        let judge = |name: OsString| {
            let shadowing = self.judge(&name).filter(|_| is_other || !ahead.names.contains(&name));
            let path = directory.join(&name);
            let file = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
            let program = &self.by_name.get(&name)?.path;
            let is_same = file(&path).is_some_and(|it| Some(it) == file(program));
            Some((path, shadowing?)).filter(|_| !is_same)
        };
        entries(&directory).map(|entry| entry.file_name()).filter_map(judge).collect()
    }
}

/// What a commit must not put into a working tree: names of the system's programs in such directories, and anything in the place
/// of such a directory or of one above it, which may be a link.
#[derive(Debug, Default)]
pub struct Commands {
    directories: Vec<PathBuf>,
    programs: Programs,
}

impl Commands {
    /// Finds them for directories that lie in these roots.
    #[must_use]
    pub fn new(ahead: &[Ahead], roots: &[PathBuf]) -> Self {
        let both = ahead.iter().flat_map(|it| [it.written.clone(), it.directory.clone()]);
        let directories: Vec<PathBuf> = both.collect();
        let find = || Programs::find(&Within::of(roots.to_vec()));
        let programs = if directories.is_empty() { Programs::default() } else { find() };
        Self { directories, programs }
    }

    /// Judges a name in one of the directories.
    #[must_use]
    pub fn judge(&self, path: &Path) -> Option<Shadowing> {
        let is_there = self.directories.iter().any(|it| path.parent() == Some(it));
        self.programs.judge(path.file_name().filter(|_| is_there)?)
    }

    /// Returns whether a path leads to one of the directories.
    #[must_use]
    pub fn leads_through(&self, path: &Path) -> bool {
        self.directories.iter().any(|it| it.starts_with(path))
    }

    /// Returns whether a path is one that a commit must not put there.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.leads_through(path) || matches!(self.judge(path), Some(Shadowing::OfSystem(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_of_the_workspace_on_the_path_are_found_however_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, outside) = (top.join("work"), top.join("outside"));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(root.join("bin/tool"), "").unwrap();
        symlink(root.join("bin"), outside.join("link")).unwrap();
        // An environment outside of the workspace, and a way to the workspace by several links.
        symlink(&outside, root.join(".venv")).unwrap();
        symlink("bin", root.join("middle")).unwrap();
        symlink(root.join("middle"), outside.join("far")).unwrap();
        let found = |path: &str, is_of_npm| {
            let path = path.replace("TOP", top.to_str().unwrap());
            let all = ahead_on(path.as_ref(), is_of_npm, std::slice::from_ref(&root));
            let below = |it: &Ahead| it.written.strip_prefix(&root).unwrap().to_owned();
            all.iter().map(below).map(|it| it.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("/usr/bin:TOP/outside", false), Vec::<String>::new());
        assert_eq!(found("TOP/outside/link:/bin", false), ["bin"]);
        assert_eq!(found("/bin:TOP/work/x/../bin:TOP/work/bin", false), ["x/../bin", "bin"]);
        assert_eq!(found("node_modules/.bin:/bin", false), ["node_modules/.bin"]);
        assert_eq!(found("TOP/work/node_modules/.bin:/bin", true), Vec::<String>::new());
        assert_eq!(found(":/bin", false), [""]);
        assert_eq!(found("TOP/work/.venv/bin", false), [".venv/bin"]);
        assert_eq!(found("TOP/outside/far", false), ["middle"]);
        let bin = ahead_on(root.join("bin").as_os_str(), false, &[root]);
        assert_eq!(bin[0].names, ["tool"]);
    }

    #[test]
    fn new_names_of_the_systems_programs_are_named_and_links_to_them_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().canonicalize().unwrap();
        for name in ["ls", "cat", "own-tool"] {
            fs::write(bin.join(name), "").unwrap();
        }
        symlink("/bin/sh", bin.join("sh")).unwrap();
        symlink("/bin/sh", bin.join("cp")).unwrap();
        let ahead = |written: &Path| Ahead {
            written: written.to_owned(),
            directory: bin.clone(),
            names: vec!["cat".into()],
        };
        let reach = Within::of(vec![bin.clone()]);
        let programs = Programs::find(&reach);
        let found = |written: &Path| {
            let ahead = ahead(written);
            let mut found: Vec<PathBuf> =
                programs.new_in(&ahead, &reach).into_iter().map(|it| it.0).collect();
            found.sort();
            found
        };
        assert_eq!(found(&bin), [bin.join("cp"), bin.join("ls")]);
        // The session had a link lead elsewhere.
        fs::create_dir(bin.join("other")).unwrap();
        fs::write(bin.join("other/cat"), "").unwrap();
        symlink("other", bin.join("link")).unwrap();
        assert_eq!(found(&bin.join("link")), [bin.join("other/cat")]);
        let commands = Commands::new(&[ahead(&bin.join("link/x"))], std::slice::from_ref(&bin));
        assert!(commands.has(&bin.join("ls")) && commands.has(&bin.join("link")));
        assert!(!commands.has(&bin.join("own-tool")) && !commands.has(&bin.join("other/ls")));
        let Some(Shadowing::OfSystem(reason)) = programs.judge("ls".as_ref()) else { panic!() };
        assert!(reason.text.contains("/ls"), "{}", reason.text);
    }
}
