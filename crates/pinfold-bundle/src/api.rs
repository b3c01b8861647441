//! The interfaces that start processes or threads, and what is there instead.

use std::fmt;

/// A module of Node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    ChildProcess,
    Cluster,
    WorkerThreads,
}

const ALL: [Api; 3] = [Api::ChildProcess, Api::Cluster, Api::WorkerThreads];

impl Api {
    fn name(self) -> &'static str {
        match self {
            Self::ChildProcess => "child_process",
            Self::Cluster => "cluster",
            Self::WorkerThreads => "worker_threads",
        }
    }

    /// Returns the one that a specifier means, as [`plain`] gives it.
    pub(crate) fn of_specifier(specifier: &str) -> Option<Self> {
        let name = specifier.strip_prefix("node:").unwrap_or(specifier);
        ALL.into_iter().find(|api| api.name() == name)
    }

    /// Returns the one that a name of Node's internal bindings belongs to (node/src/node_binding.cc).
    pub(crate) fn of_binding(name: &str) -> Option<Self> {
        match name {
            "process_wrap" | "spawn_sync" => Some(Self::ChildProcess),
            "worker" => Some(Self::WorkerThreads),
            _ => None,
        }
    }

    /// Returns the one that a word means wherever it stands. `cluster` alone is a word like any other.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let internal = || Self::of_binding(word).filter(|_| word != "worker");
        Self::of_specifier(word).filter(|_| word != "cluster").or_else(internal)
    }

    /// Returns whether one of them, or what holds code or leads to a file, could begin so.
    pub(crate) fn may_begin(prefix: &str) -> bool {
        let is_one = |api: Api| {
            api.name().starts_with(prefix) || format!("node:{}", api.name()).starts_with(prefix)
        };
        ALL.into_iter().any(is_one)
            || ["data:", "file:"].iter().any(|scheme| scheme.starts_with(prefix))
            || ["data:", "file:", "/"].iter().any(|scheme| prefix.starts_with(scheme))
    }

    /// Returns what is there instead.
    pub(crate) fn replacement(self) -> &'static str {
        match self {
            Self::ChildProcess => "run commands by the session's bash tool, ctx.shell or ctx.git",
            Self::Cluster | Self::WorkerThreads => "run it next to the session as a background run",
        }
    }
}

/// Returns a specifier as the parser of URLs reads it (url.spec.whatwg.org, "basic URL parser"): without
/// white space at its ends, tabs and newlines, and its scheme in small letters.
pub(crate) fn plain(specifier: &str) -> String {
    let trimmed = specifier.trim_matches(|one: char| one <= ' ');
    let kept: String = trimmed.chars().filter(|one| !matches!(one, '\t' | '\n' | '\r')).collect();
    match kept.split_once(':') {
        Some((scheme, rest)) => format!("{}:{rest}", scheme.to_ascii_lowercase()),
        None => kept,
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
