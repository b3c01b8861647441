//! Ratios that are kept in the repository (`bench/ratios.txt`). One that grows by more than a quarter fails CI.
//!
//! Only processor time is kept: on a shared machine it varies by a few hundredths from run to run, and time by the
//! clock by a factor of two. Both sides take turns, and a ratio that is too high is measured again before it fails.

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Outcome, command, peers, start};

const RATIOS: &str = "bench/ratios.txt";
/// What a ratio may grow by.
const SLACK: f64 = 1.25;
/// How often a ratio is measured before it fails.
const ATTEMPTS: usize = 3;

/// Measures every ratio that is kept, and compares.
///
/// # Errors
/// Returns the ratios that grew, or an error for a ratio that nothing measures.
pub(super) fn run(pinfold: &Path) -> Outcome {
    println!("\nratios of processor time, against those in {RATIOS}");
    let workspace = start::repository(start::FILES)?;
    let workspace = workspace.path();
    let text = fs::read_to_string(RATIOS)?;
    let mut grown = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, kept) = line.split_once(": ").ok_or("a line without a ratio")?;
        let kept: f64 = kept.parse()?;
        let Some(mut pair) = pair(name, pinfold, workspace)? else {
            println!("  {name}: bwrap is not installed: skipped");
            continue;
        };
        let mut least = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            least = least.min(pair.ratio()?);
            if least <= kept * SLACK {
                break;
            }
        }
        println!("  {name:<40} {least:>6.2}, kept {kept:.2}");
        if least > kept * SLACK {
            grown.push(format!("{name}: {least:.2} instead of {kept:.2}"));
        }
    }
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!("more than a quarter above {RATIOS}:\n{}", grown.join("\n")).into())
}

/// Two commands that take turns.
struct Pair {
    own: Command,
    other: Command,
    turns: usize,
}

/// Returns the commands of a ratio; none if the peer is not installed.
///
/// # Errors
/// Returns an error for a name that is not known.
fn pair(name: &str, pinfold: &Path, workspace: &Path) -> Result<Option<Pair>, String> {
    const FORKS: [&str; 3] = ["/bin/sh", "-c", "for i in $(seq 500); do /usr/bin/true; done"];
    let inside = |argv: &[&str]| {
        let mut own = command(pinfold);
        own.args(["run", "--"]).args(argv).current_dir(workspace);
        own
    };
    match name {
        "start of true, against bwrap" if !peers::exists("bwrap") => Ok(None),
        "start of true, against bwrap" => {
            let argv = ["/usr/bin/true"];
            let other = peers::bwrap(workspace, &argv);
            Ok(Some(Pair { own: inside(&argv), other, turns: 40 }))
        }
        "500 forks, against none" => {
            let mut other = command(FORKS[0]);
            other.args(&FORKS[1..]).current_dir(workspace);
            Ok(Some(Pair { own: inside(&FORKS), other, turns: 7 }))
        }
        _ => Err(format!("{RATIOS}: nothing measures \"{name}\"")),
    }
}

impl Pair {
    /// Returns the ratio of the medians of processor time.
    ///
    /// # Errors
    /// Returns an error if a command fails.
    fn ratio(&mut self) -> Result<f64, Box<dyn std::error::Error>> {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.turns {
            own.push(processor_time(&mut self.own)?);
            other.push(processor_time(&mut self.other)?);
        }
        Ok(median(own).as_secs_f64() / median(other).as_secs_f64())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns the processor time of a command with everything that it starts and waits for.
///
/// # Errors
/// Returns an error if it cannot be started or fails.
fn processor_time(command: &mut Command) -> Result<Duration, Box<dyn std::error::Error>> {
    let before = of_children()?;
    let ended =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !ended.success() {
        return Err(format!("{:?} failed: {ended}", command.get_program()).into());
    }
    Ok(of_children()?.saturating_sub(before))
}

/// Returns the processor time of all children that have ended (getrusage(2)).
///
/// # Errors
/// Returns the error of the call.
fn of_children() -> std::io::Result<Duration> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to memory of this function's that is large and aligned enough for the structure.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled the whole structure.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    Ok(time(usage.ru_utime) + time(usage.ru_stime))
}
