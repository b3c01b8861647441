//! A report as a document.

use crate::compare::Comparison;
use crate::document::{Document, Line, Section};
use crate::report::{Command, Phases, Report, SessionState};
use crate::time::Took;

/// Programs that did not fail and are listed one by one at most.
const MOST_PROGRAMS: usize = 20;

impl Report {
    /// Returns the report as a text for people, with what earlier sessions were like if that is known.
    #[must_use]
    pub fn document(&self, compared: Option<&Comparison>) -> Document {
        let sections = vec![
            self.overview(),
            self.time(),
            compared.map_or_else(|| empty("Earlier sessions"), |compared| self.against(compared)),
            self.failures(),
            self.programs(),
            self.files(),
            self.network(),
            self.refusals_listed(),
            self.secrets(),
            self.host_commands(),
            self.models(),
            self.memory(),
            self.troubles(),
        ];
        Document::new(format!("Session {}", self.session), sections)
    }

    fn overview(&self) -> Section {
        let mut section = empty("Overview");
        let line = Line::default().foreign(&self.subject).own(" in ").foreign(&self.workspace);
        section.push(match &self.identity {
            Some(identity) => line.own(" as ").foreign(identity),
            None => line,
        });
        let started = Line::default().own("started ").foreign(&self.started);
        let started = started.own(", boundary ").foreign(&self.boundary);
        section.push(started);
        let line = Line::default();
        section.push(match (self.state, self.status) {
            (SessionState::Running, _) => line.own("still runs"),
            (SessionState::Killed, _) => line.own("was killed: it has recorded no end"),
            (SessionState::Ended, Some(0)) => line.own("ended with status 0"),
            (SessionState::Ended, Some(status)) => {
                let line = line.own(format!("failed with status {status}"));
                match &self.limit {
                    Some(limit) => line.own(", by the limit ").foreign(limit),
                    None => line,
                }
            }
            (SessionState::Ended, None) => line.own("ended"),
        });
        let started = self.commands.started;
        let failed = self.commands.failed;
        section.push(Line::default().own(format!("programs started: {started}, failed: {failed}")));
        section
    }

    fn time(&self) -> Section {
        let Phases { start_ms, resume_ms, command_ms, settle_ms, total_ms, waiting_ms, on_host_ms } =
            self.phases;
        let mut section = empty("Time");
        for (what, time) in [
            ("in all", Some(total_ms)),
            ("start", start_ms),
            ("resumeCommands", resume_ms),
            ("command", command_ms),
            ("settling", settle_ms),
            ("waiting for approvals", Some(waiting_ms).filter(|time| *time > 0)),
            ("commands on the host", Some(on_host_ms).filter(|time| *time > 0)),
        ] {
            let line = |time| Line::default().own(format!("{what}: {}", Took(time)));
            time.map(line).into_iter().for_each(|line| section.push(line));
        }
        section
    }

    fn against(&self, compared: &Comparison) -> Section {
        let Comparison { sessions, failed, .. } = *compared;
        let mut section = empty("Earlier sessions");
        let line =
            format!("medians of the last {sessions} like this one, of which {failed} failed");
        section.push(Line::default().own(line));
        let usual = compared.total_ms as u64;
        let time = format!("time: {}, usually {}", Took(self.phases.total_ms), Took(usual));
        section.push(Line::default().own(time));
        for (what, this, usual) in [
            ("failed programs", self.commands.failed, compared.failed_commands),
            ("refused", self.refusals(), compared.refusals),
            ("tokens", self.tokens(), compared.tokens),
        ] {
            section.push(Line::default().own(format!("{what}: {this}, usually {usual}")));
        }
        let cost = format!("cost: {:.4} USD, usually {:.4}", self.usd(), compared.usd);
        section.push(Line::default().own(cost));
        section
    }

    fn failures(&self) -> Section {
        let mut section = empty("Programs that failed");
        let failures = &self.commands.failures;
        failures.items.iter().for_each(|command| section.push(line_of(command)));
        section.more(failures.more);
        section
    }

    /// Returns what ran apart from what failed, as far as a reader looks.
    fn programs(&self) -> Section {
        let mut section = empty("Other programs");
        let others = self.commands.first.items.iter();
        let others = others.filter(|command| command.status.is_none_or(|status| status == 0));
        others.take(MOST_PROGRAMS).for_each(|command| section.push(line_of(command)));
        let all = self.commands.started.saturating_sub(self.commands.failed);
        section.more(all.saturating_sub(section.lines.len() as u64));
        section
    }

