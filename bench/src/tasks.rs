//! What a worker adds to a run: from its start to the start of the agent's program, and the whole of a task.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command};

/// An agent that writes down when it began, in nanoseconds since 1970.
const AGENT: &str = "name = \"stamp\"\ncli_command = \"sh\"\n\
    prompt_args = [\"-c\", \"date +%s%N >stamp; git add stamp; git commit -qm stamp; \
    test ! -e /tmp/spec.md || sed -i 's/^### Step 1:.*/& [done]/' /tmp/spec.md\", \"sh\", \"{prompt}\"]\n";

/// A home with that agent, and a repository.
struct Place {
    directory: tempfile::TempDir,
    pinfold: PathBuf,
}

impl Place {
    fn make(pinfold: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
        let place = Self { directory, pinfold: pinfold.to_owned() };
        let agents = place.path("home/.config/pinfold/agents");
        std::fs::create_dir_all(&agents)?;
        std::fs::write(agents.join("stamp.toml"), AGENT)?;
        std::fs::create_dir(place.path("repository"))?;
        std::fs::write(place.path("repository/file"), "text\n")?;
        for words in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "bench"],
            &["config", "user.email", "bench@example.com"],
            &["add", "."],
            &["commit", "-q", "-m", "base"],
        ] {
            place.good(command("git").args(words))?;
        }
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn good(&self, command: &mut Command) -> Result<String, Box<dyn std::error::Error>> {
        command.current_dir(self.path("repository")).env("HOME", self.path("home"));
        let output = command.stdin(std::process::Stdio::null()).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    fn own(&self, words: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
        self.good(command(&self.pinfold).args(words))
    }

    /// Returns how long after `began` the agent on a branch did.
    fn stamped(
        &self,
        branch: &str,
        began: Duration,
    ) -> Result<Duration, Box<dyn std::error::Error>> {
        let stamp = self.good(command("git").args(["show", &format!("{branch}:stamp")]))?;
        Ok(Duration::from_nanos(stamp.parse()?).saturating_sub(began))
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3
}

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    let rounds = (effort.starts / 5).max(4);
    println!("\na task against a run in a new worktree ({rounds} rounds, in turns)");
    let place = Place::make(pinfold)?;
    let (mut runs, mut tasks, mut loops) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let branch = format!("run-{round}");
        let began = now();
        let mode = ["--workspace", "dedicated_worktree", "--worktree-branch", &branch];
        place.own(&[&["run", "--unattended", "--prompt", "x"], &mode[..], &["stamp"]].concat())?;
        let run = place.stamped(&branch, began)?;
        let id = place.own(&["task", "add", "--agent", "stamp", "--brief", "x"])?;
        let began = now();
        place.own(&["work", "--once"])?;
        let task = place.stamped(&format!("task/{}", &id[..8]), began)?;
        let spec = format!("spec-{round}.md");
        std::fs::write(place.path("home").join(&spec), "### Step 1: x\n")?;
        let (spec, branch) = (format!("../home/{spec}"), format!("loop-{round}"));
        let began = now();
        place.own(&["loop", "--spec", &spec, "--agent", "stamp", "--branch", &branch])?;
        let looped = place.stamped(&branch, began)?;
        if round > 0 {
            runs.push(run);
            tasks.push(task);
            loops.push(looped);
        }
    }
    let (run, task, looped) = (middle(runs), middle(tasks), middle(loops));
    println!(
        "  until the agent begins: run {run:.1} ms, task {task:.1} ms, added {:.1} ms",
        task - run
    );
    println!("  first iteration of a loop {looped:.1} ms, added {:.1} ms", looped - run);
    queue(rounds)
}

/// Claims and completions, against plain transactions of the same database.
fn queue(rounds: usize) -> Outcome {
    use pinfold_tasks::{
        Claim, Completion, Draft, Queue, SqliteStore, SystemClock, TaskId, TaskSpec, Token, Usage,
    };
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let queue = Queue::new(SqliteStore::open_file(
        &directory.path().join("queue.db"),
        Box::new(SystemClock),
    )?);
    for _ in 0..(rounds + 1) * 20 {
        let draft =
            Draft { id: TaskId::generate()?, spec: TaskSpec::new("t", "b"), expires_after: None };
        queue.add(&draft)?;
    }
    let plain = rusqlite::Connection::open(directory.path().join("plain.db"))?;
    plain.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")?;
    let own = move || -> Outcome {
        for _ in 0..20 {
            let claim = Claim {
                token: Token::generate()?,
                worker: "bench".to_owned(),
                ttl: Duration::from_secs(60),
            };
            let claimed = queue.claim(&claim)?.ok_or("the queue is empty")?;
            queue.heartbeat(&claimed.holder, None)?;
            let completion = Completion { output: "{}".to_owned(), usage: Usage::default() };
            queue.complete(&claimed.holder, &completion)?;
        }
        Ok(())
    };
    let bare = move || -> Outcome {
        for _ in 0..60 {
            plain.execute("INSERT INTO t (text) VALUES ('x')", [])?;
        }
        Ok(())
    };
    println!("  20 tasks claimed, begun and completed, against as many plain transactions");
    let mut contenders = [Contender::of("SQLite", bare), Contender::of("queue", own)];
    in_turns(&mut contenders, rounds)?;
    print(&contenders, "SQLite");
    Ok(())
}
