//! From records to reports.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use pinfold_host::audit::Reader;
use pinfold_policy::path::cut;
use serde_json::Value;

use crate::report::{
    Approval, Command, CredentialUse, Files, HostUse, MemoryUse, ModelUse, NotTaken, Refusal,
    Report, SessionState,
};
use crate::time::millis;

/// Bytes of a text at most.
const LONGEST: usize = 256;
/// Paths of files at most.
const MOST_PATHS: usize = 64;
/// Programs of a session whose end has not come: more than may run at once.
const MOST_PENDING: usize = 1024;

/// Which sessions are read.
#[derive(Debug, Clone, Copy)]
pub enum Sessions<'a> {
    /// All.
    All,
    /// Those that began at this time or later, in milliseconds since 1970.
    Since(u64),
    /// This one, by its id.
    One(&'a str),
}

/// Reports of sessions, in the order in which they began.
#[derive(Debug, Default)]
pub struct Reports {
    all: Vec<Collecting>,
    places: HashMap<String, usize>,
}

/// A report that grows.
#[derive(Debug, Default)]
struct Collecting {
    report: Report,
    began: u64,
    last: u64,
    first_launch: Option<u64>,
    first_resume: Option<u64>,
    command_launch: Option<u64>,
    command_exit: Option<u64>,
    /// Programs of clients that have not ended, by their numbers, with the time of their start.
    pending: HashMap<u64, (Command, u64)>,
    /// When commands on the host were asked for, and were allowed.
    asked: HashMap<u64, u64>,
    allowed: HashMap<u64, u64>,
}

impl Reports {
    /// Reads the log of a state directory.
    ///
    /// # Errors
    /// Returns the error of reading the log.
    pub fn read(state: &Path, sessions: Sessions<'_>, live: &HashSet<String>) -> io::Result<Self> {
        let mut reports = Self::default();
        let Some(mut reader) = Reader::open(state)? else { return Ok(reports) };
        let is_meant = |session: &str| match sessions {
            Sessions::All | Sessions::Since(_) => true,
            Sessions::One(one) => session == one,
        };
        while let Some(record) = reader.next_of(is_meant)? {
            reports.add(&record, sessions);
        }
        for one in reports.all.iter_mut().filter(|one| live.contains(&one.report.session)) {
            one.report.state = SessionState::Running;
        }
        Ok(reports)
    }

    /// Returns the reports.
    #[must_use]
    pub fn finish(self) -> Vec<Report> {
        self.all.into_iter().map(Collecting::finish).collect()
    }

    fn add(&mut self, record: &Value, sessions: Sessions<'_>) {
        let Some(session) = record["session"].as_str() else { return };
        let time = record["time"].as_str().unwrap_or_default();
        let Some(at) = millis(time) else { return };
        if record["event"] == "session" {
            if matches!(sessions, Sessions::Since(since) if at < since) {
                return;
            }
            self.places.insert(session.to_owned(), self.all.len());
            self.all.push(Collecting::begin(session, time, at, record));
            return;
        }
        // Records of a session whose beginning has been removed say too little.
        if let Some(place) = self.places.get(session)
            && let Some(one) = self.all.get_mut(*place)
        {
            one.last = one.last.max(at);
            one.add(record, at);
        }
    }
}

impl Collecting {
    fn begin(session: &str, time: &str, at: u64, record: &Value) -> Self {
        let report = Report {
            session: session.to_owned(),
            subject: text(record, "subject"),
            name: optional(record, "name"),
            identity: optional(record, "identity"),
            workspace: text(record, "workspace"),
            boundary: text(record, "boundary"),
            started: time.to_owned(),
            ..Report::default()
        };
        Self { report, began: at, last: at, ..Self::default() }
    }

