//! What a boundary can enforce, and what stands in its way.

use serde::{Deserialize, Serialize};

/// What a boundary enforces on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Memory of the whole tree, by a control group.
    pub memory: bool,
    /// CPU share, by a control group.
    pub cpus: bool,
    /// Tasks of the whole tree.
    pub pids: bool,
    /// The Landlock ABI, 0 when there is none.
    pub landlock: u32,
}

/// One thing that `doctor` has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was found.
    pub what: String,
    /// What a person can do about it.
    pub cure: Option<String>,
    /// Whether the boundary cannot be used because of it.
    pub fatal: bool,
}

/// The result of looking.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// What it enforces.
    pub capabilities: Capabilities,
    /// Whether connections of programs that know of no proxy are handed over.
    pub hands_over: bool,
    /// What is worth saying, fatal findings first.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Whether nothing fatal was found.
    pub fn usable(&self) -> bool {
        !self.findings.iter().any(|finding| finding.fatal)
    }
}
