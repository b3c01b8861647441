//! A terminal that a test types into and reads.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Stage, behind_gvisor, behind_vm, patience, processes_with};

/// How long the screen may take to show what is expected.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tmux server with one window, in which a shell runs as the stage's user.
///
/// The server is ended when the value is dropped.
pub struct Tmux<'a> {
    stage: &'a Stage,
}

impl<'a> Tmux<'a> {
    /// Starts a shell in a directory with these variables, in a window of 80 columns by 24 rows.
    pub fn start(stage: &'a Stage, directory: &Path, env: &[(&str, &str)]) -> Self {
        let tmux = Self { stage };
        let mut start =
            tmux.command(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"]);
        // In a file, because bash takes no prompt from root's environment. A shell that ends after the test would write
        // its history into the stage's home while that is deleted.
        let settings = stage.write("tmp/bashrc", "PS1='outer> '\nunset HISTFILE\n");
        start.arg(format!("bash --noprofile --rcfile {}", settings.display()));
        start.current_dir(directory).envs(env.iter().copied());
        assert!(start.status().unwrap().success());
        tmux.wait_for("outer>");
        tmux
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stage.command("tmux");
        command
            .arg("-S")
            .arg(self.stage.path("tmp/tmux"))
            .args(args)
            .env("TERM", "screen-256color")
            .env("LANG", "C.UTF-8")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }

    /// Presses keys, named as in tmux: `C-c`.
    pub fn keys(&self, keys: &[&str]) {
        assert!(self.command(&["send-keys"]).args(keys).status().unwrap().success());
    }

    /// Types text.
    pub fn text(&self, text: &str) {
        assert!(self.command(&["send-keys", "-l", text]).status().unwrap().success());
    }

    /// Types text and presses Enter.
    pub fn line(&self, line: &str) {
        self.text(line);
        self.keys(&["Enter"]);
    }

    /// Changes the size of the window.
    pub fn resize(&self, columns: u32, rows: u32) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut resize = self.command(&["resize-window", "-x", &columns, "-y", &rows]);
        assert!(resize.status().unwrap().success());
    }

    /// Returns the screen's text without colours.
    pub fn screen(&self) -> String {
        self.capture(&[])
    }

    /// Returns the screen's text with its escape sequences for colours.
    pub fn coloured(&self) -> String {
        self.capture(&["-e"])
    }

    /// Returns what a format of tmux stands for now, as `#{alternate_on}`.
    pub fn format(&self, format: &str) -> String {
        let output = self.command(&["display-message", "-p", format]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn capture(&self, options: &[&str]) -> String {
        let output = self.command(&["capture-pane", "-p"]).args(options).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Polls the screen until a condition holds, because tmux has no event for it.
    pub fn wait_until(&self, what: &str, mut wanted: impl FnMut(&str) -> bool) -> String {
        let deadline = Instant::now() + patience(PATIENCE);
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "waited for {what} in vain:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen contains a text.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until a whole line equals a text.
    pub fn wait_for_line(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.lines().any(|line| line.trim_end() == text))
    }

    /// Waits until a command runs. A signal that arrives between a shell's fork and the command's start
    /// can be lost, because the shell's handler takes it in the child.
    pub fn wait_for_command(&self, command: &str) {
        if behind_gvisor() || behind_vm() {
            // The host does not see processes of another kernel.
            std::thread::sleep(patience(Duration::from_secs(1)));
            return;
        }
        let arguments = command.replace(' ', "\0");
        self.wait_until("the command to run", |_| !processes_with(&arguments).is_empty());
    }

    /// Checks that a waiting command can be interrupted, stopped and continued.
    pub fn has_job_control(&self, prompt: &str, command: &str) {
        self.line(&format!("clear; {command}; echo interrupted $?"));
        self.wait_for_command(command);
        self.keys(&["C-c"]);
        self.wait_for_prompt(prompt);
        self.line(&format!("clear; {command}"));
        self.wait_for_command(command);
        self.keys(&["C-z"]);
        self.wait_for("Stopped");
        self.line("clear; fg");
        self.wait_for_line(command);
        self.keys(&["C-c"]);
        self.wait_for_prompt(prompt);
    }

    /// Waits until the last line that is not empty ends with a prompt. After `^C` the prompt may be on
    /// the same line.
    pub fn wait_for_prompt(&self, prompt: &str) -> String {
        self.wait_until(prompt, |screen| {
            let last = screen.lines().rev().find(|line| !line.trim().is_empty());
            last.is_some_and(|line| line.trim_end().ends_with(prompt))
        })
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // A server that has ended is what is wanted.
        let _ = self.command(&["kill-server"]).stderr(Stdio::null()).status();
    }
}
