//! A user's machine in a temporary directory, and what the user does there after a session: ordinary commands
//! of git and other tools, under strace(1), which tells what they executed and whom they called.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::command;

/// What the session's programs must never print.
const SECRET: &str = "secret-";

/// Ordinary commands. What they cannot do here they say, and go on.
const COMMANDS: &[&str] = &[
    "git status",
    "git diff",
    "git diff --cached",
    "git log -p -3 --all",
    "git branch -avv",
    "git stash list",
    "git commit -q --allow-empty -m ordinary",
    "git checkout -q side",
    "git checkout -q -",
    "git add -A",
    "git stash",
    "git stash pop",
    "git fetch",
    "git pull -q",
    "git push -q origin HEAD:refs/heads/pushed",
    "git submodule update --init",
    "git rebase --continue",
    "git cherry-pick --continue",
    "git merge --continue",
    "git worktree list",
    "git gc -q",
    "npm ls --offline",
    "direnv export bash",
];
/// Programs without which some of them do nothing.
pub(super) const MAY_BE_MISSING: [&str; 2] = ["npm", "direnv"];

/// Commands in each other place that git might take for a repository.
const ELSEWHERE: &[&str] = &["git status", "git diff", "git log -1"];
/// What timeout(1) exits with.
const LATE: i32 = 124;
/// So many of those.
const MOST_PLACES: usize = 6;

/// The machine.
pub(super) struct User {
    directory: tempfile::TempDir,
}

