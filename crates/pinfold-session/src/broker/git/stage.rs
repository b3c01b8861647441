//! `pinfold host-git`: the pens of one command, in a process with one thread.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pinfold_boundary::{Entry, Place};
use pinfold_git::config::{Setting, write};
use pinfold_git::refs::{is_component, is_object};
use pinfold_host::directories::Places;
use pinfold_policy::authority::Subject;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{Layers, Settings};
use pinfold_rootfs::scratch::{Access, Pen};
use pinfold_rootfs::userland;
use pinfold_workspace::guard::hand_over;
use pinfold_workspace::known::safe;
use pinfold_workspace::workspace::Workspace;

use super::helper;
use super::remote::Way;
use super::task::Task;
use super::words::Doing;
use crate::caller_trust::CallerTrust;
use crate::door;
use crate::outcome::{Outcome, RunError};
use crate::run::{Request, run};
use crate::ssh::Ssh;
use crate::timeline::Timeline;

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

/// What the references of the inside's repository name. Its configuration is live here, and nothing
/// else is: what this says is taken as data.
const REFERENCES: &str = "set -e
git for-each-ref --format='%(objectname) %(refname)' >/q/out/refs
git rev-parse -q --verify HEAD^0 >/q/out/head || :
shallow=$(git rev-parse --git-path shallow) && if [ -f \"$shallow\" ]; then cat \"$shallow\"; fi >/q/out/shallow";

/// Pushes to the remote as this repository knows it, for show; then packs what would go, and lists
/// its commits from where their bytes are hashed anew.
const PUSH: &str = "set -e
shift 2
git push --dry-run \"$@\" >/q/out/said 2>&1 || { cat /q/out/said >&2; exit 1; }
[ -f /q/out/moves ] || : >/q/out/moves
: >/q/out/forced
while read -r from new to old; do
  case $new in *[!0]*) echo \"$new\";; esac
  case $old in *[!0]*) echo \"^$old\"
    case $new in *[!0]*)
      git merge-base --is-ancestor \"$old\" \"$new\" || echo \"$to\" >>/q/out/forced;; esac;; esac
done </q/out/moves >/tmp/tips
if ! grep -q '^^' /tmp/tips; then
  git for-each-ref --format='^%(objectname)' \"refs/remotes/$REMOTE/\" >>/tmp/tips
  : >/q/out/unproven
