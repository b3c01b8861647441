//! Git hosts of a test's own, reached by real ssh from inside.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use pinfold_testkit::{Stage, User, executable, installed, people, skip};

/// A user with an SSH key, and namespaces with two git hosts that accept it.
pub(crate) struct World {
    pub(crate) stage: Stage,
    holder: Child,
    /// The holder ends when this is closed.
    until: Option<ChildStdin>,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        let text = [&output.stdout[..], &output.stderr].concat();
        Self { status: output.status.code(), output: String::from_utf8_lossy(&text).into_owned() }
    }

    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.status, Some(0), "{}", self.output);
        self.output
    }

    pub(crate) fn failed(self) -> String {
        assert_ne!(self.status, Some(0), "{}", self.output);
        self.output
    }
}

/// Everybody who can run a test with these programs; says why nobody can.
pub(crate) fn people_with(test: &str, programs: &[&str]) -> Vec<User> {
    let lacking = programs.iter().filter(|name| {
        !installed(name)
            && !["/usr/sbin", "/usr/local/bin"].iter().any(|d| Path::new(d).join(name).exists())
    });
    let lacking: Vec<&str> = lacking.copied().collect();
    if lacking.is_empty() {
        return people();
    }
    skip(test, &format!("not installed: {}", lacking.join(", ")));
    Vec::new()
}

/// Everybody who can run a test that needs git hosts.
pub(crate) fn people_with_hosts(test: &str) -> Vec<User> {
    people_with(test, &["git", "ssh", "sshd", "ssh-keygen", "python3", "unshare", "nsenter", "ip"])
}

/// Makes a key pair in a file of the user's.
pub(crate) fn make_key(stage: &Stage, kind: &str, path: &Path) {
    let mut keygen = stage.command("ssh-keygen");
    keygen.args(["-q", "-t", kind, "-N", "", "-C", "agent@example.com", "-f"]).arg(path);
    assert!(keygen.status().unwrap().success(), "ssh-keygen -t {kind}");
}

/// A stage whose user has a key of this kind at `~/.ssh/id`.
pub(crate) fn stage_with_key(user: User, kind: &str) -> Stage {
    let stage = Stage::new(user);
    stage.write("home/.ssh/placeholder", "");
    make_key(&stage, kind, &stage.path("home/.ssh/id"));
    stage
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

impl World {
    pub(crate) fn new(user: User) -> Self {
        let stage = stage_with_key(user, "ed25519");
        let dir = stage.path("world");
        stage.write("world/world.py", include_str!("world.py"));
        stage.write("world/authorized", read(stage.path("home/.ssh/id.pub")));
        for key in ["host", "other"] {
            make_key(&stage, "ed25519", &dir.join(key));
        }
        let pinned = read(dir.join("host.pub"));
        let config = format!(
            "[ssh]\nkey = \"~/.ssh/id\"\nhosts = [\n  {{ host = \"git.example.com\", known = [{0:?}] }},\n  \
             {{ host = \"evil.example.com\", known = [{0:?}] }},\n]\n",
            pinned.trim()
        );
        stage.write("home/.config/pinfold/config.toml", config);
        let mut holder = user.command("unshare");
        if !user.is_root() {
            holder.args(["-U", "--map-current-user", "--keep-caps"]);
        }
        holder
            .args(["-n", "-m", "python3"])
            .args([dir.join("world.py"), dir])
            .args([user.uid.to_string(), user.gid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n", "the world did not come to be");
        let until = holder.stdin.take();
        let world = Self { stage, holder, until };
        world.outside("git", &["init", "-q", "--bare", "-b", "main", "../remote.git"]).succeeded();
        world.outside("git", &["init", "-q", "-b", "main"]).succeeded();
        world
    }

    /// A program on the host of this world.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let user = self.stage.user;
        let mut command = user.command("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-n", "-m"]);
        if !user.is_root() {
            command.args(["-U", "--preserve-credentials"]);
        }
        command
            .arg(format!("--wdns={}", self.stage.workspace().display()))
            .arg(program)
            .args(args)
            .env("HOME", self.stage.path("home"))
            .env("TMPDIR", self.stage.path("tmp"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn outside(&self, program: &str, args: &[&str]) -> Said {
        Said::of(&self.command(program, args).output().unwrap())
    }

    /// A line of shell inside.
    pub(crate) fn inside(&self, script: &str) -> Said {
        self.outside(executable(), &["run", "--", "sh", "-c", script])
    }

    /// The URL of the repository on the first host.
    pub(crate) fn url(&self) -> String {
        format!("ssh://git.example.com{}", self.stage.path("remote.git").display())
    }

    /// The audit log.
    pub(crate) fn audit(&self) -> String {
        read(self.stage.state().join("audit.jsonl"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.until.take());
        // It has nothing left to wait for.
        let _ = self.holder.wait();
    }
}
