//! Taking samples in turns, and what is said of them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Something under a name, and how long it took.
pub(super) struct Contender {
    pub(super) name: String,
    what: Box<dyn FnMut() -> super::Outcome>,
    pub(super) times: Vec<Duration>,
}

impl Contender {
    /// Makes a contender of a command, from its start to its end.
    pub(super) fn new(name: impl Into<String>, mut command: Command) -> Self {
        let name = name.into();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let whose = name.clone();
        Self::of(name, move || match command.status()? {
            status if status.success() => Ok(()),
            status => Err(format!("{whose} failed: {status}").into()),
        })
    }

    /// Makes a contender of anything else.
    pub(super) fn of(
        name: impl Into<String>,
        what: impl FnMut() -> super::Outcome + 'static,
    ) -> Self {
        Self { name: name.into(), what: Box::new(what), times: Vec::new() }
    }

    /// Runs it once, and keeps the time if it `counts`.
    pub(super) fn take(&mut self, counts: bool) -> super::Outcome {
        let before = Instant::now();
        (self.what)()?;
        let time = before.elapsed();
        if counts {
            self.times.push(time);
        }
        Ok(())
    }

    /// Returns the middle of its times.
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
            contender.take(round > 0)?;
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
