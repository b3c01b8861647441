//! Where a test runs: directories of one person's own, gone with the value.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::Person;

/// Where a person's settings are, in a stage.
const SETTINGS: &str = "home/.config/pinfold/config.toml";
/// The boundary that a plug-in makes,
const EXTERNAL: &str = "external";
/// and the plug-in.
const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/boundaries/runc.py");

/// A home, a workspace and a place for temporary files that belong to one person.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) person: Person,
    base: TempDir,
}

impl Stage {
    pub(crate) fn new(person: Person) -> Self {
        // Short: podman removes no container whose run root (…/tmp/podman-run-UID/containers) has over 50
        // characters, and what it does not remove keeps one of a user's 2048 locks until the next boot.
        let base = tempfile::Builder::new().prefix("pf-").tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Self { person, base };
        stage.own(stage.base());
        for name in ["home", "ws", "tmp", "readable", "writable", "other"] {
            let path = stage.base().join(name);
            fs::create_dir(&path).unwrap();
            stage.own(&path);
        }
        if super::engine().is_some_and(|engine| engine == EXTERNAL) {
            stage.write(SETTINGS, "");
        }
        stage
    }

    /// The person's settings, where a plug-in makes the boundary that is tried.
    fn settings(text: &[u8]) -> Vec<u8> {
        match super::engine() {
            Some(engine) if engine == EXTERNAL => {
                let plugin = fs::canonicalize(PLUGIN).unwrap();
                [format!("plugin = \"{}\"\n", plugin.display()).as_bytes(), text].concat()
            }
            _ => text.to_owned(),
        }
    }

    /// Gives a file to the person.
    pub(crate) fn own(&self, path: &Path) {
        chown(path, Some(self.person.uid), Some(self.person.gid)).unwrap();
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("ws")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("home/.local/state/pinfold")
    }

    /// Writes a file of the person's.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
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

    /// A program of this person's, in the workspace, with this stage as its home.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.person.command(program);
        command
            .current_dir(self.workspace())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .stdin(Stdio::null());
        if super::engine().is_some() {
            command.envs(self.of_engine());
        }
        command
    }

    /// Where the engine is that is tried.
    fn of_engine(&self) -> Vec<(&'static str, String)> {
        // The ordinary user's containers lie elsewhere than root's.
        let storage = match self.person.is_root() {
            true => "CONTAINERS_STORAGE_CONF",
            false => "PINFOLD_TEST_STORAGE",
        };
        let given = [("DOCKER_HOST", "DOCKER_HOST"), ("CONTAINERS_STORAGE_CONF", storage)];
        given
            .into_iter()
            .filter_map(|(name, from)| Some((name, std::env::var(from).ok()?)))
            .collect()
    }

    /// pinfold itself.
    pub(crate) fn pinfold(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_pinfold"));
        match (super::engine(), args.split_first()) {
            (Some(engine), Some((&"run", rest))) => {
                let choice = if engine == EXTERNAL { "--boundary" } else { "--engine" };
                command.args(["run", choice, &engine]).args(rest)
            }
            _ => command.args(args),
        };
        command
    }

    /// `pinfold run OPTIONS -- COMMAND`, to its end.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Output {
        let mut run = self.pinfold(&["run"]);
        run.args(options).arg("--").args(command).output().unwrap()
    }

    /// The same for a line of shell.
    pub(crate) fn run_shell(&self, options: &[&str], script: &str) -> Output {
        self.run(options, &["sh", "-c", script])
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.person.is_root() && super::engine().is_some_and(|engine| engine == "podman") {
            // Where it is without XDG_RUNTIME_DIR.
            let runtime = format!("tmp/podman-run-{}", self.person.uid);
            super::end_podman(self.base(), &self.path(&runtime));
        }
    }
}
