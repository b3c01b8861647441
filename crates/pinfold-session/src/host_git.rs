//! `pinfold host-git`: the scratch sandboxes of one git command, and the session that runs it.
//!
//! It runs in a process of its own with one thread, since a sandbox starts from one.

mod command;
mod login;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pinfold_boundary::ownership::hand_over;
use pinfold_git::config::{Setting, write};
use pinfold_git::known::safe;
use pinfold_git::refs::{is_component, is_object};
use pinfold_host::Refusal;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_hostexec::git::{Doing, Task};
use pinfold_rootfs::scratch::{Access, Scratch};

use self::command::execute;
use crate::outcome::{Outcome, RunError};

/// Which part of a command this process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Makes the git directory, and finds out what a push would do.
    Look,
    /// Runs the command.
    Run,
    /// Packs what was fetched.
    Pack,
}

const LIVE: &str = "/q/live";
const GIT: &str = "/q/git";
const OBJECTS: &str = "/q/objects";
const KNOWN: &str = "/q/known";
const HOOKS: &str = "/q/hooks";
const OUT: &str = "/q/out";
const SYSTEM: &str = "/q/gitconfig";
const APPROVED: &str = "/q/approved";
const IDS: &str = "/q/ids";
const UNPROVEN: &str = "/q/unproven";

/// What runs in the scratch sandboxes.
const REFERENCES: &str = include_str!("../data/host_git/references.sh");
const PREVIEW_PUSH: &str = include_str!("../data/host_git/preview_push.sh");
const PACK: &str = include_str!("../data/host_git/pack.sh");
/// The hooks of a push: for show, and in earnest.
const NOTE_MOVES: &str = include_str!("../data/host_git/pre_push_note.sh");
const CHECK_MOVES: &str = include_str!("../data/host_git/pre_push_check.sh");

impl Stage {
    /// Does its part of the command whose files lie at `place`. For [`Self::Run`] it gives how git
    /// ended.
    ///
    /// # Errors
    /// Returns what went wrong, without a hint.
    pub fn run(
        self,
        place: &Path,
        places: Places,
        launcher: Launcher,
    ) -> Result<Option<Outcome>, RunError> {
        let task = Task::read(place).map_err(RunError::System)?;
        let said = |what: Refusal| RunError::refused(what.to_string(), None);
        match self {
            Self::Look => {
                look(&task).map_err(said)?;
                Ok(None)
            }
            Self::Run => execute(&task, places, launcher).map(Some),
            Self::Pack => {
                pack(&task).map_err(said)?;
                Ok(None)
            }
        }
    }
}

fn look(task: &Task) -> Result<(), Refusal> {
    let out = task.place.join("out");
    hand_over(&out)?;
    let own = Path::new(LIVE).join(&task.own);
    let mut scratch = Scratch::new(REFERENCES, "")
        .place(LIVE, &task.common, Access::Read)
        .place(OUT, &out, Access::Write)
        .env("GIT_DIR", own)
        .env("GIT_WORK_TREE", "/tmp");
    for (inside, host) in &task.borrowed {
        scratch = scratch.place(&inside.to_string_lossy(), host, Access::Read);
    }
    scratch.run()?;
    make(task)?;
    match task.doing {
        Doing::Push => preview(task),
        Doing::Fetch | Doing::Ask | Doing::Look => Ok(()),
    }
}

/// Makes the git directory that the command works on: data alone.
fn make(task: &Task) -> io::Result<()> {
    let (git, out) = (task.place.join("git"), task.place.join("out"));
    for directory in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        fs::create_dir_all(git.join(directory))?;
    }
    fs::write(git.join("objects/info/alternates"), format!("{OBJECTS}\n"))?;
    let listed = fs::read(out.join("refs"))?;
    let mut all: Vec<(&str, &str)> = references(&listed).collect();
    all.sort_unstable_by_key(|(_, name)| *name);
    let packed: String = all.iter().map(|(object, name)| format!("{object} {name}\n")).collect();
    fs::write(git.join("packed-refs"), &packed)?;
    let head = fs::read_to_string(out.join("head")).unwrap_or_default();
    let live = task.common.join(&task.own).join("HEAD");
    let branch = pinfold_git::pointer::line(&live, b"ref: refs/heads/")
        .and_then(|it| it.into_os_string().into_string().ok())
        .filter(|it| it.split('/').all(is_component));
    let head = match branch {
        Some(branch) => format!("ref: refs/heads/{branch}\n"),
        None if is_object(head.trim()) => head,
        None => "ref: refs/heads/unknown\n".to_owned(),
    };
    fs::write(git.join("HEAD"), head)?;
    let shallow = fs::read_to_string(out.join("shallow")).unwrap_or_default();
    if !shallow.is_empty() && shallow.lines().all(is_object) {
        fs::write(git.join("shallow"), shallow)?;
    }
    fs::write(task.place.join("gitconfig"), "[safe]\n\tdirectory = *\n")?;
    if let Some(remote) = &task.remote {
        remember(task, &remote.name, &all)?;
    }
    Ok(())
}

