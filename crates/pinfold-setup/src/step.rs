//! One change of a machine.

use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_runner::Refusal;
use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::machine::Machine;

/// A change. Each says what it does, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Adds a group.
    AddGroup(String),
    /// Adds a user that cannot log in, with its directory.
    AddUser { name: String, home: PathBuf },
    /// Adds a user to a group.
    Join { user: String, group: String },
    /// Makes a directory for a user alone.
    MakeDirectory { path: PathBuf, owner: String },
    /// Copies a program.
    Install { from: PathBuf, to: PathBuf },
    /// Links a name to a program.
    Link { path: PathBuf, to: PathBuf },
    /// Writes a file.
    Write { path: PathBuf, content: Vec<u8>, mode: u32, what: String },
    /// Writes rules of sudo, after visudo has checked them.
    WriteRules { path: PathBuf, content: Vec<u8> },
    /// Removes a group, unless it went with its user (userdel(8), `USERGROUPS_ENAB`).
    RemoveGroup(String),
    /// Runs a program.
    Run(Vec<String>),
    /// Removes a file or a tree.
    Remove(PathBuf),
    /// Removes a directory if nothing is in it.
    RemoveEmpty(PathBuf),
}

impl Step {
    /// Returns one that runs a program.
    pub(crate) fn run(argv: &[&str]) -> Self {
        Self::Run(argv.iter().map(|word| (*word).to_owned()).collect())
    }

    /// Carries it out.
    ///
    /// # Errors
    /// Returns what failed, and why.
    pub(crate) fn apply(&self, machine: &Machine) -> Result<(), Refusal> {
        let failed = |error: io::Error| Refusal::plain(format!("cannot {self}: {error}"));
        match self {
            Self::AddGroup(name) => machine.run(&["groupadd", "--system", name]).map(drop),
            Self::AddUser { name, home } => {
                let home = home.display().to_string();
                let shell = "/usr/sbin/nologin";
                let useradd = ["useradd", "--system", "--gid", name, "--no-create-home"];
                let about = ["--home-dir", &home, "--shell", shell, name];
                machine.run(&[&useradd[..], &about[..]].concat()).map(drop)
            }
            Self::Join { user, group } => machine.run(&["gpasswd", "--add", user, group]).map(drop),
            Self::MakeDirectory { path, owner } => {
                let (uid, gid) = machine.ids(owner)?;
                make_directory(&machine.at_path(path), uid, gid)
                    .map_err(|errno| failed(errno.into()))
            }
            Self::Install { from, to } => {
                let content = fs::read(from).map_err(failed)?;
                write_file(machine, to, &content, 0o755)
            }
            Self::Link { path, to } => {
                std::os::unix::fs::symlink(to, machine.at_path(path)).map_err(failed)
            }
            Self::Write { path, content, mode, .. } => write_file(machine, path, content, *mode),
            Self::WriteRules { path, content } => {
                let [_, unchecked] = parts(path);
                write_file(machine, &unchecked, content, 0o440)?;
                let place = machine.at_path(&unchecked);
                let checked =
                    machine.run(&["visudo", "-c", "-q", "-f", &place.display().to_string()]);
                let moved =
                    checked.and_then(|_| fs::rename(&place, machine.at_path(path)).map_err(failed));
                if moved.is_err() {
                    let _ = fs::remove_file(&place);
                }
                moved
            }
            Self::RemoveGroup(name) if !machine.has_group(name)? => Ok(()),
            Self::RemoveGroup(name) => machine.run(&["groupdel", name]).map(drop),
            Self::Run(argv) => {
                machine.run(&argv.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
            }
            Self::Remove(path) => {
                pinfold_trees::remove_tree(&machine.at_path(path)).map_err(failed)
            }
            Self::RemoveEmpty(path) => match fs::remove_dir(machine.at_path(path)) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.map_err(failed),
            },
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddGroup(name) => write!(f, "add group {name}"),
            Self::AddUser { name, .. } => write!(f, "add user {name}, who cannot log in"),
            Self::Join { user, group } => {
                write!(f, "add {user} to group {group}, from the next login of {user}")
            }
            Self::MakeDirectory { path, owner } => {
                write!(f, "make {} for {owner} alone", path.display())
            }
            Self::Install { from, to } => write!(f, "copy {} to {}", from.display(), to.display()),
            Self::Link { path, to } => write!(f, "link {} to {}", path.display(), to.display()),
            Self::Write { path, what, .. } => write!(f, "write {}: {what}", path.display()),
            Self::WriteRules { path, .. } => {
                write!(f, "write {}: sudo starts the runner, too", path.display())
            }
            Self::RemoveGroup(name) => write!(f, "remove group {name}"),
            Self::Run(argv) => write!(f, "run {}", argv.join(" ")),
            Self::Remove(path) | Self::RemoveEmpty(path) => write!(f, "remove {}", path.display()),
        }
    }
}

/// Returns the names that a file has until it is whole, and until it is checked. sudo reads no file with
/// a dot in its name.
pub(crate) fn parts(path: &Path) -> [PathBuf; 2] {
    [".new", ".unchecked"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        name.into()
    })
}

/// Makes a directory for one user, which is that user's as soon as it is there. What somebody puts in its place is not
/// changed.
fn make_directory(path: &Path, uid: u32, gid: u32) -> Result<(), Errno> {
    let [new, _] = parts(path);
    // One of a set-up that was interrupted.
    let _ = rustix::fs::rmdir(&new);
    rustix::fs::mkdir(&new, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(&new, flags, Mode::empty())?;
    rustix::fs::fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    rustix::fs::renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE)
}

/// Writes a file as a whole or not at all, with its directory if that is missing. It belongs to root.
///
/// # Errors
/// Returns the error of writing, with the path.
pub(crate) fn write_file(
    machine: &Machine,
    path: &Path,
    content: &[u8],
    mode: u32,
) -> Result<(), Refusal> {
    let failed =
        |error: io::Error| Refusal::plain(format!("cannot write {}: {error}", path.display()));
    let place = machine.at_path(path);
    if let Some(parent) = place.parent()
        && !parent.exists()
    {
        fs::create_dir_all(parent).map_err(failed)?;
        // The caller's umask must not decide who may write to it.
        fs::set_permissions(parent, Permissions::from_mode(0o755)).map_err(failed)?;
    }
    let [new, _] = parts(&place);
    // One of a set-up that was interrupted.
    let _ = fs::remove_file(&new);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
    let written = file
        .write_all(content)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, &place));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map_err(failed)
}
