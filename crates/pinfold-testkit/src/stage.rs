//! A user's temporary home and workspace.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::machine::{NESTED, VM};
use crate::podman::{OWN_LOCKS, end_podman};
use crate::processes::processes_of;
use crate::{User, engine, executable, machine_settings};

/// Where a user's settings are, in a stage.
const SETTINGS: &str = "home/.config/pinfold/config.toml";
/// What the ordinary user's Podman is set up by, in a stage.
const PODMAN: &str = "containers.conf";
/// The boundary that a plug-in makes,
const EXTERNAL: &str = "external";
/// and the plug-in.
const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/boundaries/runc.py");

/// A home, a workspace and a directory for temporary files, all owned by one user.
///
/// The directories are removed when the value is dropped.
#[derive(Debug)]
pub struct Stage {
    /// The user who owns the directories.
    pub user: User,
    base: TempDir,
}

impl Stage {
    /// Creates the directories `home`, `ws`, `tmp`, `readable`, `writable` and `other`.
    #[must_use]
    pub fn new(user: User) -> Self {
        // Short: podman removes no container whose run root (…/tmp/podman-run-UID/containers) has over 50
        // characters.
        let base = tempfile::Builder::new().prefix("pf-").tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Self { user, base };
        stage.own(stage.base());
        for name in ["home", "ws", "tmp", "readable", "writable", "other"] {
            let path = stage.base().join(name);
            fs::create_dir(&path).unwrap();
            stage.own(&path);
        }
        if engine().is_some_and(|engine| [EXTERNAL, VM].contains(&engine.as_str())) {
            stage.write(SETTINGS, "");
        }
        if stage.has_own_podman() {
            stage.write(PODMAN, OWN_LOCKS);
        }
        stage
    }

    /// Returns the user's settings, where a plug-in or a machine is the boundary that is tried.
    fn settings(text: &[u8]) -> Vec<u8> {
        match engine() {
            Some(engine) if engine == EXTERNAL => {
                let plugin = fs::canonicalize(PLUGIN).unwrap();
                [format!("plugin = \"{}\"\n", plugin.display()).as_bytes(), text].concat()
            }
            Some(engine) if engine == VM => [machine_settings().as_bytes(), text].concat(),
            _ => text.to_owned(),
        }
    }

    /// Makes the user the owner of a file.
    pub fn own(&self, path: &Path) {
        chown(path, Some(self.user.uid), Some(self.user.gid)).unwrap();
    }

    /// Returns the directory that holds all others.
    #[must_use]
    pub fn base(&self) -> &Path {
        self.base.path()
    }

    /// Returns a path below [`Self::base`].
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.base().join(name)
    }

    /// Returns the workspace, in which commands start.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.path("ws")
    }

    /// Returns the directory of pinfold's state.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path("home/.local/state/pinfold")
    }

    /// Writes a file that the user owns, and creates missing parent directories.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        let mut missing = Vec::new();
        let mut parent = path.parent();
        while let Some(directory) = parent.filter(|directory| !directory.exists()) {
            missing.push(directory.to_owned());
            parent = directory.parent();
        }
        for directory in missing.iter().rev() {
            fs::create_dir(directory).unwrap();
            self.own(directory);
        }
        let content = content.as_ref();
        match name {
            SETTINGS => fs::write(&path, Self::settings(content)).unwrap(),
            _ => fs::write(&path, content).unwrap(),
        }
        self.own(&path);
        path
    }

    /// Returns a command that runs a program as the user, in the workspace, with the stage's home.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.user.command(program);
        command
            .current_dir(self.workspace())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .stdin(Stdio::null());
        if engine().is_some() {
            command.envs(self.of_engine());
        }
        command
    }

    /// Returns where the engine is that is tried.
    fn of_engine(&self) -> Vec<(&'static str, String)> {
        let podman = self.has_own_podman().then(|| self.path(PODMAN).display().to_string());
        // The ordinary user's containers lie elsewhere than root's.
        let storage =
            if self.user.is_root() { "CONTAINERS_STORAGE_CONF" } else { "PINFOLD_TEST_STORAGE" };
        let given = [("DOCKER_HOST", "DOCKER_HOST"), ("CONTAINERS_STORAGE_CONF", storage)];
        given
            .into_iter()
            .filter_map(|(name, from)| Some((name, std::env::var(from).ok()?)))
            .chain(podman.map(|path| ("CONTAINERS_CONF", path)))
            .collect()
    }

    /// Returns whether the engine under test is rootless Podman, which keeps everything in the stage.
    fn has_own_podman(&self) -> bool {
        !self.user.is_root() && engine().is_some_and(|engine| engine == "podman")
    }

    /// Returns a command that runs pinfold. `run` gets the options for the boundary under test.
    pub fn pinfold(&self, args: &[&str]) -> Command {
        let mut command = self.command(executable());
        match (engine(), args.split_first()) {
            (Some(engine), Some((&"run", rest))) if engine == NESTED => {
                command.args(["run", "--nested"]).args(rest)
            }
            (Some(engine), Some((&"run", rest))) => {
                let is_boundary = [EXTERNAL, VM, "systemd"].contains(&engine.as_str());
                let choice = if is_boundary { "--boundary" } else { "--engine" };
                command.args(["run", choice, &engine]).args(rest)
            }
            _ => command.args(args),
        };
        command
    }

    /// Runs `pinfold run OPTIONS -- COMMAND` until it ends.
    pub fn run(&self, options: &[&str], command: &[&str]) -> Output {
        let mut run = self.pinfold(&["run"]);
        run.args(options).arg("--").args(command).output().unwrap()
    }

    /// Runs `pinfold run OPTIONS -- sh -c SCRIPT` until it ends.
    pub fn run_shell(&self, options: &[&str], script: &str) -> Output {
        self.run(options, &["sh", "-c", script])
    }
}

/// How long a session may take to end after its test.
const PATIENCE: Duration = Duration::from_secs(5);

impl Drop for Stage {
    fn drop(&mut self) {
        // A supervisor that is still ending would write into directories that are being deleted.
        let begun = Instant::now();
        let is_pinfold = |name: &str| name == "pinfold";
        while !processes_of(self.base(), is_pinfold).is_empty() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Podman keeps containers below the user's HOME, whichever room it is used in.
        if !self.user.is_root() {
            end_podman(self.base());
        }
    }
}
