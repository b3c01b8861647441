//! The command itself, in a session that reaches the remote's host and nothing else.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use pinfold_boundary::ownership::hand_over;
use pinfold_boundary::{Entry, Place};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_hostexec::git::{Doing, ID, Key, Login, PASSWORD, Remote, Task, Way};
use pinfold_policy::authority::Subject;
use pinfold_policy::network::{NetworkRule, SecretRule, Spots};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{Layers, Settings};
use pinfold_policy::ssh::{SshHostRule, SshKey, SshSettings};
use pinfold_rootfs::scratch::Access;
use pinfold_rootfs::userland;
use pinfold_worktree::workspace::Workspace;

use super::{
    APPROVED, CHECK_MOVES, GIT, HOOKS, IDS, OBJECTS, SYSTEM, UNPROVEN, configure, hook, login,
};
use crate::doors;
use crate::doors::ssh::Ssh;
use crate::outcome::{Outcome, RunError};
use crate::request::Request;
use crate::run::run;

/// Runs the command itself, with the remote's host in reach and nothing of the sandbox's but
/// objects.
pub(super) fn execute(
    task: &Task,
    places: Places,
    launcher: Launcher,
) -> Result<Outcome, RunError> {
    let url = task.remote.as_ref().map(|remote| match &remote.way {
        Way::Here(path) => path.to_string_lossy().into_owned(),
        Way::Host { .. } => remote.url.clone(),
    });
    let hooks = if task.doing == Doing::Push { HOOKS } else { "/dev/null" };
    configure(task, url.as_deref(), hooks).map_err(RunError::System)?;
    hook(task, CHECK_MOVES).map_err(RunError::System)?;
    hand_over(&task.place.join("git")).map_err(RunError::System)?;
    let mut settings = Settings::resolve(Layers::default()).map_err(RunError::settings)?;
    if let Some(remote) = &task.remote {
        open(remote, &mut settings)?;
    }
    let ssh = Ssh::find(&settings, None, &places)?;
    let places =
        if login::is_given() { login::places(places, &task.place, &launcher)? } else { places };
    let mut argv = vec![OsString::from("git")];
    argv.extend(task.args.iter().map(|arg| OsString::from_vec(arg.clone())));
    let root = HostPath::new("/tmp").map_err(RunError::path)?;
    let subject = Subject::AgentSession { agent: "host-exec".into() };
    let (env, files) = (environment(ssh.is_some()), entries(task)?);
    let workspace = Workspace::scratch(root);
    let plain = Request::plain(subject, argv, env, settings, workspace, places, launcher);
    run(Request { files, ssh, ..plain })
}

/// Opens the way to a remote, and to nothing else, in a session's settings.
///
/// # Errors
/// Returns no error: all of it was read from settings before.
fn open(remote: &Remote, settings: &mut Settings) -> Result<(), RunError> {
    let Way::Host { rule, is_internal, login } = &remote.way else { return Ok(()) };
    let refused = |error: &dyn std::fmt::Display| RunError::refused(error, None);
    let rule: NetworkRule = rule.parse().map_err(|error| refused(&error))?;
    settings.network.allow.push(Valued::new(rule.clone(), Origin::Default));
    if *is_internal {
        settings.network.internal.push(Valued::new(rule, Origin::Default));
    }
    let mut place = |id: &str, env: &str, host: &str, port| -> Result<(), RunError> {
        let secret = SecretRule {
            id: id.to_owned(),
            env: env.parse().map_err(|error| refused(&error))?,
            hosts: vec![host.parse().map_err(|error| refused(&error))?],
            ports: vec![port],
            spots: Spots::BASIC,
            required: true,
        };
        settings.secrets.push(Valued::new(secret, Origin::Default));
        Ok(())
    };
    match login {
        Login::None => {}
        Login::Secret { id, env, host, port } => place(id, env, host, *port)?,
        // Without one that is known, a remote that is open to everybody can be fetched from.
        Login::Helper { host, port } if login::is_given() => {
            place(ID, PASSWORD, host, *port)?;
        }
        Login::Helper { .. } => {}
        Login::Ssh { key, host, port, user, known, hostbound } => {
            let key = match key {
                Key::File(path) => SshKey::File(HostPath::new(path).map_err(RunError::path)?),
                Key::Agent(public) => SshKey::Agent(public.clone()),
            };
            let host = SshHostRule {
                host: host.parse().map_err(|error| refused(&error))?,
                port: *port,
                user: user.clone(),
                known: known.clone(),
                hostbound: *hostbound,
            };
            let (key, host) = (Valued::default_of(key), Valued::default_of(host));
            settings.ssh = SshSettings { key: Some(key), hosts: vec![host] };
        }
    }
    Ok(())
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
        ("NO_PROXY", doors::NO_PROXY),
        ("no_proxy", doors::NO_PROXY),
    ]
    .into_iter()
    .chain(proxy.map(|name| (name, doors::PROXY_URL)))
    .chain(ssh)
    .map(|(name, value)| (name, value.to_owned()))
    .chain(crate::doors::certificates::environment())
    .map(|(name, value)| (name.into(), value.into()))
    .chain(login::user())
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
