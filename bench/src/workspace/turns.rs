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
    /// What it took of processors, which a busy machine changes least.
    processor: Duration,
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

    /// Returns the middle of what `part` says of the samples, in milliseconds.
    fn median(&self, part: impl Fn(&Sample) -> Duration) -> f64 {
        let mut times: Vec<Duration> = self.samples.iter().map(part).collect();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64) * 1e3
    }
}

impl Work {
    /// Returns the words for a shell, which says how many nanoseconds the work took, and what times(1p) says.
    pub(super) fn script(&self) -> String {
        let Self { before, work } = self;
        format!(
            "{{ {before}\n}} >&2\na=$(date +%s%N)\n( {work}\n) >&2\nb=$(date +%s%N)\n\
             echo $((b - a))\ntimes"
        )
    }
}

/// Runs a command that ends with what [`Work::script`] prints.
pub(super) fn sample(command: &mut Command) -> Result<Sample, Box<dyn std::error::Error>> {
    let before = Instant::now();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let whole = before.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    match parse(&said) {
        Some((inside, processor)) if output.status.success() => {
            Ok(Sample { whole, inside, processor })
        }
        _ => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?} failed: {}\n{words}", output.status).into())
        }
    }
}

/// Nanoseconds, what the shell took of processors, and what its children took: user, system.
fn parse(said: &str) -> Option<(Duration, Duration)> {
    let mut lines = said.lines();
    let inside = Duration::from_nanos(lines.next()?.parse().ok()?);
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let mut children = lines.nth(1)?.split_whitespace().map(seconds);
    let processor = children.next()?? + children.next()??;
    Some((inside, Duration::from_secs_f64(processor)))
}

/// Prints each mode next to the first one.
pub(super) fn print(turns: &[Turns]) {
    let whole = |turn: &Turns| turn.median(|sample| sample.whole);
    let inside = |turn: &Turns| turn.median(|sample| sample.inside);
    let processor = |turn: &Turns| turn.median(|sample| sample.processor);
    let Some(native) = turns.first() else { return };
    let speed = |of: &dyn Fn(&Turns) -> f64, turn| match of(native) / of(turn) {
        // Too short for the shell's clock.
        speed if speed.is_nan() => "-".to_owned(),
        speed => format!("{speed:.2}"),
    };
    for turn in turns {
        println!(
            "  {:<18} whole {:>8.1} ms {:>5}   work {:>8.1} ms {:>5}, processor {:>8.1} ms {:>5}   \
             start and end {:>7.1} ms",
            turn.mode.name(),
            whole(turn),
            speed(&whole, turn),
            inside(turn),
            speed(&inside, turn),
            processor(turn),
            speed(&processor, turn),
            turn.median(|sample| sample.whole.saturating_sub(sample.inside)),
        );
    }
}
