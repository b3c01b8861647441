//! The machine: its files, accounts and programs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pinfold_runner::Refusal;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Directories of an administrator's programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Locked by a set-up. It is empty, and gone with the next boot.
const LOCK: &str = "/run/pinfold-setup.lock";

/// A machine, or in tests a directory that is laid out as one.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub fn this() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// Returns a directory that is laid out as a machine. Programs that are found in it get its path as `ROOT`.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns where a file of the machine lies.
    pub(crate) fn at_path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Keeps other set-ups from changing the machine until the value is dropped. What is planned is out of date once another
    /// one has changed something.
    ///
    /// # Errors
    /// Returns that another one does, or the error of `open(2)`.
    pub fn lock(&self) -> Result<File, Refusal> {
        let path = self.at_path(Path::new(LOCK));
        let failed = |error: io::Error| Refusal::plain(format!("cannot lock {LOCK}: {error}"));
        // Nobody but root makes or opens it.
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => Err(Refusal::new(
                "another `pinfold setup` changes this machine",
                "start it again once that one has ended",
            )),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Returns the content of a file, if there is one.
    ///
    /// # Errors
    /// Returns the error of reading it.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Refusal> {
        match std::fs::read(self.at_path(path)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Refusal::plain(format!("{}: {error}", path.display()))),
        }
    }

    /// Returns whether anything is at a path, a link that leads nowhere among it.
    pub(crate) fn has(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(self.at_path(path)).is_ok()
    }

    /// Returns whether a group has a member, beyond those whose primary group it is.
    pub(crate) fn is_member(&self, user: &str, group: &str) -> Result<bool, Refusal> {
        let fields = self.entry("group", group)?;
        let members = fields.and_then(|fields| fields.get(3).cloned()).unwrap_or_default();
        Ok(members.split(',').any(|member| member == user))
    }

    /// Returns whether there is a group.
    pub(crate) fn has_group(&self, name: &str) -> Result<bool, Refusal> {
        Ok(self.entry("group", name)?.is_some())
    }

    /// Returns whether there is a user.
    pub(crate) fn has_user(&self, name: &str) -> Result<bool, Refusal> {
        Ok(self.entry("passwd", name)?.is_some())
    }

    /// Returns whose the machine is: root's.
    ///
    /// # Errors
    /// Returns the error of looking at its root directory.
    pub(crate) fn owner(&self) -> Result<u32, Refusal> {
        let found = std::fs::metadata(&self.root).map_err(Refusal::plain)?;
        Ok(std::os::unix::fs::MetadataExt::uid(&found))
    }

    /// Returns the shell of a user.
    ///
    /// # Errors
    /// Returns that the accounts cannot be read.
    pub(crate) fn shell(&self, user: &str) -> Result<String, Refusal> {
        let fields = self.entry("passwd", user)?.unwrap_or_default();
        Ok(fields.get(6).cloned().unwrap_or_default())
    }

    /// Returns the ids of a user and of its primary group.
    ///
    /// # Errors
    /// Returns that there is no such user.
    pub(crate) fn ids(&self, user: &str) -> Result<(u32, u32), Refusal> {
        let fields = self.entry("passwd", user)?.unwrap_or_default();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
        number(2).zip(number(3)).ok_or_else(|| Refusal::plain(format!("there is no user {user}")))
    }

    /// Returns the fields of an entry of a database of accounts (getent(1)).
    fn entry(&self, database: &str, key: &str) -> Result<Option<Vec<String>>, Refusal> {
        let mut getent = self.command(&["getent", "--", database, key])?;
        let output = getent.stdin(Stdio::null()).output().map_err(|error| {
            Refusal::new(
                format!("cannot start getent: {error}"),
                "it is part of the C library's package",
            )
        })?;
        // Its status 2: no such entry.
        match output.status.code() {
            Some(0) => {}
            Some(2) => return Ok(None),
            _ => return Err(Refusal::plain(format!("getent {database} {key}: {}", output.status))),
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().next().unwrap_or_default();
        Ok(Some(line.split(':').map(str::to_owned).collect()))
    }

    /// Returns the version of systemd; 0 if it is not the error of `systemctl(1)` first.
    ///
    /// # Errors
    /// Returns that systemctl cannot be run.
    pub(crate) fn systemd_version(&self) -> Result<u32, Refusal> {
        let said = self.run(&["systemctl", "--version"])?;
        Ok(said.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0))
    }

    /// Returns whether a unit of systemd is started.
    pub(crate) fn is_active(&self, unit: &str) -> bool {
        self.run(&["systemctl", "is-active", "--quiet", unit]).is_ok()
    }

    /// Returns whether a unit of systemd starts at boot.
    pub(crate) fn is_enabled(&self, unit: &str) -> bool {
        self.run(&["systemctl", "is-enabled", "--quiet", unit]).is_ok()
    }

    /// Runs a program.
    ///
    /// # Errors
    /// Returns what it wrote to standard error if it failed.
    pub(crate) fn run(&self, argv: &[&str]) -> Result<String, Refusal> {
        let failed = |why: &str| Refusal::plain(format!("`{}` failed: {why}", argv.join(" ")));
        let mut command = self.command(argv)?;
        let output =
            command.stdin(Stdio::null()).output().map_err(|error| failed(&error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
        Err(failed(&last.unwrap_or_else(|| output.status.to_string())))
    }

    /// Returns a program of the administrator's directories, with nothing of the caller's environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "an administrator's set-up has no launcher: programs of the system by their names"
    )]
    fn command(&self, argv: &[&str]) -> Result<Command, Refusal> {
        let (name, rest) = argv.split_first().ok_or_else(|| Refusal::plain("no program"))?;
        let mut places = PATH.split(':').map(|place| self.at_path(Path::new(place)).join(name));
        let program = places
            .find(|program| program.is_file())
            .ok_or_else(|| Refusal::plain(format!("{name} is not installed")))?;
        let mut command = Command::new(program);
        command.args(rest).env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8").current_dir("/");
        if self.root != Path::new("/") {
            command.env("ROOT", &self.root);
        }
        Ok(command)
    }
}
