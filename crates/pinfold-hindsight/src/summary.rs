//! All sessions of a time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::document::{Document, Line, Section};
use crate::report::{Report, SessionState};
use crate::sections::{empty, times};
use crate::time::Took;

/// Lines of a list at most.
const MOST: usize = 10;

/// What the sessions of a time did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// How many there were.
    pub sessions: usize,
    /// How many failed or were killed.
    pub failed: usize,
    /// How many still run.
    pub running: usize,
    /// How long they took together.
    pub total_ms: u64,
    /// What their models cost.
    pub usd: f64,
    /// Tokens that they used.
    pub tokens: u64,
    /// Programs that were started in them.
    pub programs: u64,
    /// Programs that failed.
    pub failed_programs: u64,
    /// Commands that the host was asked to run.
    pub approvals: u64,
    /// Those of them that were refused.
    pub denied: u64,
    /// The workspaces, those with the most sessions first.
    pub workspaces: Vec<WorkspaceSummary>,
    /// What was refused most often, with the number of refusals.
    pub refused: Vec<(String, u64)>,
    /// What was reached most often, with the number of connections.
    pub hosts: Vec<(String, u64)>,
    /// Programs that failed most often, with the number of failures.
    pub failures: Vec<(String, u64)>,
}

/// The sessions of one workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkspaceSummary {
    pub workspace: String,
    /// How many sessions it had.
    pub sessions: usize,
    /// How many of them failed.
    pub failed: usize,
    /// What their models cost.
    pub usd: f64,
}

impl Summary {
    /// Sums reports up.
    #[must_use]
    pub fn of(reports: &[Report]) -> Self {
        let mut sum = Self { sessions: reports.len(), ..Self::default() };
        let mut workspaces: BTreeMap<&str, WorkspaceSummary> = BTreeMap::new();
        let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
        let mut hosts: BTreeMap<&str, u64> = BTreeMap::new();
        let mut failures: BTreeMap<&str, u64> = BTreeMap::new();
        for report in reports {
            let failed = usize::from(report.has_failed());
            let usd = report.usd();
            sum.failed += failed;
            sum.running += usize::from(report.state == SessionState::Running);
            sum.total_ms = sum.total_ms.saturating_add(report.phases.total_ms);
            sum.usd += usd;
            sum.tokens = sum.tokens.saturating_add(report.tokens());
            sum.programs += report.commands.started;
            sum.failed_programs += report.commands.failed;
            sum.approvals += report.approvals.items.len() as u64 + report.approvals.more;
            let denied = |outcome: &Option<String>| outcome.as_deref() == Some("deny");
            let approvals = &report.approvals.items;
            sum.denied += approvals.iter().filter(|asked| denied(&asked.outcome)).count() as u64;
            let place = workspaces.entry(&report.workspace).or_default();
            place.workspace.clone_from(&report.workspace);
            place.sessions += 1;
            place.failed += failed;
            place.usd += usd;
            for refusal in &report.refused.items {
                *refused.entry(&refusal.what).or_default() += refusal.count;
            }
            for host in &report.hosts.items {
                *hosts.entry(&host.host).or_default() += host.count;
            }
            for command in &report.commands.failures.items {
                *failures.entry(&command.command).or_default() += 1;
            }
        }
        sum.workspaces = workspaces.into_values().collect();
        sum.workspaces.sort_by_key(|place| std::cmp::Reverse(place.sessions));
        sum.workspaces.truncate(MOST);
        (sum.refused, sum.hosts, sum.failures) = (most(refused), most(hosts), most(failures));
        sum
    }

    /// Returns the sum as a text for people.
    #[must_use]
    pub fn document(&self, title: String) -> Document {
        let mut overview = empty("Overview");
        for words in [
            format!(
                "sessions: {}, failed: {}, still running: {}",
                self.sessions, self.failed, self.running
            ),
            format!("{} in all", Took(self.total_ms)),
            format!("programs started: {}, failed: {}", self.programs, self.failed_programs),
            format!("commands asked of the host: {}, refused: {}", self.approvals, self.denied),
            format!("{} tokens, {:.4} USD", self.tokens, self.usd),
        ] {
            overview.push(Line::default().own(words));
        }
        let mut workspaces = empty("Workspaces");
        for place in &self.workspaces {
            let counts = format!(
                ": {} sessions, {} failed, {:.4} USD",
                place.sessions, place.failed, place.usd
            );
            workspaces.push(Line::default().foreign(&place.workspace).own(counts));
        }
        let sections = vec![
            overview,
            workspaces,
            counted("Programs that failed most often", &self.failures),
            counted("Refused most often", &self.refused),
            counted("Reached most often", &self.hosts),
        ];
        Document::new(title, sections)
    }
}

fn counted(heading: &'static str, counts: &[(String, u64)]) -> Section {
    let mut section = empty(heading);
    for (what, count) in counts {
        section.push(Line::default().foreign(what).own(times(*count)));
    }
    section
}

/// Returns what was most often, the most often first.
fn most(counts: BTreeMap<&str, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<_> =
        counts.into_iter().map(|(what, count)| (what.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(MOST);
    counts
}
