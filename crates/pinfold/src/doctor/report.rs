//! What `doctor` found, and how it is shown: a verdict first, then one line for each thing.

use std::fmt;

use pinfold_boundary::{Finding, Probe};
use serde_json::{Value, json};

use crate::print::Size;

/// What `doctor` found.
pub(super) struct Report {
    /// The boundaries by name. The first is the one that a run has by default.
    pub(super) boundaries: Vec<(String, Probe)>,
    /// The secrets that are kept or set.
    pub(super) keys: Vec<Key>,
    /// The names of the agents that can be run.
    pub(super) agents: Vec<String>,
    /// The agents that are unpacked, with their versions.
    pub(super) unpacked: Vec<(String, String)>,
    /// The room on the disk of pinfold's state, if it is known.
    pub(super) room: Option<Room>,
}

/// A secret.
pub(super) struct Key {
    pub(super) id: String,
    /// Where it comes from; none if it was set and is gone.
    pub(super) place: Option<String>,
}

/// The room on a disk.
pub(super) struct Room {
    /// In bytes.
    pub(super) free: u64,
    /// Whether so little is left that nothing is written any more.
    pub(super) is_short: bool,
}

/// Whether pinfold works on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    /// Without limits.
    Works,
    /// Something is weaker than it could be; each with a hint.
    WorksWithLimits(Vec<&'a Finding>),
    /// A run fails by default.
    DoesNotWork {
        /// What was found.
        finding: Option<&'a Finding>,
        /// Another boundary that works.
        other: Option<&'a str>,
    },
}

impl Report {
    /// Returns the verdict, by the boundary that a run has by default.
    pub(super) fn verdict(&self) -> Verdict<'_> {
        let first = self.boundaries.first().map(|(_, probe)| probe);
        match first {
            Some(probe) if !probe.usable() => Verdict::DoesNotWork {
                finding: probe.findings.iter().find(|finding| finding.fatal),
                other: self.other(),
            },
            None => Verdict::DoesNotWork { finding: None, other: None },
            Some(probe) if probe.findings.is_empty() => Verdict::Works,
            Some(probe) => Verdict::WorksWithLimits(probe.findings.iter().collect()),
        }
    }

    fn other(&self) -> Option<&str> {
        let usable = self.boundaries.iter().skip(1).find(|(_, probe)| probe.usable());
        usable.map(|(name, _)| name.as_str())
    }

    /// Returns the report for programs.
    pub(super) fn as_json(&self) -> Value {
        let verdict = match self.verdict() {
            Verdict::Works => "works",
            Verdict::WorksWithLimits(_) => "works-with-limits",
            Verdict::DoesNotWork { .. } => "does-not-work",
        };
        let keys = self.keys.iter().map(|key| json!({ "id": key.id, "place": key.place }));
        let unpacked = self
            .unpacked
            .iter()
            .map(|(agent, version)| json!({ "agent": agent, "version": version }));
        json!({
            "verdict": verdict,
            "boundaries": self.boundaries.iter().map(boundary_as_json).collect::<Vec<_>>(),
            "keys": keys.collect::<Vec<_>>(),
            "agents": self.agents,
            "unpacked": unpacked.collect::<Vec<_>>(),
            "free": self.room.as_ref().map(|room| room.free),
        })
    }
}

