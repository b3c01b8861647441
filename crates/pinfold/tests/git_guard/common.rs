//! A repository, a home and a user for each case.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pinfold_testkit::{User, executable};
use tempfile::TempDir;

/// A user without an account, whom git knows nothing about. Any id without a line in passwd(5).
const NO_ACCOUNT: u32 = 54_321;

/// The user who runs the cases.
pub(crate) struct Site {
    user: User,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "as user {}", self.user.uid)
    }
}

/// Returns a site for the current user, and for root also one for an ordinary user.
pub(crate) fn sites() -> Vec<Site> {
    let current = User::current();
    let mut people = vec![current];
    if current.is_root() {
        people.push(User { uid: NO_ACCOUNT, gid: NO_ACCOUNT });
    }
    people.into_iter().map(|user| Site { user }).collect()
}

impl Site {
    /// Whether the user is root.
    pub(crate) fn is_root(&self) -> bool {
        self.user.is_root()
    }

    /// A directory that is no repository.
    pub(crate) fn bare_directory(&self) -> Case {
        let outer = tempfile::Builder::new().prefix("pinfold-case-").tempdir().unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let path = outer.path().canonicalize().unwrap().join("work");
        let case = Case { user: self.user, outer, path };
        case.host_at(case.outer.path(), "mkdir work home");
        case
    }

    /// A repository without a commit.
    pub(crate) fn empty_repository(&self) -> Case {
        let case = self.bare_directory();
        case.host("git init -q --template= -b main");
        case
    }

    /// A repository with a commit and a program that leaves a mark when the host runs it.
    pub(crate) fn repository(&self) -> Case {
        let case = self.empty_repository();
        let evil = format!("#!/bin/sh\ntouch '{}'\n", case.mark().display());
        fs::write(case.evil(), evil).unwrap();
        fs::set_permissions(case.evil(), fs::Permissions::from_mode(0o755)).unwrap();
        lchown(case.evil(), Some(self.user.uid), Some(self.user.gid)).unwrap();
        case.host(
            "git config user.name Test; git config user.email test@example.org; echo x > file; \
             git add .; git commit -qm first",
        );
        case
    }
}

/// One repository with a home next to it.
pub(crate) struct Case {
    user: User,
    outer: TempDir,
    path: PathBuf,
}

impl Case {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn evil(&self) -> PathBuf {
        self.path.join("evil")
    }

    fn mark(&self) -> PathBuf {
        self.outer.path().join("mark")
    }

    /// Whether the host ran the program.
    pub(crate) fn was_marked(&self) -> bool {
        self.mark().exists()
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.user.command(program);
        let home = self.outer.path().join("home");
        command
            .current_dir(&self.path)
            .env("HOME", home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0");
        command
    }

    /// Runs a script outside, which must succeed.
    pub(crate) fn host(&self, script: &str) -> String {
        self.host_at(&self.path, script)
    }

    fn host_at(&self, directory: &Path, script: &str) -> String {
        let script = format!("set -e\n{script}");
        let output =
            self.command("sh").current_dir(directory).args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What a user does in every directory: looks, changes a file, commits, goes on. Where git
    /// keeps objects, references and logs it finds what it finds above, unless there is a HEAD.
    pub(crate) fn use_git_everywhere(&self) {
        let script = "find . -type d \\( -not -path '*/objects/*' -not -path '*/.git/refs/*' \
                      -not -path '*/.git/logs/*' -o -exec test -e '{}/HEAD' \\; \\) -print \
                      2>/dev/null >../directories || true; while read -r d; do ( cd \"$d\" && { \
                      git status; git diff; git log -1; git add -A .; git stash list; \
                      git commit -qm x --allow-empty; git checkout -q -b x; git rebase --continue; \
                      git remote update; } ) </dev/null >/dev/null 2>&1 || true; done <../directories";
        self.host(script);
    }

    /// Runs a script inside.
    pub(crate) fn inside(&self, script: &str) -> Output {
        self.run(&[], script)
    }

    /// Runs a script inside, with options.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Output {
        self.pinfold(options, script).stdin(Stdio::null()).output().unwrap()
    }

    /// The same in another directory, named from the working directory.
    pub(crate) fn run_in(&self, directory: &str, options: &[&str], script: &str) -> Output {
        let mut command = self.pinfold(options, script);
        command.current_dir(self.path.join(directory)).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts a script inside, with its streams as pipes.
    pub(crate) fn spawn_inside(&self, script: &str) -> Child {
        self.spawn(&[], script)
    }

    /// The same, with options.
    pub(crate) fn spawn(&self, options: &[&str], script: &str) -> Child {
        let mut command = self.pinfold(options, script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The same in another directory, named from the working directory.
    pub(crate) fn spawn_in(&self, directory: &str, options: &[&str], script: &str) -> Child {
        let mut command = self.pinfold(options, script);
        command.current_dir(self.path.join(directory)).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns a command that sees what lies at `from` also at `at`. Root alone can mount that.
    pub(crate) fn with_mount(&self, from: &Path, at: &Path, argv: &[&str]) -> Command {
        const SCRIPT: &str = "mount --bind \"$1\" \"$2\"; exec setpriv --reuid \"$3\" --regid \"$4\" \
                              --clear-groups sh -c 'shift 4; cd \"$PWD\"; exec \"$@\"' sh \"$@\"";
        let mut command = User { uid: 0, gid: 0 }.command("unshare");
        command.current_dir(&self.path).env("HOME", self.outer.path().join("home"));
        command.args(["--mount", "/bin/sh", "-ec", SCRIPT, "sh"]).args([from, at]);
        command.args([self.user.uid.to_string(), self.user.gid.to_string()]).args(argv);
        command
    }

    /// Runs another command of pinfold.
    pub(crate) fn pinfold_itself(&self, arguments: &[&str]) -> Output {
        self.command(executable()).args(arguments).output().unwrap()
    }

    /// Starts another command of pinfold, with its streams as pipes.
    pub(crate) fn spawn_itself(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(executable());
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Returns a command that runs a script inside.
    pub(crate) fn pinfold(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.command(executable());
        command.arg("run").args(options).args(["--", "sh", "-c", script]);
        command
    }

    /// Every path beneath the working directory except git's objects.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let listed = self.host("find . -path ./.git/objects -prune -o -print");
        listed.lines().filter(|line| !line.ends_with("index")).map(str::to_owned).collect()
    }

    /// How many sessions left a directory.
    pub(crate) fn sessions(&self) -> usize {
        let sessions = self.outer.path().join("home/.local/state/pinfold/sessions");
        let entries = fs::read_dir(sessions).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}

/// Reads lines from a child until this one comes.
pub(crate) fn wait_for_line(child: &mut Child, line: &str) {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut read = String::new();
    while read.trim_end() != line {
        read.clear();
        assert_ne!(
            reader.read_line(&mut read).unwrap(),
            0,
            "the child ended before it said {line}"
        );
    }
    child.stdout = Some(reader.into_inner());
}

/// Standard output and standard error as text.
pub(crate) fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
