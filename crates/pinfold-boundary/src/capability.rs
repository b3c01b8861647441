//! What a boundary can enforce, and what stands in its way.

use crate::LaunchError;

/// What a boundary enforces on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Memory of the whole tree, by a control group.
    pub memory: bool,
    /// CPU share, by a control group.
    pub cpus: bool,
    /// Tasks of the whole tree.
    pub pids: bool,
    /// The Landlock ABI, 0 without Landlock.
    pub landlock: u32,
}

/// What a session can have that not every boundary gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// The second wall. What it lacks in verdicts others carry.
    Landlock,
    /// A terminal of the sandbox's own.
    Terminal,
    /// Ports of the sandbox's that the host can reach.
    Publish,
    /// Sandboxes that programs make inside.
    Nested,
    /// The workspace itself, and no view of it.
    Checkout,
    /// Hosts, a model, keys, commands on the host or a diary.
    Doors,
    /// A system of an image or a snapshot, in the place of the machine's own.
    System,
    /// A user who is root by name in such a system.
    Root,
}

impl Feature {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Landlock,
        Self::Terminal,
        Self::Publish,
        Self::Nested,
        Self::Checkout,
        Self::Doors,
        Self::System,
        Self::Root,
    ];

    /// Words that read well after "has no".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Landlock => "Landlock",
            Self::Terminal => "terminal of its own",
            Self::Publish => "port that the host can reach",
            Self::Nested => "nested sandboxes",
            Self::Checkout => "live workspace",
            Self::Doors => "network, model or other door",
            Self::System => "system of an image or a snapshot",
            Self::Root => "user that is root by name (`snapshot.user`)",
        }
    }
}

/// One thing that `doctor` has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was found.
    pub what: String,
    /// What a user can do about it.
    pub hint: Option<String>,
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
    /// Whether a sandbox reaches nothing outside, whatever is allowed.
    pub is_closed: bool,
    /// Whether a sandbox is a machine, whose memory and processors are the limits.
    pub is_machine: bool,
    /// What is worth saying, fatal findings first.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Returns the capability of a boundary that cannot be used because of this error.
    pub(crate) fn unusable(error: &LaunchError) -> Self {
        let hint = error.hint().map(str::to_owned);
        let finding = Finding { what: error.to_string(), hint, fatal: true };
        Self { findings: vec![finding], ..Self::default() }
    }

    /// Returns whether nothing fatal was found.
    pub fn usable(&self) -> bool {
        !self.findings.iter().any(|finding| finding.fatal)
    }
}
