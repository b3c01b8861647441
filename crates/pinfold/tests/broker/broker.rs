//! A command inside asks the host to run another.

mod asking;
pub(crate) mod attacks;
mod commands;
mod git;
mod hostile;
mod login;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use pinfold_testkit::{Stage, User, installed, people, skip};

/// A user with a repository, a remote next to it, and a program `moltnet` on the host.
struct Scene {
    stage: Stage,
}

/// Everybody who can run a test with git; says why nobody can.
fn people_with_git(test: &str) -> Vec<User> {
    if installed("git") || std::path::Path::new("/usr/local/bin/git").exists() {
        return people();
    }
    skip(test, "git is not installed");
    Vec::new()
}

impl Scene {
    /// With this under `[hostExec]`.
    fn new(user: User, settings: &str) -> Self {
        let scene = Self { stage: Stage::new(user) };
        scene.settings(settings);
        scene.program("moltnet", "#!/bin/sh\necho moltnet ran\n");
        scene
    }

    /// The same with a repository of one commit and a remote that has it.
    fn with_repository(user: User, settings: &str) -> Self {
        let scene = Self::new(user, settings);
        scene.outside("git init -q --bare -b main ../remote.git");
        scene.outside(
            "git init -q -b main . && git config user.name Ada && git config user.email a@b.c && \
             echo one >file && git add file && git commit -qm one && \
             git remote add origin \"$PWD/../remote.git\" && git push -q origin main",
        );
        scene
    }

    fn settings(&self, settings: &str) {
        let config = format!("[hostExec]\n{settings}\n");
        self.stage.write("home/.config/pinfold/config.toml", config);
    }

    /// A program on the user's PATH.
    fn program(&self, name: &str, content: &str) {
        let path = self.stage.write(&format!("bin/{name}"), content);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// pinfold, with that program on its PATH.
    fn pinfold(&self, args: &[&str]) -> Command {
        let mut command = self.stage.pinfold(args);
        let bin = self.stage.path("bin");
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        command
    }

    fn outside(&self, script: &str) -> String {
        let output = self.stage.command("/bin/sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        let mut run = self.pinfold(&["run"]);
        run.args(options).args(["--", "sh", "-c", script]).output().unwrap()
    }

    /// A line of shell inside, which succeeds; what it said on both outputs.
    fn inside(&self, script: &str) -> String {
        let output = self.run(&[], script);
        assert!(output.status.success(), "{script}: {}", said(&output));
        said(&output)
    }

    /// The records of the broker in the audit log.
    fn audit(&self) -> Vec<serde_json::Value> {
        let log = fs::read_to_string(self.stage.state().join("audit.jsonl")).unwrap();
        let all = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let is_ours = |one: &serde_json::Value| {
            one["event"].as_str().is_some_and(|event| event.starts_with("host-exec"))
        };
        all.filter(is_ours).collect()
    }

    /// What a reference of the remote names, if it has it.
    fn remote(&self, reference: &str) -> Option<String> {
        let script = format!("git -C ../remote.git rev-parse -q --verify {reference} || :");
        Some(self.outside(&script).trim().to_owned()).filter(|object| !object.is_empty())
    }
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

const ALL: &str = "autoApprove = true";