    fn add(&mut self, record: &Value, at: u64) {
        let report = &mut self.report;
        match record["event"].as_str().unwrap_or_default() {
            "launch" => self.launch(record, at),
            "exit" => self.exit(record, at),
            "end" => {
                report.state = SessionState::Ended;
                (report.status, report.limit) = (status(record), optional(record, "limit"));
                let exit = self.command_exit;
                report.phases.settle_ms = exit.map(|exit| at.saturating_sub(exit));
            }
            "changed" => {
                let paths = record["paths"].as_array().into_iter().flatten();
                let paths = paths.filter_map(Value::as_str).take(MOST_PATHS).map(short);
                report.files = Some(Files {
                    added: number(record, "added"),
                    changed: number(record, "changed"),
                    deleted: number(record, "deleted"),
                    paths: paths.collect(),
                    decision: None,
                });
            }
            "review" => {
                report.files.get_or_insert_default().decision = optional(record, "what");
            }
            "taken" => report.taken.push(text(record, "what")),
            "kept" => {
                let (what, reason) = (text(record, "what"), text(record, "reason"));
                report.not_taken.push(NotTaken { what, reason });
            }
            "policy-change" => {
                let change = format!("{} {}", text(record, "what"), text(record, "rule"));
                report.policy_changes.push(change);
            }
            "fault" => report.faults.push(text(record, "what")),
            "dropped" => report.not_recorded = number(record, "records"),
            "host-exec-request" => self.asked(record, at),
            "host-exec-decision" => self.decided(record, at),
            "host-exec-end" => self.ended_on_host(record, at),
            _ => count(report, record),
        }
    }

    fn launch(&mut self, record: &Value, at: u64) {
        let purpose = text(record, "purpose");
        // What pinfold itself runs on the host is no work of the session's.
        if purpose == "host" {
            return;
        }
        self.first_launch.get_or_insert(at);
        let purpose_is_resume = purpose == "resume";
        let command = command(record, "argv");
        let command = Command { purpose, command, status: None, limit: None, took_ms: None };
        if purpose_is_resume {
            self.first_resume.get_or_insert(at);
        }
        self.report.commands.started += 1;
        match (&*command.purpose, record["number"].as_u64()) {
            ("command", _) => {
                self.command_launch = Some(at);
                self.report.commands.first.push(command);
            }
            (_, Some(number)) if self.pending.len() < MOST_PENDING => {
                self.pending.insert(number, (command, at));
            }
            _ => self.report.commands.first.push(command),
        }
    }

    fn exit(&mut self, record: &Value, at: u64) {
        let commands = &mut self.report.commands;
        let (status, limit) = (status(record), optional(record, "limit"));
        let has_failed = status != Some(0);
        commands.failed += u64::from(has_failed);
        let Some(number) = record["number"].as_u64() else {
            self.command_exit = Some(at);
            let is_it = |command: &&mut Command| command.purpose == "command";
            if let Some(command) = commands.first.items.iter_mut().find(is_it) {
                (command.status, command.limit) = (status, limit);
                command.took_ms = self.command_launch.map(|launch| at.saturating_sub(launch));
                if has_failed {
                    commands.failures.push(command.clone());
                }
            }
            return;
        };
        if let Some((command, began)) = self.pending.remove(&number) {
            let took_ms = Some(at.saturating_sub(began));
            let command = Command { status, limit, took_ms, ..command };
            if has_failed {
                commands.failures.push(command.clone());
            }
            commands.first.push(command);
        }
    }

    fn asked(&mut self, record: &Value, at: u64) {
        let id = number(record, "id");
        if self.asked.len() < MOST_PENDING {
            self.asked.insert(id, at);
        }
        let words = [short(&text(record, "executable")), command(record, "args")];
        self.report.approvals.push(Approval {
            id,
            command: short(words.join(" ").trim_end()),
            outcome: None,
            by: None,
            reason: None,
            status: None,
            waited_ms: None,
            took_ms: None,
        });
    }

    fn decided(&mut self, record: &Value, at: u64) {
        let id = number(record, "id");
        let waited = self.asked.remove(&id).map(|asked| at.saturating_sub(asked));
        self.report.phases.waiting_ms += waited.unwrap_or_default();
        if record["outcome"] == "allow" && self.allowed.len() < MOST_PENDING {
            self.allowed.insert(id, at);
        }
        if let Some(approval) = self.report.approval(id) {
            approval.outcome = optional(record, "outcome");
            approval.by = optional(record, "by");
            approval.reason = optional(record, "reason").or_else(|| optional(record, "rule"));
            approval.waited_ms = waited;
        }
    }

    fn ended_on_host(&mut self, record: &Value, at: u64) {
        let id = number(record, "id");
        let took = self.allowed.remove(&id).map(|allowed| at.saturating_sub(allowed));
        self.report.phases.on_host_ms += took.unwrap_or_default();
        if let Some(approval) = self.report.approval(id) {
            (approval.status, approval.took_ms) = (status(record), took);
        }
    }

