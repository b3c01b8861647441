//! Setting a machine up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pinfold_runner::accounts::is_name;
use pinfold_runner::{Refusal, installed, policy};

use crate::Plan;
use crate::machine::Machine;
use crate::policy::PolicyFile;
use crate::prepared;
use crate::record::{Made, Record};
use crate::step::Step;

/// The longest name that useradd(8) takes.
const LONGEST_NAME: usize = 32;
/// Users of this group may talk to the runner.
pub(crate) const GROUP: &str = "pinfold";
/// The unit that listens for them.
pub(crate) const SOCKET: &str = "pinfold-runner.socket";
/// Where systemd has an administrator's units.
const UNITS: &str = "/etc/systemd/system";
/// Where systemd has the units of packages.
const PACKAGED_UNITS: &str = "/usr/lib/systemd/system";
/// Where the runner lies, as its unit says.
pub const RUNNER: &str = "/usr/libexec/pinfold/pinfold-runner";
/// Where pinfold lies if no package has installed it.
pub(crate) const PROGRAM: &str = "/usr/libexec/pinfold/pinfold";
/// Its name for users.
const COMMAND: &str = "/usr/local/bin/pinfold";
/// The rules of sudo.
pub(crate) const RULES: &str = "/etc/sudoers.d/pinfold";
/// The first version of systemd with `PrivatePIDs`.
const HIDES_PROCESSES: u32 = 257;
/// Where an agent's wrapper lies.
const WRAPPERS: &str = "/usr/local/bin";

pub(crate) const FILES: [(&str, &str); 2] = [
    (SOCKET, include_str!("../../../packaging/systemd/pinfold-runner.socket")),
    ("pinfold-runner.service", include_str!("../../../packaging/systemd/pinfold-runner.service")),
];

/// What an administrator asks for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The user that sessions run as; those of a second host user have one of a longer name. Otherwise that of the
    /// policy, or `pinfold-agent`.
    pub user: Option<String>,
    /// The directory of what these users keep. Otherwise that of the policy, or one below `/var/lib`.
    pub state_dir: Option<PathBuf>,
    /// Who may start sessions, each with directories, `~` for the home. Host users that the policy has besides stay.
    pub host_users: BTreeMap<String, Vec<String>>,
    /// Whether sudo may start the runner, too.
    pub sudo: bool,
    /// Agents whose names on this machine start a session.
    pub wrappers: Vec<String>,
    /// The executable that was started.
    pub program: PathBuf,
    /// The runner's, to be installed.
    pub runner: PathBuf,
}

/// Returns what is left to do so that a machine is as wanted.
///
/// # Errors
/// Returns what keeps it from being so, before anything is changed.
pub fn install(wanted: &Wanted, machine: &Machine) -> Result<Plan, Refusal> {
    if !machine.has(Path::new("/run/systemd/system")) {
        return Err(Refusal::new(
            "this machine is not run by systemd",
            "`pinfold doctor` shows the boundaries that work here",
        ));
    }
    let mut planned =
        Planned { machine, steps: Vec::new(), record: Record::read(machine)?.unwrap_or_default() };
    let policy = planned.policy(wanted)?;
    let host_users = policy.host_users();
    for (name, _) in &host_users {
        if !machine.has_user(name)? {
            return Err(Refusal::new(
                format!("there is no user {name} on this machine"),
                "check the names after --for",
            ));
        }
    }
    planned.prepared(&policy, &host_users, wanted.sudo)?;
    planned.accounts(&policy, &host_users)?;
    planned.programs(wanted)?;
    planned.files(&policy, &host_users)?;
    planned.wrappers(&wanted.wrappers)?;
    if wanted.sudo {
        planned.rules(&host_users)?;
    }
    planned.units()?;
    let Planned { steps, record, .. } = planned;
    Ok(Plan { steps, record: Some(Record { is_unfinished: true, ..record }) })
}

/// A plan in the making.
struct Planned<'m> {
    machine: &'m Machine,
    steps: Vec<Step>,
    record: Record,
}

