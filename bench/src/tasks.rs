//! What a worker adds to a run: from its start to the start of the agent's program, and the whole of a task.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::start::base;
use super::{Effort, Outcome, command};

/// An agent that commits when it began, in nanoseconds since 1970, does a step of the specification if there is one, and
/// commits when it ended.
const AGENT: &str = "name = \"stamp\"\ncli_command = \"sh\"\n\
    prompt_args = [\"-c\", \"date +%s%N >stamp; git add stamp; git commit -qm stamp; \
    test ! -e /tmp/spec.md || sed -i '0,/: x$/s/: x$/: x [done]/' /tmp/spec.md; \
    date +%s%N >end; git add end; git commit -qm end\", \"sh\", \"{prompt}\"]\n";

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

    /// Returns how long the agent takes to begin without pinfold.
    fn bare(&self) -> Result<Duration, Box<dyn std::error::Error>> {
        let began = now();
        let stamp = self.good(command("sh").args(["-c", "date +%s%N", "sh", "x"]))?;
        Ok(Duration::from_nanos(stamp.parse()?).saturating_sub(began))
    }

    /// Returns how long after `began` the agent of a commit did.
    fn stamped(
        &self,
        commit: &str,
        began: Duration,
    ) -> Result<Duration, Box<dyn std::error::Error>> {
        Ok(self.noted(&format!("{commit}:stamp"))?.saturating_sub(began))
    }

    /// Returns the time that an agent committed.
    fn noted(&self, file: &str) -> Result<Duration, Box<dyn std::error::Error>> {
        let noted = self.good(command("git").args(["show", file]))?;
        Ok(Duration::from_nanos(noted.parse()?))
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
    let (mut bares, mut runs, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut loops, mut furthers) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let bare = place.bare()?;
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
        std::fs::write(place.path("home").join(&spec), "### Step 1: x\n### Step 2: x\n")?;
        let (spec, branch) = (format!("../home/{spec}"), format!("loop-{round}"));
        let began = now();
        place.own(&["loop", "--spec", &spec, "--agent", "stamp", "--branch", &branch])?;
        // Each of the two agents made two commits.
        let looped = place.stamped(&format!("{branch}~3"), began)?;
        let first_ended = place.noted(&format!("{branch}~2:end"))?;
        let further = place.stamped(&format!("{branch}~1"), first_ended)?;
        if round > 0 {
            bares.push(bare);
            runs.push(run);
            tasks.push(task);
            loops.push(looped);
            furthers.push(further);
        }
    }
    let (bare, run) = (middle(bares), middle(runs));
    let (task, looped) = (middle(tasks), middle(loops));
    println!(
        "  until the agent begins: run {run:.1} ms, task {task:.1} ms, added {:.1} ms",
        task - run
    );
    println!("  first iteration of a loop {looped:.1} ms, added {:.1} ms", looped - run);
    println!(
        "  second iteration, after the end of the first one's agent: {:.1} ms",
        middle(furthers)
    );
    println!("  the agent by itself, without a sandbox: {bare:.1} ms");
    Ok(())
}