    fn finish(mut self) -> Report {
        let mut pending: Vec<_> = self.pending.into_iter().collect();
        pending.sort_unstable_by_key(|(number, _)| *number);
        pending.into_iter().for_each(|(_, (command, _))| self.report.commands.first.push(command));
        let phases = &mut self.report.phases;
        phases.total_ms = self.last.saturating_sub(self.began);
        phases.start_ms = self.first_launch.map(|first| first.saturating_sub(self.began));
        let command = self.command_launch;
        let between = |begin: Option<u64>, end: Option<u64>| Some(end?.saturating_sub(begin?));
        phases.resume_ms = between(self.first_resume, command);
        phases.command_ms = between(command, self.command_exit);
        self.report
    }
}

impl Report {
    fn approval(&mut self, id: u64) -> Option<&mut Approval> {
        self.approvals.items.iter_mut().find(|approval| approval.id == id)
    }
}

/// Counts a record of something that happens often.
fn count(report: &mut Report, record: &Value) {
    match record["event"].as_str().unwrap_or_default() {
        "connection" => {
            let (host, rule) = (text(record, "to"), text(record, "rule"));
            let is_it = |known: &HostUse| known.host == host && known.rule == rule;
            let new = || HostUse { host: host.clone(), rule: rule.clone(), count: 0 };
            report.hosts.find_or_add(is_it, new).into_iter().for_each(|known| known.count += 1);
        }
        "denial" => {
            let [door, what, reason] = ["door", "what", "reason"].map(|key| text(record, key));
            let is_it = |known: &Refusal| {
                known.what == what && known.door == door && known.reason == reason
            };
            let new = || Refusal {
                door: door.clone(),
                what: what.clone(),
                reason: reason.clone(),
                count: 0,
            };
            report.refused.find_or_add(is_it, new).into_iter().for_each(|known| known.count += 1);
        }
        "credential-use" => count_secret(report, text(record, "provider"), text(record, "host")),
        "signature" => {
            let login = record["login"]["host"].as_str().map(short);
            let towards = login.unwrap_or_else(|| text(record, "purpose"));
            count_secret(report, text(record, "key"), towards);
        }
        "usage" => count_usage(report, record),
        "memory" => {
            let tool = text(record, "tool");
            let is_it = |known: &MemoryUse| known.tool == tool;
            let new = || MemoryUse { tool: tool.clone(), count: 0 };
            report.memory.find_or_add(is_it, new).into_iter().for_each(|known| known.count += 1);
        }
        _ => {}
    }
}

fn count_secret(report: &mut Report, credential: String, towards: String) {
    let is_it = |known: &CredentialUse| known.credential == credential && known.towards == towards;
    let new =
        || CredentialUse { credential: credential.clone(), towards: towards.clone(), count: 0 };
    report.secrets.find_or_add(is_it, new).into_iter().for_each(|known| known.count += 1);
}

fn count_usage(report: &mut Report, record: &Value) {
    let (provider, model) = (text(record, "provider"), text(record, "model"));
    let is_it = |known: &ModelUse| known.provider == provider && known.model == model;
    let new =
        || ModelUse { provider: provider.clone(), model: model.clone(), ..ModelUse::default() };
    let Some(known) = report.models.find_or_add(is_it, new) else { return };
    known.answers += 1;
    for (sum, key) in [
        (&mut known.input, "input"),
        (&mut known.output, "output"),
        (&mut known.cache_read, "cache_read"),
        (&mut known.cache_write, "cache_write"),
    ] {
        *sum = sum.saturating_add(number(record, key));
    }
    let usd = record["usd"].as_f64().filter(|usd| usd.is_finite() && *usd >= 0.0);
    known.usd += usd.unwrap_or_default();
    known.unpriced += u64::from(usd.is_none());
    known.estimated += u64::from(record["estimated"] == true);
}

fn short(text: &str) -> String {
    cut(text, LONGEST).into_owned()
}

fn text(record: &Value, key: &str) -> String {
    short(record[key].as_str().unwrap_or_default())
}

fn optional(record: &Value, key: &str) -> Option<String> {
    record[key].as_str().map(short)
}

fn number(record: &Value, key: &str) -> u64 {
    record[key].as_u64().unwrap_or_default()
}

fn status(record: &Value) -> Option<u8> {
    record["status"].as_u64().and_then(|status| u8::try_from(status).ok())
}

/// Returns a list of words as one text, cut.
fn command(record: &Value, key: &str) -> String {
    let words = record[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut whole = String::new();
    for word in words {
        if whole.len() > LONGEST {
            break;
        }
        whole.push_str(if whole.is_empty() { "" } else { " " });
        whole.push_str(&cut(word, LONGEST));
    }
    short(&whole)
}

#[cfg(test)]
mod tests;