/// Makes the remote as this repository knows it.
fn remember(task: &Task, remote: &str, all: &[(&str, &str)]) -> io::Result<()> {
    let known = task.place.join("known");
    for directory in ["objects/info", "refs"] {
        fs::create_dir_all(known.join(directory))?;
    }
    fs::write(known.join("objects/info/alternates"), format!("{OBJECTS}\n"))?;
    let begin = format!("refs/remotes/{remote}/");
    let of_it = all.iter().filter_map(|(object, name)| Some((object, name.strip_prefix(&begin)?)));
    let packed: String =
        of_it.map(|(object, name)| format!("{object} refs/heads/{name}\n")).collect();
    fs::write(known.join("packed-refs"), packed)?;
    fs::write(known.join("HEAD"), "ref: refs/heads/unknown\n")?;
    let format = task.git_settings().filter(|one| one.key == "extensions.objectformat");
    let bare = [setting("core.repositoryformatversion", "1"), setting("core.bare", "true")];
    // What it forbids by itself the real one may allow.
    let more = [setting("receive.denydeletes", "false"), setting("receive.autogc", "false")];
    let settings: Vec<Setting> = format.chain(bare).chain(more).collect();
    fs::write(known.join("config"), write(&settings))
}

/// Returns the references of a list that are taken over, without those whose names are not UTF-8.
fn references(listed: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let lines = listed.split(|byte| *byte == b'\n');
    lines.filter_map(|line| reference(str::from_utf8(line).ok()?))
}

/// Returns the object and name in a line, if that reference is taken over. No command takes over others.
fn reference(line: &str) -> Option<(&str, &str)> {
    let (object, name) = line.split_once(' ')?;
    let kinds = ["refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/"];
    let is_taken = kinds.iter().any(|kind| name.starts_with(kind))
        && name.split('/').all(is_component)
        && !name.ends_with("/HEAD");
    (is_taken && is_object(object)).then_some((object, name))
}

fn setting(key: &str, value: &str) -> Setting {
    Setting { key: key.to_owned(), value: Some(value.into()) }
}

/// Writes the configuration of the git directory, with the remote at this URL.
fn configure(task: &Task, url: Option<&str>, hooks: &str) -> io::Result<()> {
    let mut settings: Vec<Setting> = task.git_settings().collect();
    settings.extend(safe());
    settings.push(setting("core.hookspath", hooks));
    settings.push(setting("core.bare", "true"));
    if login::is_given() {
        settings.extend(login::settings());
    }
    if let (Some(remote), Some(url)) = (&task.remote, url) {
        let key = |name: &str| format!("remote.{}.{name}", remote.name);
        settings.push(setting(&key("url"), url));
        settings.extend(remote.fetch.iter().map(|map| setting(&key("fetch"), map)));
        if url.starts_with('/') {
            settings.push(setting("protocol.file.allow", "always"));
        }
    }
    fs::write(task.place.join("git/config"), write(&settings))
}

fn hook(task: &Task, content: &str) -> io::Result<()> {
    let path = task.place.join("hooks/pre-push");
    fs::write(&path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn preview(task: &Task) -> Result<(), Refusal> {
    let Some(remote) = &task.remote else { return Ok(()) };
    configure(task, Some(KNOWN), HOOKS)?;
    hook(task, NOTE_MOVES)?;
    hand_over(&task.place.join("git"))?;
    hand_over(&task.place.join("known"))?;
    let args = task.args.iter().map(|arg| OsString::from_vec(arg.clone()));
    let mut scratch = Scratch::new(PREVIEW_PUSH, "")
        .arguments(args)
        .place(GIT, &task.place.join("git"), Access::Write)
        .place(KNOWN, &task.place.join("known"), Access::Write)
        .place(HOOKS, &task.place.join("hooks"), Access::Read)
        .place(OUT, &task.place.join("out"), Access::Write)
        .place(OBJECTS, &task.common.join("objects"), Access::Read)
        .place(SYSTEM, &task.place.join("gitconfig"), Access::Read)
        .env("GIT_CONFIG_GLOBAL", SYSTEM)
        .env("GIT_DIR", GIT)
        .env("REMOTE", &remote.name);
    for (inside, host) in &task.borrowed {
        scratch = scratch.place(&inside.to_string_lossy(), host, Access::Read);
    }
    scratch.run()
}

fn pack(task: &Task) -> Result<(), Refusal> {
    let Some(remote) = &task.remote else { return Ok(()) };
    let moved = task.moved(&remote.name)?;
    let wanted: String = moved.values().map(|object| format!("{object}\n")).collect();
    fs::write(task.place.join("out/wanted"), wanted)?;
    let mut scratch = Scratch::new(PACK, "")
        .place(GIT, &task.place.join("git"), Access::Read)
        .place(OUT, &task.place.join("out"), Access::Write)
        .place(OBJECTS, &task.common.join("objects"), Access::Read)
        .env("GIT_DIR", GIT);
    for (inside, host) in &task.borrowed {
        scratch = scratch.place(&inside.to_string_lossy(), host, Access::Read);
    }
    scratch.run()
}

#[cfg(test)]
mod tests {
    use super::references;

    #[test]
    fn a_branch_whose_name_is_not_utf_8_hides_no_other() {
        let object = "0123456789012345678901234567890123456789";
        let listed = [
            format!("{object} refs/heads/").as_bytes(),
            b"caf\xe9\n",
            format!("{object} refs/heads/main\n").as_bytes(),
        ]
        .concat();
        assert_eq!(references(&listed).collect::<Vec<_>>(), [(object, "refs/heads/main")]);
    }
}
