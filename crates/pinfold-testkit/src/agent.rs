//! Real agents of the npm registry, working against a scripted model server.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::{ModelServer, Script, Stage, TempRepo, User, kept_directory, people, skip};

/// A fake API key in the form that providers use.
pub const KEY: &str = "sk-ant-api03-REAL-0d7f6c2e91-NOT-A-KEY";

/// Returns whether the npm registry can be reached.
#[must_use]
pub fn registry() -> bool {
    let addresses = "registry.npmjs.org:443".to_socket_addrs();
    addresses
        .into_iter()
        .flatten()
        .any(|address| TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok())
}

/// Returns an ordinary user, because agents refuse some of their work to root.
fn ordinary() -> Option<User> {
    people().into_iter().find(|user| !user.is_root())
}

/// Returns a user who can run agents here. Returns `None` and prints why if nobody can.
#[must_use]
pub fn ready(test: &str) -> Option<User> {
    let Some(user) = ordinary() else {
        skip(test, "there is no ordinary user");
        return None;
    };
    if !registry() {
        skip(test, "registry.npmjs.org cannot be reached");
        return None;
    }
    Some(user)
}

/// Returns a user's cache directory, which outlives the test so that agents are provisioned once.
#[must_use]
pub fn cache(user: User) -> PathBuf {
    let path = kept_directory().join(format!("agents-{}", user.uid));
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&path).unwrap();
    chown(&path, Some(user.uid), Some(user.gid)).unwrap();
    path
}

/// A repository with a bug, a scripted model server, and a user with an API key.
pub struct AgentScene {
    /// The user and the user's home.
    pub stage: Stage,
    /// The repository, owned by the user.
    pub repo: TempRepo,
    server: ModelServer,
    /// The container engine to run agents in, if not the default boundary.
    pub engine: Option<&'static str>,
    /// The mode of the workspace, if not the default of an unattended run: a view.
    pub workspace: Option<&'static str>,
}

impl AgentScene {
    /// Creates a scene in which an ordinary user fixes the bug. Returns `None` as [`ready`] does.
    pub fn ready(test: &str) -> Option<Self> {
        Some(Self::new(ready(test)?, Script::fix_the_bug()))
    }

    /// Creates a scene with a script for the model server.
    #[must_use]
    pub fn new(user: User, script: Script) -> Self {
        let stage = Stage::new(user);
        let repo = TempRepo::with_bug();
        fs::set_permissions(repo.outer(), fs::Permissions::from_mode(0o755)).unwrap();
        own_tree(&stage, repo.outer());
        let server = ModelServer::require_key(script, KEY).unwrap();
        let config: String = ["anthropic", "openai"]
            .map(|name| format!("[providers.{name}]\nbase_url = \"{}\"\n", server.base_url()))
            .concat();
        stage.write("home/.config/pinfold/config.toml", config);
        let scene = Self { stage, repo, server, engine: None, workspace: None };
        scene.set_key("anthropic");
        scene.set_key("openai");
        scene
    }

    fn set_key(&self, name: &str) {
        let file = self.stage.write("tmp/key", KEY);
        let mut set = self.stage.pinfold(&["secret", "set", name]);
        let status = set.stdin(fs::File::open(&file).unwrap()).stderr(Stdio::null()).status();
        assert!(status.unwrap().success());
        fs::remove_file(file).unwrap();
    }

    /// Returns `pinfold run AGENT -- ARGS` in the repository.
    #[must_use]
    pub fn run(&self, agent: &str, args: &[&str]) -> Command {
        let mut run = self.stage.pinfold(&["run"]);
        run.args(self.engine.iter().flat_map(|engine| ["--engine", engine]))
            .args(self.workspace.iter().flat_map(|mode| ["--workspace", mode]))
            .args(["--unattended", agent, "--"])
            .args(args)
            .current_dir(self.repo.path())
            .env("XDG_CACHE_HOME", cache(self.stage.user))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        run
    }

    /// Returns the models that were asked for.
    #[must_use]
    pub fn models(&self) -> Vec<String> {
        self.server.requests().into_iter().filter_map(|request| request.model).collect()
    }

    /// Asserts that the bug is fixed, and that the provider got no other key than the real one.
    pub fn assert_done(&self, agent: &str, output: &Output) {
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{agent}: {}\n{said}\n{errors}", output.status);
        assert!(said.contains("DONE"), "{agent}: {said}\n{errors}");
        let fixed = self.repo.run("sh", &["test.sh"]);
        assert!(fixed.status.success(), "{agent} did not mend the bug: {said}");
        let requests = self.server.requests();
        let authorised: Vec<_> = requests.iter().flat_map(|request| &request.auth).collect();
        assert!(authorised.len() >= 4, "{agent} asked {} times", requests.len());
        for (header, value) in authorised {
            assert!(
                value == KEY || value == &format!("Bearer {KEY}"),
                "{agent}: {header}: {value}"
            );
        }
    }
}

/// Makes the stage's user the owner of a directory tree.
pub fn own_tree(stage: &Stage, path: &Path) {
    stage.own(path);
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| own_tree(stage, &entry.unwrap().path()));
    }
}
