//! A repository with an agent that does what its prompt says.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User};
use serde_json::Value;

/// An agent whose prompt is a script; what pinfold adds to it is a comment.
const AGENT: &str = r#"
name = "script"
cli_command = "sh"
prompt_args = ["-c", "eval \"$(printf '%s' \"$1\" | sed '/^You work alone/,$d')\"", "sh", "{prompt}"]
"#;

pub(crate) struct Scene {
    pub(crate) stage: Stage,
}

/// Returns what a command printed on both outputs.
pub(crate) fn printed(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Scene {
    pub(crate) fn new(user: User) -> Self {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/agents/script.toml", AGENT);
        stage.write("ws/repo/tests/check.sh", "grep -q right answer\n");
        let scene = Self { stage };
        scene.git(&["init", "-q", "-b", "main"]);
        scene.git(&["config", "user.name", "A User"]);
        scene.git(&["config", "user.email", "user@example.com"]);
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "base"]);
        scene
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.stage.path("ws/repo")
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.stage.command("git").args(args).current_dir(self.repository()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "git {args:?}: {}", printed(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stage.pinfold(args);
        command.current_dir(self.repository());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Adds a task for the agent that is a script, and returns its id.
    pub(crate) fn add(&self, script: &str, options: &[&str]) -> String {
        let given = ["task", "add", "--agent", "script", "--brief", script];
        let output = self.run(&[&given, options].concat());
        assert!(output.status.success(), "{}", printed(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Works until nothing is queued, and returns what the worker said.
    pub(crate) fn work(&self) -> String {
        printed(&self.run(&["work"]))
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        let output = self.run(&["task", "show", "--json", id]);
        assert!(output.status.success(), "{}", printed(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns a task's status, and the code of its failure.
    pub(crate) fn ended(&self, id: &str) -> (String, String) {
        let task = self.show(id);
        let code = task["failure"]["code"].as_str().unwrap_or_default().to_owned();
        (task["status"].as_str().unwrap().to_owned(), code)
    }

    /// Returns the branches of the repository, and the directories next to it.
    pub(crate) fn left(&self) -> (Vec<String>, Vec<String>) {
        let branches = self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        let mut next: Vec<String> = std::fs::read_dir(self.stage.workspace())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        next.sort();
        (branches.lines().map(str::to_owned).collect(), next)
    }
}
