//! A session next to earlier ones of the same kind.

use serde::Serialize;

use crate::report::Report;

/// What earlier sessions were like. Each number is a median, since one session that went wrong says little about the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// How many sessions.
    pub sessions: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How long they took.
    pub total_ms: f64,
    /// What their models cost.
    pub usd: f64,
    /// Tokens that they used.
    pub tokens: f64,
    /// Programs that failed in them.
    pub failed_commands: f64,
    /// What they were refused.
    pub refusals: f64,
}

impl Comparison {
    /// Compares a session with the last `most` sessions that began before it, in the same workspace and by the same
    /// subject. Returns none if there are none.
    #[must_use]
    pub fn of(report: &Report, all: &[Report], most: usize) -> Option<Self> {
        let is_like = |other: &&Report| {
            other.workspace == report.workspace && other.subject == report.subject
        };
        let place = all.iter().position(|other| other.session == report.session)?;
        let earlier: Vec<&Report> = all[..place].iter().rev().filter(is_like).take(most).collect();
        let median = |of: &dyn Fn(&Report) -> f64| {
            let mut numbers: Vec<f64> = earlier.iter().map(|report| of(report)).collect();
            numbers.sort_by(f64::total_cmp);
            median(&numbers)
        };
        Some(Self {
            sessions: earlier.len(),
            failed: earlier.iter().filter(|report| report.has_failed()).count(),
            total_ms: median(&|report| report.phases.total_ms as f64)?,
            usd: median(&Report::usd)?,
            tokens: median(&|report| report.tokens() as f64)?,
            failed_commands: median(&|report| report.commands.failed as f64)?,
            refusals: median(&|report| report.refusals() as f64)?,
        })
    }
}

/// Returns the middle of sorted numbers.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some(f64::midpoint(sorted[middle - 1], upper)) }
}

#[cfg(test)]
mod tests {
    use super::{Comparison, median};
    use crate::report::{Phases, Report};

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, 900.0]), Some(2.0));
    }

    #[test]
    fn session_is_compared_with_earlier_ones_like_it() {
        let report = |session: &str, workspace: &str, total_ms| Report {
            session: session.to_owned(),
            workspace: workspace.to_owned(),
            phases: Phases { total_ms, ..Phases::default() },
            ..Report::default()
        };
        let all = [
            report("a", "/w", 9_000),
            report("b", "/w", 1_000),
            report("c", "/other", 500_000),
            report("d", "/w", 3_000),
            report("e", "/w", 0),
            report("f", "/w", 700_000),
        ];
        let compared = Comparison::of(&all[4], &all, 2).unwrap();
        assert_eq!((compared.sessions, compared.total_ms), (2, 2_000.0));
        assert!(compared.usd.is_sign_positive(), "{}", compared.usd);
        assert_eq!(Comparison::of(&all[4], &all, 10).unwrap().sessions, 3);
        assert_eq!(Comparison::of(&all[0], &all, 10), None);
    }
}
