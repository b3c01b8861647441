//! Where a test runs: directories of one person's own, gone with the value.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::Person;

/// A home, a workspace and a place for temporary files that belong to one person.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) person: Person,
    base: TempDir,
}

impl Stage {
    pub(crate) fn new(person: Person) -> Self {
        let base = tempfile::Builder::new().prefix("pinfold-it-").tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Self { person, base };
        stage.own(stage.base());
        for name in ["home", "ws", "tmp", "readable", "writable", "other"] {
            let path = stage.base().join(name);
            fs::create_dir(&path).unwrap();
            stage.own(&path);
        }
        stage
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
        fs::write(&path, content).unwrap();
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
        command
    }

    /// pinfold itself.
    pub(crate) fn pinfold(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_pinfold"));
        match (super::engine(), args.split_first()) {
            (Some(engine), Some((&"run", rest))) => {
                let of_engine = ["DOCKER_HOST", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR"];
                let known =
                    of_engine.iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
                command.envs(known).args(["run", "--engine", &engine]).args(rest)
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
