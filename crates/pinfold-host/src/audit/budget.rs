//! How much of the log one session may fill.
//!
//! What a session provokes is recorded up to a number of bytes, which grows again with time, so that
//! it cannot age what other sessions recorded. What does not fit is counted.

use std::time::Instant;

use pinfold_policy::path::cut;

use super::event::Event;

/// Bytes of a session's records: some thirty thousand.
const MOST: f64 = 8.0 * 1024.0 * 1024.0;
/// Bytes that come back each second, 256 KiB an hour: a session that records something every four
/// seconds loses nothing.
const RATE: f64 = 256.0 * 1024.0 / 3600.0;
/// Bytes beyond that for what does not happen unless it is recorded.
const RESERVE: f64 = 4.0 * 1024.0 * 1024.0;
/// Records of what the host took and did not take, at the end of a session.
const MOST_KEPT: u32 = 64;
/// The longest name in a record of what the sandbox provokes, in bytes.
const LONGEST: usize = 256;
/// The longest request to the host, or program with its arguments, that is recorded whole, in bytes.
const LONGEST_REQUEST: usize = 64 * 1024;
/// Items of a list in a longer one.
const MOST_ITEMS: usize = 64;

/// How a record counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// A user or pinfold itself makes it happen.
    Free,
    /// It does not happen unless it is recorded.
    Required,
    /// The sandbox can provoke it in any number.
    Provoked,
}

fn weight(event: &Event<'_>) -> Weight {
    match event {
        Event::Session { .. }
        | Event::Launch { .. }
        | Event::Exit { .. }
        | Event::Changed { .. }
        | Event::Tools
        | Event::Decision { .. }
        | Event::PolicyChange { .. }
        | Event::Review { .. }
        | Event::Trust { .. }
        | Event::Dropped { .. }
        | Event::End { .. } => Weight::Free,
        Event::Signature { .. }
        | Event::Memory { .. }
        | Event::HostExecRequest { .. }
        | Event::ConnectionRequest { .. }
        | Event::ConnectionDecision { outcome: "allow", .. }
        | Event::HostExecDecision { outcome: "allow", .. }
        | Event::HostExecEnd { .. } => Weight::Required,
        Event::CredentialUse { .. }
        | Event::Usage { .. }
        | Event::Connection { .. }
        | Event::HostExecDecision { .. }
        | Event::ConnectionDecision { .. }
        | Event::Denial { .. }
        | Event::ProviderFailure { .. }
        | Event::Fault { .. }
        | Event::Taken { .. }
        | Event::Kept { .. } => Weight::Provoked,
    }
}

/// What becomes of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is written.
    Write,
    /// It is counted only. The number of those so far is to be written if it is given.
    Drop(Option<u64>),
    /// It cannot be written, so what it is about must not happen.
    Refuse,
}

/// What is left of a session's budget.
#[derive(Debug)]
pub(super) struct Budget {
    left: f64,
    since: Instant,
    kept: u32,
    dropped: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: MOST, since: Instant::now(), kept: 0, dropped: 0 }
    }
}

impl Budget {
    /// Decides on a record of this length.
    pub(super) fn take(&mut self, event: &Event<'_>, length: usize) -> Verdict {
        let now = Instant::now();
        let back = now.duration_since(self.since).as_secs_f64() * RATE;
        (self.left, self.since) = ((self.left + back).min(MOST), now);
        let (weight, length) = (weight(event), length as f64);
        if weight == Weight::Required && self.left + RESERVE < length {
            return Verdict::Refuse;
        }
        let is_kept = matches!(event, Event::Kept { .. } | Event::Taken { .. });
        self.kept += u32::from(is_kept);
        let is_over = self.left < length || is_kept && self.kept > MOST_KEPT;
        if weight == Weight::Provoked && is_over {
            self.dropped += 1;
            // The numbers written are few, and a session that is killed has one, too.
            return Verdict::Drop(self.dropped.is_power_of_two().then_some(self.dropped));
        }
        if weight != Weight::Free {
            self.left -= length;
        }
        Verdict::Write
    }

    /// Returns how many records were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Serialises a record without its end. Names that the sandbox chose are cut.
///
/// # Errors
/// Returns the error of the serialiser.
pub(super) fn line(event: &Event<'_>) -> serde_json::Result<Vec<u8>> {
    if let Some(bounded) = bounded(event) {
        return serde_json::to_vec(&bounded);
    }
    let whole = serde_json::to_vec(event)?;
    match event {
        Event::HostExecRequest { id, executable, args, cwd } if whole.len() > LONGEST_REQUEST => {
            serde_json::to_vec(&Event::HostExecRequest {
                id: *id,
                executable: short(executable),
                args: few(args),
                cwd: short(cwd),
            })
        }
        // What the host runs for such a request has the same arguments.
        Event::Launch { purpose, argv, cwd, handled_by, number }
            if whole.len() > LONGEST_REQUEST =>
        {
            serde_json::to_vec(&Event::Launch {
                purpose: *purpose,
                argv: few(argv),
                cwd: short(cwd),
                handled_by: few(handled_by),
                number: *number,
            })
        }
        _ => Ok(whole),
    }
}

/// Returns a record with short names, of the kinds that have names which the sandbox chose.
fn bounded<'a>(event: &Event<'a>) -> Option<Event<'a>> {
    Some(match event {
        Event::Denial { door, what, reason } => {
            Event::Denial { door, what: short(what), reason: short(reason) }
        }
        Event::Kept { what, reason } => Event::Kept { what: short(what), reason: short(reason) },
        Event::Taken { what } => Event::Taken { what: short(what) },
        Event::Changed { added, changed, deleted, paths } => Event::Changed {
            added: *added,
            changed: *changed,
            deleted: *deleted,
            paths: paths.iter().take(MOST_ITEMS).map(|path| short(path)).collect(),
        },
        Event::Fault { what } => Event::Fault { what: short(what) },
        Event::Connection { to, rule } => Event::Connection { to: short(to), rule: short(rule) },
        Event::CredentialUse { provider, request, host } => Event::CredentialUse {
            provider: short(provider),
            request: short(request),
            host: short(host),
        },
        Event::Usage {
            provider,
            model,
            input,
            output,
            cache_read,
            cache_write,
            usd,
            estimated,
        } => Event::Usage {
            provider: short(provider),
            model: short(model),
            input: *input,
            output: *output,
            cache_read: *cache_read,
            cache_write: *cache_write,
            usd: *usd,
            estimated: *estimated,
        },
        _ => return None,
    })
}

fn short(text: &str) -> String {
    cut(text, LONGEST).into_owned()
}

fn few(texts: &[String]) -> Vec<String> {
    let more = texts.len().saturating_sub(MOST_ITEMS);
    let more = (more > 0).then(|| format!("… {more} more"));
    texts.iter().take(MOST_ITEMS).map(|text| short(text)).chain(more).collect()
}
