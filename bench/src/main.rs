//! The promises of SPECIFICATION.md, measured side by side in one run. `cargo xtask bench` starts it.
//!
//! Every figure is a ratio against a peer or the native run. The two take turns, so that both see
//! the same load. The program prints. Only the soak and the ratios that are kept (`kept.rs`) fail because of what
//! they measure.

mod boundaries;
mod diary;
mod engines;
mod exec;
mod kept;
mod machine;
mod memory;
mod peers;
mod queue;
mod sample;
mod snapshot;
mod start;
mod systemd;
mod tasks;
mod tools;
mod work;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What a benchmark can fail of.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Starts of each command.
    pub(crate) starts: usize,
    /// Rounds of each piece of work.
    pub(crate) rounds: usize,
    /// Files in the tree that git and ripgrep look at.
    pub(crate) files: usize,
}

impl Effort {
    /// Returns the number of the first round: round 0 warms up what the others measure, in a full run.
    pub(crate) fn first_round(self) -> usize {
        usize::from(self.rounds < 2)
    }
}

const FULL: Effort = Effort { starts: 200, rounds: 7, files: 20_000 };
const SMOKE: Effort = Effort { starts: 12, rounds: 1, files: 2_000 };

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the named benchmarks, or all of them.
fn run(words: &[&str]) -> Outcome {
    let smoke = words.contains(&"--smoke");
    let mut effort = if smoke { SMOKE } else { FULL };
    if words.contains(&"soak") {
        let minutes = value_of(words, "--minutes")?.unwrap_or(if smoke { "0.1" } else { "10" });
        return egress("door", &["soak", minutes]);
    }
    let (on, rounds) = (value_of(words, "--on")?, value_of(words, "--rounds")?);
    if let Some(rounds) = rounds {
        effort.rounds = rounds.parse()?;
    }
    let is_name = |word: &&str| !word.starts_with("--") && ![on, rounds].contains(&Some(*word));
    let named: Vec<&str> = words.iter().copied().filter(is_name).collect();
    let wanted = |name: &str| named.is_empty() || named.contains(&name);
    // These need no executable.
    if named == ["queue"] {
        return queue::run(effort);
    }
    if named == ["diary"] {
        return diary::run(effort);
    }
    let pinfold = build(if words.contains(&"--dist") { "dist" } else { "release" })?;
    println!("kernel {}, load {}", read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    if wanted("start") {
        start::run(&pinfold, effort)?;
    }
    if wanted("boundaries") {
        boundaries::run(&pinfold, effort)?;
    }
    if wanted("systemd") {
        systemd::run(&pinfold, effort)?;
    }
    if wanted("machine") {
        machine::run(&pinfold, effort)?;
    }
    if wanted("exec") {
        exec::run(&pinfold, effort)?;
    }
    if wanted("tools") {
        tools::run(&pinfold, effort, &on.map_or_else(start::base, PathBuf::from))?;
    }
    if wanted("work") {
        work::run(&pinfold, effort)?;
    }
    if wanted("snapshot") {
        snapshot::run(&pinfold, effort)?;
    }
    if wanted("workspace") {
        // Next to what was built: on a disk, which a temporary directory need not be.
        let built = pinfold.parent().unwrap_or(&pinfold);
        workspace::run(&pinfold, effort, on.map_or(built, Path::new))?;
    }
    if wanted("memory") {
        memory::run(&pinfold)?;
    }
    if wanted("tasks") {
        tasks::run(&pinfold, effort)?;
    }
    if wanted("queue") {
        queue::run(effort)?;
    }
    if wanted("diary") {
        diary::run(effort)?;
    }
    let seconds = if smoke { "0.1" } else { "1" };
    for name in ["gateway", "door"].into_iter().filter(|name| wanted(name)) {
        println!("\n{name}, against the same server without it");
        egress(name, &[seconds])?;
    }
    if smoke && named.is_empty() {
        egress("door", &["soak", "0.1"])?;
    }
    if smoke && named.is_empty() || named.contains(&"kept") {
        kept::run(&pinfold)?;
    }
    Ok(())
}

/// Returns the word after an option, if the option is there.
fn value_of<'w>(words: &[&'w str], option: &str) -> Result<Option<&'w str>, String> {
    let Some(at) = words.iter().position(|word| *word == option) else { return Ok(None) };
    let value = words.get(at + 1).ok_or_else(|| format!("{option} needs a value"))?;
    Ok(Some(value))
}

/// Builds the executable with a profile of Cargo.toml, with the features that it has when it is
/// shipped, and returns its path.
fn build(profile: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut cargo = command("cargo");
    cargo.args(["build", "--profile", profile, "--package", "pinfold", "--message-format", "json"]);
    if profile == "dist" {
        cargo.args(["--features", "guard"]);
    }
    let built = cargo.stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err("cannot build pinfold".into());
    }
    let text = String::from_utf8_lossy(&built.stdout).into_owned();
    let executable = text.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executable.ok_or_else(|| "cargo named no executable".into())
}

/// Runs a benchmark of the doors, a program that was built with this one.
fn egress(name: &str, arguments: &[&str]) -> Outcome {
    let program = std::env::current_exe()?.with_file_name(format!("bench-{name}"));
    let mut bench = command(program);
    if name == "door" && !arguments.contains(&"soak") {
        // It says itself why it is missing.
        let found = command("scripts/mitmproxy").stderr(Stdio::inherit()).output()?;
        let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        bench.env("MITMDUMP", if path.is_empty() { "mitmdump" } else { &path });
    }
    let status = bench.args(arguments).status()?;
    if status.success() { Ok(()) } else { Err(format!("the {name}'s benchmark failed").into()) }
}

/// Returns a program of this machine. Benchmarks start the things they compare.
#[expect(clippy::disallowed_methods, reason = "a developer's tool, not the product")]
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    Command::new(program.as_ref())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
