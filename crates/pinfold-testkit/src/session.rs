//! A live session to run further commands in.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use crate::Stage;

/// A session whose command waits for input.
pub struct Session<'a> {
    stage: &'a Stage,
    /// `pinfold run`.
    pub process: Child,
    /// The session's id.
    pub id: String,
}

impl<'a> Session<'a> {
    /// Starts a session with options of `pinfold run`, and waits until its command runs.
    #[must_use]
    pub fn start(stage: &'a Stage, options: &[&str]) -> Self {
        let mut run = stage.pinfold(&["run"]);
        run.args(options).args(["--", "sh", "-c", "echo ready; read line"]);
        Self::of(stage, run)
    }

    /// Starts a session with a command that prints `ready` and then waits for input.
    #[must_use]
    pub fn of(stage: &'a Stage, mut run: Command) -> Self {
        let mut process = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let names = fs::read_dir(stage.state().join("private")).unwrap().flatten();
        let id = names.map(|entry| entry.file_name().into_string().unwrap()).last().unwrap();
        Self { stage, process, id }
    }

    /// Returns `pinfold exec` for this session.
    #[must_use]
    pub fn command(&self, options: &[&str], argv: &[&str]) -> Command {
        let mut command = self.stage.pinfold(&["exec", &self.id]);
        command.args(options).arg("--").args(argv);
        command
    }

    /// Runs a command in the session until it ends.
    pub fn exec(&self, options: &[&str], argv: &[&str]) -> Output {
        self.command(options, argv).output().unwrap()
    }

    /// Runs a shell line in the session until it ends.
    pub fn shell(&self, script: &str) -> Output {
        self.exec(&[], &["sh", "-c", script])
    }

    /// Starts a shell line in the session, with all its streams as pipes.
    #[must_use]
    pub fn spawn(&self, script: &str) -> Child {
        let mut command = self.command(&[], &["sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Ends the session's input, and waits for the session to end.
    pub fn end(mut self) {
        drop(self.process.stdin.take());
        // read(1) fails at the end of its input.
        self.process.wait().unwrap();
    }
}