    fn files(&self) -> Section {
        let mut section = empty("Files and commits");
        if let Some(files) = &self.files {
            let counts = format!(
                "{} files added, {} changed, {} deleted in a view of the workspace",
                files.added, files.changed, files.deleted
            );
            let line = Line::default().own(counts);
            section.push(match &files.decision {
                Some(decision) => line.own("; decided: ").foreign(decision),
                None => line,
            });
            let paths = files.paths.iter();
            paths.for_each(|path| section.push(Line::default().foreign(path)));
            let all = files.added.saturating_add(files.changed).saturating_add(files.deleted);
            section.more(all.saturating_sub(files.paths.len() as u64));
        }
        for taken in &self.taken.items {
            section.push(Line::default().own("taken over: ").foreign(taken));
        }
        section.more(self.taken.more);
        for kept in &self.not_taken.items {
            let line = Line::default().own("not taken over: ").foreign(&kept.what);
            section.push(line.own(": ").foreign(&kept.reason));
        }
        section.more(self.not_taken.more);
        section
    }

    fn network(&self) -> Section {
        let mut section = empty("Hosts reached");
        for host in &self.hosts.items {
            let line = Line::default().foreign(&host.host).own(times(host.count));
            section.push(line.own(" by ").foreign(&host.rule));
        }
        section.more(self.hosts.more);
        for change in &self.policy_changes.items {
            section.push(Line::default().own("changed while it ran: ").foreign(change));
        }
        section.more(self.policy_changes.more);
        section
    }

    fn refusals_listed(&self) -> Section {
        let mut section = empty("Refused");
        for refusal in &self.refused.items {
            let line = Line::default().own("at ").foreign(&refusal.door).own(": ");
            let line = line.foreign(&refusal.what).own(times(refusal.count));
            section.push(line.own(": ").foreign(&refusal.reason));
        }
        section.more(self.refused.more);
        section
    }

    fn secrets(&self) -> Section {
        let mut section = empty("Credentials used");
        for used in &self.secrets.items {
            let line = Line::default().foreign(&used.credential).own(" for ");
            section.push(line.foreign(&used.towards).own(times(used.count)));
        }
        section.more(self.secrets.more);
        section
    }

    fn host_commands(&self) -> Section {
        let mut section = empty("Commands asked of the host");
        for approval in &self.approvals.items {
            let line = Line::default().foreign(&approval.command).own(": ");
            let line = match &approval.outcome {
                Some(outcome) => line.foreign(outcome),
                None => line.own("no decision"),
            };
            let line = match &approval.by {
                Some(by) => line.own(" by ").foreign(by),
                None => line,
            };
            let line = match &approval.reason {
                Some(reason) => line.own(" (").foreign(reason).own(")"),
                None => line,
            };
            let line = match approval.waited_ms {
                Some(waited) => line.own(format!(", waited {}", Took(waited))),
                None => line,
            };
            section.push(match approval.status {
                Some(status) => line.own(format!(", status {status}")),
                None => line,
            });
        }
        section.more(self.approvals.more);
        section
    }

    fn models(&self) -> Section {
        let mut section = empty("Models");
        for model in &self.models.items {
            let line = Line::default().foreign(&model.model).own(" at ").foreign(&model.provider);
            let mut words = format!(
                ": {} answers, {} tokens in, {} out, {} from caches, {:.4} USD",
                model.answers, model.input, model.output, model.cache_read, model.usd
            );
            if model.unpriced > 0 {
                words.push_str(&format!(", {} answers without a known price", model.unpriced));
            }
            if model.estimated > 0 {
                words.push_str(&format!(", {} estimated", model.estimated));
            }
            section.push(line.own(words));
        }
        section.more(self.models.more);
        section
    }

    fn memory(&self) -> Section {
        let mut section = empty("Diary");
        for used in &self.memory.items {
            section.push(Line::default().foreign(&used.tool).own(times(used.count)));
        }
        section.more(self.memory.more);
        section
    }

    fn troubles(&self) -> Section {
        let mut section = empty("Faults of pinfold's own");
        for fault in &self.faults.items {
            section.push(Line::default().foreign(fault));
        }
        section.more(self.faults.more);
        if self.not_recorded > 0 {
            let line =
                format!("{} records were not written: there were too many", self.not_recorded);
            section.push(Line::default().own(line));
        }
        section
    }
}

fn line_of(command: &Command) -> Line {
    let Command { status, limit, took_ms, .. } = command;
    let line = Line::default().foreign(&command.command);
    let line = match status {
        Some(status) => line.own(format!(": status {status}")),
        None => line.own(": no status"),
    };
    let line = match limit {
        Some(limit) => line.own(", by the limit ").foreign(limit),
        None => line,
    };
    match took_ms {
        Some(took) => line.own(format!(" after {}", Took(*took))),
        None => line,
    }
}

/// Returns a section without lines, which is not shown.
pub(crate) fn empty(heading: &'static str) -> Section {
    Section { heading, lines: Vec::new() }
}

/// Returns how often something was, unless it was once.
pub(crate) fn times(count: u64) -> String {
    if count == 1 { String::new() } else { format!(" ({count} times)") }
}
