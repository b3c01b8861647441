//! What is measured of each mode, and what is said of it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::mode::Mode;

/// What a shell is to do.
pub(super) struct Work {
    pub(super) before: String,
    pub(super) work: String,
}

/// How long it took.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// From the start of the process to its end.
    whole: Duration,
    /// The work alone.
    inside: Duration,
}

/// A mode, and what was measured of it.
pub(super) struct Turns {
    pub(super) mode: Mode,
    pub(super) samples: Vec<Sample>,
}

impl Turns {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, samples: Vec::new() }
    }

    /// The middle of what `part` says of the samples, in milliseconds.
    fn median(&self, part: impl Fn(&Sample) -> Duration) -> f64 {
        let mut times: Vec<Duration> = self.samples.iter().map(part).collect();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64) * 1e3
    }
}

impl Work {
    /// The words for a shell, which says how many nanoseconds the work took.
    pub(super) fn script(&self) -> String {
        let Self { before, work } = self;
        format!(
            "{{ {before}\n}} >&2\na=$(date +%s%N)\n( {work}\n) >&2\nb=$(date +%s%N)\necho $((b - a))"
        )
    }
}

/// Runs a command that ends with what [`Work::script`] prints.
pub(super) fn sample(command: &mut Command) -> Result<Sample, Box<dyn std::error::Error>> {
    let before = Instant::now();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let whole = before.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().parse() {
        Ok(nanoseconds) if output.status.success() => {
            Ok(Sample { whole, inside: Duration::from_nanos(nanoseconds) })
        }
        _ => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?} failed: {}\n{words}", output.status).into())
        }
    }
}

/// Prints each mode beside the first one.
pub(super) fn print(turns: &[Turns]) {
    let whole = |turn: &Turns| turn.median(|sample| sample.whole);
    let inside = |turn: &Turns| turn.median(|sample| sample.inside);
    let Some(native) = turns.first() else { return };
    for turn in turns {
        println!(
            "  {:<20} whole {:>9.1} ms {:>5.2}   work {:>9.1} ms {:>5.2}   start and end {:>7.1} ms",
            turn.mode.name(),
            whole(turn),
            whole(native) / whole(turn),
            inside(turn),
            inside(native) / inside(turn),
            turn.median(|sample| sample.whole.saturating_sub(sample.inside)),
        );
    }
}