impl Planned<'_> {
    fn make(&mut self, made: Made, step: Step) {
        self.record.add(made);
        self.steps.push(step);
    }

    /// Returns the policy as it is to be.
    fn policy(&self, wanted: &Wanted) -> Result<PolicyFile, Refusal> {
        let mut policy = match PolicyFile::read(self.machine)? {
            Some(policy) => {
                let differs = wanted.user.as_ref().is_some_and(|user| user != policy.user())
                    || wanted.state_dir.as_ref().is_some_and(|path| *path != policy.state_dir());
                if differs {
                    return Err(Refusal::new(
                        format!(
                            "{} has the user {} with the directory {}",
                            policy::PATH,
                            policy.user(),
                            policy.state_dir().display()
                        ),
                        "`pinfold setup systemd --remove` first, to choose others",
                    ));
                }
                policy
            }
            None if wanted.host_users.is_empty() => {
                return Err(Refusal::new(
                    "nobody may start sessions yet",
                    "say who, and where: `pinfold setup systemd --for 'alice=~/work'`",
                ));
            }
            None => {
                let user = wanted.user.as_deref().unwrap_or("pinfold-agent");
                if !is_name(user) {
                    return Err(Refusal::plain(format!("{user:?} is no name of a user")));
                }
                let usual = Path::new("/var/lib").join(user);
                PolicyFile::new(
                    user,
                    wanted.state_dir.as_deref().unwrap_or(&usual),
                    &wanted.program,
                )
            }
        };
        policy.set_program(&self.program(wanted));
        policy.set_roots(&wanted.host_users);
        if self.machine.systemd_version()? >= HIDES_PROCESSES {
            policy.hide_processes();
        }
        policy.text()?;
        Ok(policy)
    }

    /// Checks what is there already of what this writes to or uses.
    fn prepared(
        &self,
        policy: &PolicyFile,
        host_users: &[(String, Vec<String>)],
        sudo: bool,
    ) -> Result<(), Refusal> {
        let above = |path: &str| Path::new(path).parent().map(Path::to_owned);
        let written = [Some(policy::PATH), Some(RUNNER), sudo.then_some(RULES)]
            .into_iter()
            .flatten()
            .filter_map(above);
        let users = policy.state_dir().join("users");
        for directory in written.chain([PathBuf::from(UNITS), users.clone()]) {
            prepared::check_directory(self.machine, &directory)?;
        }
        for (user, _) in host_users {
            let name = policy.service(user);
            let is_made = self.record.made.contains(&Made::User(name.to_owned()));
            if !is_made && self.machine.has_user(name)? {
                prepared::check_account(self.machine, name, host_users)?;
            }
            prepared::check_private(self.machine, &users.join(user), name)?;
        }
        Ok(())
    }

    /// Returns where pinfold is to lie: where it is if nobody but root can change it there.
    fn program(&self, wanted: &Wanted) -> PathBuf {
        if installed::open(&wanted.program).is_ok() {
            wanted.program.clone()
        } else {
            PROGRAM.into()
        }
    }

    fn accounts(
        &mut self,
        policy: &PolicyFile,
        host_users: &[(String, Vec<String>)],
    ) -> Result<(), Refusal> {
        if !self.machine.has_group(GROUP)? {
            self.make(Made::Group(GROUP.to_owned()), Step::AddGroup(GROUP.to_owned()));
        }
        let state = policy.state_dir();
        // Root's, so that what a caller has a service user do finds no way into another one's.
        self.directory(&state, "root");
        self.directory(&state.join("users"), "root");
        for (user, _) in host_users {
            let (name, home) = (policy.service(user), state.join("users").join(user));
            self.service(name, &home)?;
            self.directory(&home, name);
            if !self.machine.is_member(user, GROUP)? {
                let (user, group) = (user.clone(), GROUP.to_owned());
                self.make(Made::Member(user.clone(), group.clone()), Step::Join { user, group });
            }
        }
        Ok(())
    }

    /// Plans a user that sessions run as.
    fn service(&mut self, name: &str, home: &Path) -> Result<(), Refusal> {
        if self.machine.has_user(name)? {
            return Ok(());
        }
        if name.len() > LONGEST_NAME {
            return Err(Refusal::new(
                format!("{name} is too long for the name of a user"),
                format!(
                    "give the host user a shorter `user` in {}, or choose a shorter --user",
                    policy::PATH
                ),
            ));
        }
        if !self.machine.has_group(name)? {
            self.make(Made::Group(name.to_owned()), Step::AddGroup(name.to_owned()));
        }
        let step = Step::AddUser { name: name.to_owned(), home: home.to_owned() };
        self.make(Made::User(name.to_owned()), step);
        Ok(())
    }

    fn directory(&mut self, path: &Path, owner: &str) {
        if !self.machine.has(path) {
            let step = Step::MakeDirectory { path: path.to_owned(), owner: owner.to_owned() };
            self.make(Made::Directory(path.to_owned()), step);
        }
    }

    /// Plans the runner, and pinfold itself where others than root could replace it.
    fn programs(&mut self, wanted: &Wanted) -> Result<(), Refusal> {
        self.copy(&wanted.runner, Path::new(RUNNER))?;
        if self.program(wanted) != wanted.program {
            self.copy(&wanted.program, Path::new(PROGRAM))?;
            let (path, to) = (PathBuf::from(COMMAND), PathBuf::from(PROGRAM));
            if !self.machine.has(&path) {
                self.make(Made::File(path.clone()), Step::Link { path, to });
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &Path, to: &Path) -> Result<(), Refusal> {
        let there = self.machine.read(to)?;
        if from == to && there.is_some() {
            return Ok(());
        }
        let content = std::fs::read(from).map_err(|error| {
            Refusal::new(
                format!("{}: {error}", from.display()),
                "`cargo build --release --package pinfold-runner` builds the runner next to pinfold",
            )
        })?;
        if there.as_deref() != Some(content.as_slice()) {
            let step = Step::Install { from: from.to_owned(), to: to.to_owned() };
            self.make(Made::File(to.to_owned()), step);
        }
        Ok(())
    }

    fn write(
        &mut self,
        path: PathBuf,
        content: Vec<u8>,
        mode: u32,
        what: &str,
    ) -> Result<bool, Refusal> {
        if self.machine.read(&path)?.as_deref() == Some(content.as_slice()) {
            return Ok(false);
        }
        let what = what.to_owned();
        self.make(Made::File(path.clone()), Step::Write { path, content, mode, what });
        Ok(true)
    }

    /// Plans the policy, and systemd's units.
    fn files(
        &mut self,
        policy: &PolicyFile,
        host_users: &[(String, Vec<String>)],
    ) -> Result<(), Refusal> {
        let may =
            |(name, roots): &(String, Vec<String>)| format!("{name} may use {}", roots.join(", "));
        let what = host_users.iter().map(may).collect::<Vec<_>>().join("; ");
        self.write(policy::PATH.into(), policy.text()?, 0o644, &what)?;
        // A set-up that was interrupted may have written a unit that systemd has not read.
        let mut is_changed = self.record.is_unfinished;
        for (name, text) in FILES {
            let path = Path::new(UNITS).join(name);
            let packaged = self.machine.read(&Path::new(PACKAGED_UNITS).join(name))?;
            if packaged.as_deref() == Some(text.as_bytes()) && !self.machine.has(&path) {
                continue;
            }
            is_changed |= self.write(path, text.as_bytes().to_vec(), 0o644, "a unit of systemd")?;
        }
        if is_changed {
            self.steps.push(Step::run(&["systemctl", "daemon-reload"]));
        }
        Ok(())
    }

    fn wrappers(&mut self, agents: &[String]) -> Result<(), Refusal> {
        for agent in agents {
            if !is_name(agent) {
                return Err(Refusal::plain(format!("{agent:?} is no name of an agent")));
            }
            let path = Path::new(WRAPPERS).join(agent);
            let content = wrapper(agent).into_bytes();
            let made = Made::File(path.clone());
            if self.machine.has(&path) && !self.record.made.contains(&made) {
                return Err(Refusal::new(
                    format!("{} is there already, and no set-up made it", path.display()),
                    format!("move it away, or leave out --wrapper {agent}"),
                ));
            }
            self.write(path, content, 0o755, &format!("`{agent}` starts a session"))?;
        }
        Ok(())
    }

    fn rules(&mut self, host_users: &[(String, Vec<String>)]) -> Result<(), Refusal> {
        let content = rules(host_users.iter().map(|(name, _)| name.as_str())).into_bytes();
        let path = PathBuf::from(RULES);
        if self.machine.read(&path)?.as_deref() != Some(content.as_slice()) {
            self.make(Made::File(path.clone()), Step::WriteRules { path, content });
        }
        Ok(())
    }

    fn units(&mut self) -> Result<(), Refusal> {
        let (is_active, is_enabled) =
            (self.machine.is_active(SOCKET), self.machine.is_enabled(SOCKET));
        // The runner that listens goes on as it was started until then.
        let is_its = |step: &Step| match step {
            Step::Write { path, .. } => path.starts_with(UNITS),
            Step::Install { to, .. } => to == Path::new(RUNNER),
            _ => false,
        };
        let is_changed = self.record.is_unfinished || self.steps.iter().any(is_its);
        if !is_enabled {
            self.make(
                Made::Unit(SOCKET.to_owned()),
                Step::run(&["systemctl", "enable", "--now", SOCKET]),
            );
        } else if !is_active || is_changed {
            self.make(Made::Unit(SOCKET.to_owned()), Step::run(&["systemctl", "restart", SOCKET]));
        }
        Ok(())
    }
}

/// Returns what lies under an agent's name on the machine. Its users can run any other program: it is
/// for convenience.
fn wrapper(agent: &str) -> String {
    format!("#!/bin/sh\nexec pinfold run --boundary systemd {agent} -- \"$@\"\n")
}

/// Returns the rules by which host users start the runner with sudo. It reads neither arguments nor the
/// environment.
fn rules<'u>(users: impl Iterator<Item = &'u str>) -> String {
    let mut text = format!(
        "# Written by `pinfold setup systemd`.\n\
         Defaults!{RUNNER} env_reset, !setenv, !env_keep, secure_path=\"/usr/sbin:/usr/bin\", \
         umask=0077, umask_override\n"
    );
    for user in users {
        text.push_str(&format!("{user} ALL=(root:root) NOPASSWD: NOSETENV: {RUNNER} \"\"\n"));
    }
    text
}
