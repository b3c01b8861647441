//! `cargo xtask attack`: random hostile sessions, and ordinary work on the host after them.
//!
//! Each case makes a user's machine in a temporary directory, runs one or two sessions at once whose
//! steps come from a grammar (`attack/grammar.rs`), lets the user edit and commit at the same time,
//! kills a supervisor now and then, and afterwards has the real git, direnv and npm do ordinary things
//! under a tracer. It fails if anything was executed, called or written outside that a session brought
//! about, if an open editor would have executed anything, or if a session printed a secret. The
//! programs, not a model of them, say what is harmful.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::Outcome;
use crate::cargo::{self, command};
use editor::Editor;
use user::User;

mod editor;
mod grammar;
mod user;

const USAGE: &str =
    "usage: cargo xtask attack [--minutes N | --cases N] [--seed N] [--pinfold FILE]";

/// How long a session may take.
const LONGEST: Duration = Duration::from_secs(60);

struct Options {
    cases: Option<u64>,
    minutes: f64,
    seed: u64,
    pinfold: Option<PathBuf>,
}

/// Runs cases, each with the next seed, until one fails or the time is over.
///
/// # Errors
/// Returns the seed of a case that failed, with what went wrong.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let options = options(words)?;
    for program in ["git", "strace"] {
        if cargo::output(command(program).arg("--version")).is_err() {
            println!("skipped: there is no {program} here");
            return Ok(());
        }
    }
    for program in user::MAY_BE_MISSING {
        if cargo::output(command(program).arg("--version")).is_err() {
            println!("there is no {program} here: its commands do nothing");
        }
    }
    let pinfold = match options.pinfold {
        Some(file) => file,
        None => built()?,
    };
    let (begun, most) = (Instant::now(), Duration::from_secs_f64(options.minutes * 60.0));
    let mut cases = 0;
    while options.cases.map_or(cases == 0 || begun.elapsed() < most, |wanted| cases < wanted) {
        let seed = options.seed.wrapping_add(cases);
        let (story, wrong) = case(&pinfold, seed)?;
        if !wrong.is_empty() {
            let wrong = wrong.join("\n");
            return Err(format!(
                "{story}\n{wrong}\nrepeat: cargo xtask attack --cases 1 --seed {seed}"
            )
            .into());
        }
        cases += 1;
    }
    println!("{cases} cases from seed {}, nothing found", options.seed);
    Ok(())
}

fn options(words: &[&str]) -> Result<Options, Box<dyn std::error::Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut options = Options { cases: None, minutes: 10.0, seed: now, pinfold: None };
    for pair in words.chunks(2) {
        match pair {
            ["--cases", cases] => options.cases = Some(cases.parse()?),
            ["--minutes", minutes] => options.minutes = minutes.parse()?,
            ["--seed", seed] => options.seed = seed.parse()?,
            ["--pinfold", file] => options.pinfold = Some(std::fs::canonicalize(file)?),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

/// Builds the executable that the tests start, and returns its path.
fn built() -> Result<PathBuf, Box<dyn std::error::Error>> {
    // With all packages, as `scripts/test` builds them.
    cargo::build(&["test", "--workspace", "--all-features", "--no-run"], "pinfold")
}

/// Runs one case; returns what was done, and what went wrong.
fn case(pinfold: &Path, seed: u64) -> Result<(String, Vec<String>), Box<dyn std::error::Error>> {
    let mut random = Rng::with_seed(seed);
    let user = User::new()?;
    let evil = user.evil().display().to_string();
    let before = user.outside()?;
    let (mut story, mut wrong) = (format!("=== seed {seed}\n"), Vec::new());
    let mut was_killed = false;
    let editor = Editor::open(user.work(), evil.clone());
    for _ in 0..random.usize(1..3) {
        let count = if random.u8(..4) == 0 { 2 } else { 1 };
        let mut sessions = Vec::new();
        for number in 0..count {
            let script = grammar::script(&mut random, &evil);
            let in_view = random.u8(..5) == 0;
            // The second one may start with what the first one made.
            if number > 0 {
                sleep(Duration::from_millis(random.u64(0..600)));
            }
            story += &format!(
                "--- session {number}{}\n{script}",
                if in_view { " in a view" } else { "" }
            );
            sessions.push(started(&user, pinfold, &script, in_view)?);
        }
        for _ in 0..random.usize(0..3) {
            sleep(Duration::from_millis(random.u64(0..500)));
            let edit = grammar::edit(&mut random);
            story += &format!("--- user\n{edit}\n");
            user.shell(&edit).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        }
        for mut session in sessions {
            if random.u8(..6) == 0 {
                sleep(Duration::from_millis(random.u64(0..800)));
                session.kill()?;
                was_killed = true;
                story += "--- killed\n";
            }
            let (is_over, output) = ended(session)?;
            if !is_over {
                wrong.push("a session did not end".to_owned());
            }
            // What the user saves while a session lives may be read in that moment (docs/security).
            if user::shows_secret(&output) && !story.contains("secret-new") {
                wrong.push("a session printed a secret".to_owned());
            }
        }
    }
    if was_killed {
        // The next start settles what a dead one left.
        let settling = started(&user, pinfold, "true", false)?;
        ended(settling)?;
    }
    wrong.extend(editor.close());
    user.build()?;
    if user.outside()? != before {
        wrong.push("something outside the workspace is not what it was".to_owned());
    }
    wrong.extend(user.go_on()?);
    Ok((story, wrong))
}

fn started(
    user: &User,
    pinfold: &Path,
    script: &str,
    in_view: bool,
) -> Result<Child, Box<dyn std::error::Error>> {
    let mut session = user.program(pinfold);
    session.arg("run");
    if in_view {
        session.args(["--workspace", "overlay", "--apply", "auto"]);
    }
    session.args(["--", "/bin/sh", "-c", script]);
    Ok(session.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
}

/// Waits for a session; whether it ended in time, and what it printed.
fn ended(mut session: Child) -> Result<(bool, Vec<u8>), Box<dyn std::error::Error>> {
    let out = session.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut out) = out {
            // A process that is still alive may hold the pipe; what it printed until then counts.
            let _ = std::io::Read::read_to_end(&mut out, &mut bytes);
        }
        bytes
    });
    let begun = Instant::now();
    while session.try_wait()?.is_none() {
        if begun.elapsed() > LONGEST {
            session.kill()?;
            session.wait()?;
            return Ok((false, Vec::new()));
        }
        sleep(Duration::from_millis(5));
    }
    Ok((true, reader.join().unwrap_or_default()))
}
