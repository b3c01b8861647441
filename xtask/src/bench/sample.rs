//! Taking samples in turns, and what is said of them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command under a name, and its times.
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) command: Command,
    pub(super) times: Vec<Duration>,
}

impl Contender {
    pub(super) fn new(name: impl Into<String>, command: Command) -> Self {
        Self { name: name.into(), command, times: Vec::new() }
    }

    /// The middle of its times.
    pub(super) fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}

/// Runs each contender once to warm up and then `rounds` times, in turns.
pub(super) fn in_turns(contenders: &mut [Contender], rounds: usize) -> super::Outcome {
    for round in 0..=rounds {
        for contender in &mut *contenders {
            contender.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let before = Instant::now();
            let status = contender.command.status()?;
            let time = before.elapsed();
            if !status.success() {
                return Err(format!("{} failed: {status}", contender.name).into());
            }
            if round > 0 {
                contender.times.push(time);
            }
        }
    }
    Ok(())
}

/// Prints each contender with its median and its ratio to the first one named `base`.
pub(super) fn print(contenders: &[Contender], base: &str) {
    let base_time =
        contenders.iter().find(|c| c.name == base).map_or(Duration::ZERO, Contender::median);
    for contender in contenders {
        let median = contender.median();
        let least = contender.times.iter().min().copied().unwrap_or_default();
        let ratio = median.as_secs_f64() / base_time.as_secs_f64();
        println!(
            "  {:<28} median {:>9.3} ms  min {:>9.3} ms  {ratio:>6.2} × {base}",
            contender.name,
            median.as_secs_f64() * 1e3,
            least.as_secs_f64() * 1e3,
        );
    }
}
