//! What a question says, wherever it is shown.

use crate::approvals::{Pending, Subject};

/// Returns what the sandbox wants, in general.
pub(crate) fn title_of(pending: &Pending) -> &'static str {
    match pending.subject {
        Subject::Command { .. } => "the sandbox asks to run on this machine",
        Subject::Connection { .. } => "the sandbox asks to reach a host that no rule names",
    }
}

/// Returns what it wants in particular, and what a user should know of it. The first line is the most important.
pub(crate) fn lines_of(pending: &Pending) -> Vec<String> {
    let mut lines = match &pending.subject {
        Subject::Command { command, cwd, .. } => vec![command.clone(), format!("in {cwd}")],
        Subject::Connection { host, port, protocol } => {
            vec![format!("{host}:{port}"), spoken(protocol)]
        }
    };
    lines.extend(pending.details.iter().cloned());
    lines
}

fn spoken(protocol: &str) -> String {
    match protocol {
        "tls" => "encrypted (TLS)".to_owned(),
        "http" => "in the clear (HTTP)".to_owned(),
        _ => "anything that is spoken there (TCP)".to_owned(),
    }
}