fi
git pack-objects -q --revs --stdout </tmp/tips >/tmp/pack
git init -q --bare --object-format=\"$(git rev-parse --show-object-format)\" /tmp/new
: >/q/out/commits
: >/q/out/ids
if [ \"$(wc -c </tmp/pack)\" -gt 32 ]; then
  cd /tmp/new
  unset GIT_DIR
  git index-pack --stdin </tmp/pack >/dev/null
  git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' |
    sed -n 's/^commit //p' >/q/out/ids
  if [ -s /q/out/ids ]; then
    git log --no-walk --no-show-signature --no-decorate --no-notes --encoding=UTF-8 \
      --format='%h %s (%an)' --stdin </q/out/ids >/q/out/commits
  fi
fi";

/// Lets pass what was shown, and nothing else (githooks(5), "pre-push"). Where only new references are
/// made, what the remote has already is what this repository says; so the remote is asked itself.
const CHECK: &str = "#!/bin/sh
refuse() {
  echo 'pinfold: the remote is not where this repository has it, so this is not what was shown:' >&2
  echo \"pinfold: $1\" >&2
  echo 'hint: fetch first, then push again' >&2
  exit 1
}
while read -r line; do
  grep -qxF -e \"$line\" /q/approved || refuse \"$line\"
  new=${line#* }
  echo \"${new%% *}\" >>/tmp/new
done
if [ -e /q/unproven ] && [ -s /tmp/new ]; then
  git ls-remote \"$2\" >/tmp/there || exit 1
  sed 's/[^0-9a-f].*//' /tmp/there | git cat-file --batch-check='%(objectname)' |
    sed -n 's/^[0-9a-f]*$/^&/p' >/tmp/known
  cat /tmp/new /tmp/known | git rev-list --stdin >/tmp/sent || exit 1
  while read -r commit; do
    grep -qxF -e \"$commit\" /q/ids || refuse \"it lacks commit $commit\"
  done </tmp/sent
fi
";
const NOTE: &str = "#!/bin/sh\ncat >/q/out/moves\n";

/// Packs what a fetch has brought.
const PACK: &str = "set -e
{ cat /q/out/wanted; sed 's/ .*//; s/^/^/' /q/out/refs; } |
git pack-objects -q --revs --thin --stdout >/q/out/pack";

impl Stage {
    /// Does its part of the command whose files lie at `place`. For [`Self::Run`] it gives how git
    /// ended.
    ///
    /// # Errors
    /// What went wrong, in words that name no way out of a pen.
    pub fn run(self, place: &Path, places: Places) -> Result<Option<Outcome>, RunError> {
        let task = Task::read(place).map_err(RunError::System)?;
        let said = |what: String| RunError::refused(what, None);
        match self {
            Self::Look => {
                look(&task).map_err(said)?;
                Ok(None)
            }
            Self::Run => execute(&task, places).map(Some),
            Self::Pack => {
                pack(&task).map_err(said)?;
                Ok(None)
            }
        }
    }
}

fn look(task: &Task) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    let out = task.place.join("out");
    hand_over(&out).map_err(words)?;
    let own = Path::new(LIVE).join(&task.own);
    let mut pen = Pen::new(REFERENCES, "")
        .place(LIVE, &task.common, Access::Read)
        .place(OUT, &out, Access::Write)
        .env("GIT_DIR", own)
        .env("GIT_WORK_TREE", "/tmp");
    for (inside, host) in &task.borrowed {
        pen = pen.place(&inside.to_string_lossy(), host, Access::Read);
    }
    pen.run()?;
    make(task).map_err(words)?;
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
    let branch = pinfold_git::pointer::line(&live, b"ref: refs/heads/");
    let branch = branch.and_then(|it| it.into_os_string().into_string().ok());
    let branch = branch.filter(|it| it.split('/').all(is_component));
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

/// A reference that is taken over: what the inside names otherwise is none of a command's.
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
    if helper::is_given() {
        settings.extend(helper::settings());
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

fn preview(task: &Task) -> Result<(), String> {
    let Some(remote) = &task.remote else { return Ok(()) };
    let words = |error: io::Error| error.to_string();
    configure(task, Some(KNOWN), HOOKS).map_err(words)?;
    hook(task, NOTE).map_err(words)?;
    hand_over(&task.place.join("git")).map_err(words)?;
    hand_over(&task.place.join("known")).map_err(words)?;
    let args = task.args.iter().map(|arg| OsString::from_vec(arg.clone()));
    let mut pen = Pen::new(PUSH, "")
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
        pen = pen.place(&inside.to_string_lossy(), host, Access::Read);
    }
    pen.run()
}

fn pack(task: &Task) -> Result<(), String> {
    let Some(remote) = &task.remote else { return Ok(()) };
    let words = |error: io::Error| error.to_string();
    let moved = task.moved(&remote.name).map_err(words)?;
    let wanted: String = moved.values().map(|object| format!("{object}\n")).collect();
    fs::write(task.place.join("out/wanted"), wanted).map_err(words)?;
    let mut pen = Pen::new(PACK, "")
        .place(GIT, &task.place.join("git"), Access::Read)
        .place(OUT, &task.place.join("out"), Access::Write)
        .place(OBJECTS, &task.common.join("objects"), Access::Read)
        .env("GIT_DIR", GIT);
    for (inside, host) in &task.borrowed {
        pen = pen.place(&inside.to_string_lossy(), host, Access::Read);
    }
    pen.run()
}

/// Runs the command itself, with the remote's host in reach and nothing of the inside's but objects.
fn execute(task: &Task, places: Places) -> Result<Outcome, RunError> {
    let url = task.remote.as_ref().map(|remote| match &remote.way {
        Way::Here(path) => path.to_string_lossy().into_owned(),
        Way::Host { .. } => remote.url.clone(),
    });
    let hooks = if task.doing == Doing::Push { HOOKS } else { "/dev/null" };
    configure(task, url.as_deref(), hooks).map_err(RunError::System)?;
    hook(task, CHECK).map_err(RunError::System)?;
    hand_over(&task.place.join("git")).map_err(RunError::System)?;
    let mut settings = Settings::resolve(Layers::default()).map_err(RunError::settings)?;
    if let Some(remote) = &task.remote {
        remote.open(&mut settings)?;
    }
    let ssh = Ssh::find(&settings, None, &places)?;
    let places = match helper::is_given() {
        true => helper::places(places, &task.place)?,
        false => places,
    };
    let mut argv = vec![OsString::from("git")];
    argv.extend(task.args.iter().map(|arg| OsString::from_vec(arg.clone())));
    let root = HostPath::new("/tmp").map_err(RunError::path)?;
    run(Request {
        subject: Subject::AgentSession { agent: "host-exec".into() },
        argv,
        env: environment(ssh.is_some()),
        settings,
        workspace: Workspace::scratch(root),
        stack: None,
        extra: Vec::new(),
        files: entries(task)?,
        my_config: None,
        provider: None,
        ssh,
        nested: false,
        silent_hosts: Vec::new(),
        caller_trust: CallerTrust::default(),
        bound: None,
        attended: false,
        places,
        name: None,
        background: None,
        window: None,
        timeline: Timeline::default(),
    })
}

fn environment(has_ssh: bool) -> Vec<(OsString, OsString)> {
    let ssh = has_ssh.then(Ssh::environment);
    let proxy = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    [
        ("PATH", userland::PATH),
        ("HOME", userland::HOME),
        ("GIT_DIR", GIT),
        ("GIT_CONFIG_SYSTEM", SYSTEM),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("LC_ALL", "C.UTF-8"),
        ("NO_PROXY", door::NO_PROXY),
        ("no_proxy", door::NO_PROXY),
    ]
    .into_iter()
    .chain(proxy.map(|name| (name, door::PROXY_URL)))
    .chain(ssh)
    .map(|(name, value)| (name, value.to_owned()))
    .chain(crate::trust::environment())
    .map(|(name, value)| (name.into(), value.into()))
    .chain(helper::user())
    .collect()
}

fn entries(task: &Task) -> Result<Vec<Entry>, RunError> {
    let entry = |path: &Path, host: &Path, access| -> Result<Entry, RunError> {
        let host = fs::canonicalize(host).map_err(RunError::System)?;
        let host = HostPath::new(host).map_err(RunError::path)?;
        let place = match access {
            Access::Read => Place::ReadOnly(host),
            Access::Write => Place::Writable(host),
        };
        Ok(Entry { path: InsidePath::new(path).map_err(RunError::path)?, place })
    };
    // A look must not seem to change what it cannot.
    let own = if task.doing == Doing::Look { Access::Read } else { Access::Write };
    let mut entries = vec![
        entry(Path::new(GIT), &task.place.join("git"), own)?,
        entry(Path::new(OBJECTS), &task.common.join("objects"), Access::Read)?,
        entry(Path::new(HOOKS), &task.place.join("hooks"), Access::Read)?,
        entry(Path::new(SYSTEM), &task.place.join("gitconfig"), Access::Read)?,
    ];
    if task.doing == Doing::Push {
        entries.push(entry(Path::new(APPROVED), &task.place.join("approved"), Access::Read)?);
        entries.push(entry(Path::new(IDS), &task.place.join("ids"), Access::Read)?);
        if task.place.join("unproven").exists() {
            entries.push(entry(Path::new(UNPROVEN), &task.place.join("unproven"), Access::Read)?);
        }
    }
    for (inside, host) in &task.borrowed {
        entries.push(entry(inside, host, Access::Read)?);
    }
    if let Some(Way::Here(path)) = task.remote.as_ref().map(|remote| &remote.way) {
        let access = if task.doing == Doing::Push { Access::Write } else { Access::Read };
        entries.push(entry(path, path, access)?);
    }
    Ok(entries)
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