impl User {
    /// Makes it, with a repository that has names which tools run and secrets in it.
    ///
    /// # Errors
    /// Returns what could not be made.
    pub(super) fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let directory = tempfile::Builder::new().prefix("pinfold-attack").tempdir()?;
        let user = Self { directory };
        for path in [user.home(), user.work()] {
            fs::create_dir(path)?;
        }
        let evil = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", user.mark().display());
        for path in [user.evil(), user.work().join("evil")] {
            fs::write(&path, &evil)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        fs::write(user.home().join(".bashrc"), "true\n")?;
        let script = "git init -q --bare ../upstream; git init -q -b main .; \
            git config user.name user; git config user.email user@example.org; \
            git remote add origin ../upstream; mkdir -p sub/deep lib .vscode .husky .claude; \
            echo 1 > file; echo '{}' > .vscode/settings.json; echo true > .husky/pre-push; \
            echo '{}' > .claude/settings.json; echo x > sub/deep/x; \
            printf '.env\\n' > .gitignore; git add -A; git commit -qm one; \
            git checkout -q -b side; echo 2 > file; echo '{ }' > .vscode/settings.json; \
            git commit -qam side; git checkout -q main; echo 3 > other; git add other; \
            git commit -qm two; git push -q -u origin main; \
            for d in . sub lib; do echo KEY=secret-old > $d/.env; done; \
            echo 'export A=1' > .envrc; if command -v direnv >/dev/null; then direnv allow .; fi";
        let made = user.shell(script).output()?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into());
        }
        Ok(user)
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// Returns the workspace.
    pub(super) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// Returns what appears when something of the session's ran outside.
    fn mark(&self) -> PathBuf {
        self.directory.path().join("mark")
    }

    /// Returns a program that leaves the mark.
    pub(super) fn evil(&self) -> PathBuf {
        self.directory.path().join("evil")
    }

    /// Returns a program in the workspace, with the user's own settings and nobody else's.
    pub(super) fn program(&self, program: &Path) -> Command {
        let mut command = command(program);
        command.env_clear().current_dir(self.work()).stdin(Stdio::null());
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env("PATH", path).env("HOME", self.home()).env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_EDITOR", "true").env("LC_ALL", "C.UTF-8");
        // npm asks for a newer version of itself otherwise.
        command.env("npm_config_update_notifier", "false");
        command
    }

    /// Runs a script of the user's.
    pub(super) fn shell(&self, script: &str) -> Command {
        let mut shell = self.program(Path::new("/bin/sh"));
        shell.args(["-c", script]);
        shell
    }

    /// Returns what lies outside the workspace, apart from what is pinfold's own.
    ///
    /// # Errors
    /// Returns what cannot be read.
    pub(super) fn outside(&self) -> std::io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.directory.path().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                let is_own = path.ends_with(".local/state/pinfold")
                    || path.ends_with(".cache/pinfold")
                    || path == self.work()
                    || path == self.directory.path().join("upstream");
                if kind.is_dir() && !is_own {
                    left.push(path);
                } else if kind.is_file() {
                    found.insert(path.clone(), fs::read(path)?);
                }
            }
        }
        Ok(found)
    }

    /// Builds, as a program does that writes what a session chose to what it finds: through each link that
    /// leads to something of the user's. Links that git has came by a commit, which the user looks at.
    ///
    /// # Errors
    /// Returns that a program cannot be started.
    pub(super) fn build(&self) -> std::io::Result<()> {
        let script = "find . -name .git -prune -o -type l -print0 | while IFS= read -r -d '' link; do \
            to=$(realpath -m -- \"$link\"); git ls-files --error-unmatch -- \"$link\" >&2 && continue; \
            case $to in \"$1\"/*) if test -d \"$to\"; then echo x >\"$link/built\"; \
            else printf '[core]\\n\\tfsmonitor = %s\\n' \"$2\" >>\"$link\"; fi;; esac; done";
        let mut build = self.program(Path::new("bash"));
        build.args(["-c", script, "bash"]).arg(self.directory.path()).arg(self.evil());
        build.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        Ok(())
    }

    /// Does ordinary things, and returns what was executed, called or shown that should not be.
    ///
    /// # Errors
    /// Returns that a program cannot be started.
    pub(super) fn go_on(&self) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let mut wrong = Vec::new();
        for line in COMMANDS {
            self.traced(&self.work(), line, &mut wrong)?;
        }
        for place in self.places()? {
            for line in ELSEWHERE {
                self.traced(&place, line, &mut wrong)?;
            }
        }
        Ok(wrong)
    }

    /// Directories in which git may find something.
    fn places(&self) -> Result<Vec<PathBuf>, Box<dyn std::error::Error>> {
        let mut find = command("find");
        find.arg(self.work()).args(["-mindepth", "2", "-not", "-path", "*/work/.git/*"]);
        find.args(["(", "-name", ".git", "-o", "-name", "HEAD", ")", "-printf", "%h\\n"]);
        let found =
            String::from_utf8_lossy(&find.stderr(Stdio::null()).output()?.stdout).into_owned();
        Ok(found
            .lines()
            .map(PathBuf::from)
            .filter(|path| path.is_dir())
            .take(MOST_PLACES)
            .collect())
    }

    fn traced(
        &self,
        place: &Path,
        line: &str,
        wrong: &mut Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let trace = self.directory.path().join("trace");
        let mut strace = self.program(Path::new("strace"));
        strace.args(["-f", "-qq", "-s", "4096", "-e", "trace=execve,execveat,connect", "-o"]);
        strace.arg(&trace).args(["timeout", "20", "/bin/sh", "-c", line]).current_dir(place);
        let status = strace.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if status.code() == Some(LATE) {
            wrong.push(format!("{line} in {} did not end", place.display()));
        }
        let calls = fs::read(&trace).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (work, evil) = (self.work().display().to_string(), self.evil().display().to_string());
        for call in calls?.lines() {
            let is_program_of_theirs = call.contains("execve(\"./")
                || call.contains(&format!("execve(\"{work}"))
                || call.contains("execve") && call.contains(&evil);
            let is_call_out = call.contains("AF_INET");
            if is_program_of_theirs || is_call_out {
                wrong.push(format!("{} in {}: {call}", line, place.display()));
            }
        }
        if let Ok(mark) = fs::read_to_string(self.mark()) {
            wrong.push(format!("{line} in {}: executed {mark}", place.display()));
            fs::remove_file(self.mark())?;
        }
        fs::remove_file(trace)?;
        Ok(())
    }
}

/// Returns whether a session's output shows a secret.
pub(super) fn shows_secret(output: &[u8]) -> bool {
    output.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}