fn boundary_as_json((name, probe): &(String, Probe)) -> Value {
    let findings = probe.findings.iter().map(
        |finding| json!({ "what": finding.what, "hint": finding.hint, "fatal": finding.fatal }),
    );
    json!({
        "name": name,
        "usable": probe.usable(),
        "capabilities": {
            "memory": probe.capabilities.memory,
            "cpus": probe.capabilities.cpus,
            "pids": probe.capabilities.pids,
            "landlock": probe.capabilities.landlock,
            "hands-over": probe.hands_over,
        },
        "findings": findings.collect::<Vec<_>>(),
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.verdict())?;
        writeln!(f)?;
        for (name, probe) in &self.boundaries {
            writeln!(f, "{name}: {}", Boundary(probe))?;
        }
        writeln!(f, "keys: {}", Keys(&self.keys))?;
        writeln!(f, "agents: {}{}", self.agents.join(", "), Unpacked(&self.unpacked))?;
        match &self.room {
            None => write!(f, "disk: its room is not known"),
            Some(Room { free, is_short: false }) => {
                write!(
                    f,
                    "disk: {} free; `pinfold clean --dry-run` shows what pinfold uses",
                    Size(*free)
                )
            }
            Some(Room { free, is_short: true }) => {
                write!(
                    f,
                    "disk: almost full, {} free; `pinfold clean` frees what pinfold uses",
                    Size(*free)
                )
            }
        }
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => write!(f, "pinfold works on this machine"),
            Self::WorksWithLimits(findings) => {
                write!(f, "pinfold works on this machine with limits")?;
                let mut hints: Vec<&str> =
                    findings.iter().filter_map(|finding| finding.hint.as_deref()).collect();
                hints.dedup();
                if hints.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; to lift them: {}", hints.join("; "))
                }
            }
            Self::DoesNotWork { finding, other } => {
                write!(f, "pinfold does not work on this machine")?;
                if let Some(finding) = finding {
                    write!(f, ": {finding}", finding = Line(finding))?;
                }
                match other {
                    Some(name) => write!(f, "; {} works", option(name)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Returns the option that chooses a boundary by its name, such as `container (runc)`.
fn option(name: &str) -> String {
    match name.split_once(" (").and_then(|(_, engine)| engine.strip_suffix(')')) {
        Some(engine) => format!("`pinfold run --engine {engine}`"),
        None if name == "landlock" => {
            "the weaker `pinfold run --boundary landlock --workspace overlay`".to_owned()
        }
        None => format!("`pinfold run --boundary {name}`"),
    }
}

/// A finding on one line.
struct Line<'a>(&'a Finding);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.what)?;
        match &self.0.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// What a boundary can do, or why it cannot be used.
struct Boundary<'a>(&'a Probe);

impl fmt::Display for Boundary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Probe { capabilities, hands_over, is_closed, is_machine, findings } = self.0;
        if self.0.usable() {
            let group = if *is_machine { "of its own" } else { "limited by a control group" };
            write!(
                f,
                "works: {}, memory {}, CPUs {}, {}",
                match capabilities.landlock {
                    0 => "no Landlock".to_owned(),
                    version => format!("Landlock {version}"),
                },
                if capabilities.memory { group } else { "watched by init" },
                if capabilities.cpus { group } else { "not limited" },
                match (is_closed, hands_over) {
                    (true, _) => "no network",
                    (false, true) => "allowed hosts for any program",
                    (false, false) => "allowed hosts for programs that use a proxy",
                },
            )?;
        } else {
            write!(f, "does not work: ")?;
        }
        // The fatal ones come first.
        let fatal = findings.iter().filter(|finding| finding.fatal);
        write!(f, "{}", fatal.map(|it| Line(it).to_string()).collect::<Vec<_>>().join("; "))?;
        let notes = findings.iter().filter(|finding| !finding.fatal);
        notes.into_iter().try_for_each(|finding| write!(f, "; note: {}", Line(finding)))
    }
}

/// The keys on one line.
struct Keys<'a>(&'a [Key]);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "none; `pinfold secret set anthropic` stores one");
        }
        let shown = self.0.iter().map(|key| match &key.place {
            Some(place) => format!("{} ({place})", key.id),
            None => format!("{} (missing; `pinfold secret check {}` says why)", key.id, key.id),
        });
        write!(f, "{}", shown.collect::<Vec<_>>().join(", "))
    }
}

/// The unpacked agents on one line.
struct Unpacked<'a>(&'a [(String, String)]);

impl fmt::Display for Unpacked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "; none is unpacked yet, so the first run of one downloads it");
        }
        let shown = self.0.iter().map(|(agent, version)| format!("{agent} {version}"));
        write!(f, "; unpacked: {}", shown.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests;
