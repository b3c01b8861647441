//! Counting what sessions use of models, against what they may.
//!
//! A session's own count is in memory. What lasts a day or a month is one small file for each
//! budget, `<state>/budget/NAME.json`, under a lock next to it and written in one piece: sessions
//! at once share it, and one that is killed loses nothing of what it has written down. That a
//! request was admitted is on the disk before it is sent; of its answer the last seconds may be
//! lost with the machine's power.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pinfold_egress::{Budget, Over};
use pinfold_host::directories::Places;
use pinfold_policy::count::counted;
use pinfold_policy::prices::{Prices, Tokens};
use pinfold_policy::settings::{self, BudgetOf, Window};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

/// Seconds of a day, leap seconds left out as POSIX time does.
const DAY: u64 = 24 * 60 * 60;

/// Bytes of a count's file. Within one sector of a disk a write is done or not done, so that the
/// file is never between two counts; blanks fill it up.
const SIZE: usize = 256;

/// The budgets that a session is under.
pub struct Budgets {
    budgets: Vec<Kept>,
    prices: Prices,
}

/// A budget with its count.
struct Kept {
    budget: settings::Budget,
    /// The file of a count that lasts longer than a session.
    file: Option<PathBuf>,
    /// The count of a session.
    own: Mutex<Count>,
}

/// What was used within a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    /// The day or month.
    window: String,
    requests: u64,
    tokens: u64,
    /// Billionths of a USD.
    nano_usd: u64,
    /// Reserved by requests that are under way, or were when a session was killed. Absent without
    /// any, as in files of before.
    #[serde(default, skip_serializing_if = "is_none")]
    reserved_tokens: u64,
    /// The same in billionths of a USD.
    #[serde(default, skip_serializing_if = "is_none")]
    reserved_nano_usd: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(reserved: &u64) -> bool {
    *reserved == 0
}

/// Tokens and money, more or less than was counted before.
struct Change {
    tokens: i128,
    nano_usd: i128,
}

impl Budgets {
    /// Returns the budgets of settings, counted in the state directory. Reads no count yet.
    pub fn new(budgets: Vec<settings::Budget>, prices: Prices, places: &Places) -> Self {
        let directory = places.state.join("budget");
        let file = |budget: &settings::Budget| {
            let name = match &budget.of {
                BudgetOf::User => "user".to_owned(),
                BudgetOf::Group(name) => format!("group-{name}"),
                BudgetOf::Tasks => "tasks".to_owned(),
                BudgetOf::Administrator => "administrator".to_owned(),
            };
            let lasts = budget.per != Window::Session;
            lasts.then(|| directory.join(format!("{name}.json")))
        };
        let kept = |budget| Kept { file: file(&budget), budget, own: Mutex::default() };
        Self { budgets: budgets.into_iter().map(kept).collect(), prices }
    }

    fn limits_money(&self) -> bool {
        self.budgets.iter().any(|kept| kept.budget.usd.is_some())
    }

    fn change(&self, model: Option<&str>, before: &Tokens, now: &Tokens) -> Change {
        let cost =
            |tokens: &Tokens| i128::from(model.and_then(|m| self.cost(m, tokens)).unwrap_or(0));
        Change {
            tokens: i128::from(now.sum()) - i128::from(before.sum()),
            nano_usd: cost(now) - cost(before),
        }
    }
}

impl Count {
    fn reserve(&mut self, change: &Change) {
        self.reserved_tokens = changed(self.reserved_tokens, change.tokens);
        self.reserved_nano_usd = changed(self.reserved_nano_usd, change.nano_usd);
    }
}

impl Budget for Budgets {
    fn needs_model(&self) -> bool {
        self.limits_money()
    }

    fn limits_requests(&self) -> bool {
        self.budgets.iter().any(|kept| kept.budget.requests.is_some())
    }

    fn limits_answers(&self) -> bool {
        self.limits_money() || self.budgets.iter().any(|kept| kept.budget.tokens.is_some())
    }

    fn admit(&self, model: Option<&str>, reserved: &Tokens) -> Result<(), Over> {
        if let Some(model) = model.filter(|_| self.limits_money())
            && self.prices.of(model).is_none()
        {
            return Err(Over::Unpriced { model: model.to_owned() });
        }
        // All are asked before any is charged.
        for kept in &self.budgets {
            kept.with(|count| kept.spent(count, Of::Before))??;
        }
        let change = self.change(model, &Tokens::default(), reserved);
        for kept in &self.budgets {
            kept.with(|count| {
                let outcome = kept.spent(count, Of::Before);
                if outcome.is_ok() {
                    count.requests += 1;
                    count.reserve(&change);
                }
                outcome
            })??;
        }
        Ok(())
    }

    fn spend(&self, model: Option<&str>, before: &Tokens, now: &Tokens) -> Result<(), Over> {
        let change = self.change(model, before, now);
        let mut outcome = Ok(());
        for kept in &self.budgets {
            let counted = kept.with(|count| {
                count.tokens = changed(count.tokens, change.tokens);
                count.nano_usd = changed(count.nano_usd, change.nano_usd);
                kept.spent(count, Of::During)
            });
            outcome = outcome.and(counted.and_then(|outcome| outcome));
        }
        outcome
    }

    fn release(&self, model: Option<&str>, reserved: &Tokens) {
        let change = self.change(model, reserved, &Tokens::default());
        for kept in self.budgets.iter().filter(|_| *reserved != Tokens::default()) {
            // What cannot be given back stays reserved.
            let _ = kept.with(|count| count.reserve(&change));
        }
    }

    fn cost(&self, model: &str, tokens: &Tokens) -> Option<u64> {
        self.prices.of(model).map(|price| price.cost(tokens))
    }
}

fn changed(count: u64, by: i128) -> u64 {
    u64::try_from((i128::from(count) + by).max(0)).unwrap_or(u64::MAX)
}

/// When a budget is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Before a request: what is used up allows no more.
    Before,
    /// During an answer: what is passed ends it.
    During,
}

impl Kept {
    /// Checks that something of the budget is left.
    fn spent(&self, count: &Count, when: Of) -> Result<(), Over> {
        let is_over = |used: u64, limit: u64| match when {
            Of::Before => used >= limit,
            Of::During => used > limit,
        };
        let budget = &self.budget;
        let per = match budget.per {
            Window::Session => "for this session",
            Window::Day => "for today",
            Window::Month => "for this month",
        };
        let over = |what: String, origin: &pinfold_policy::origin::Origin| {
            let what = format!("{} of {what} {per} (set by {origin})", budget.of);
            let (reset, after) = reset(budget.per);
            Err(Over::Spent { what, reset, after })
        };
        if let Some(limit) = budget.requests.as_ref().filter(|_| when == Of::Before)
            && is_over(count.requests, limit.value)
        {
            return over(counted(limit.value, "request"), &limit.origin);
        }
        if let Some(limit) = budget.tokens.as_ref().filter(|l| is_over(count.tokens, l.value)) {
            return over(counted(limit.value, "token"), &limit.origin);
        }
        if let Some(limit) = budget.usd.as_ref().filter(|l| is_over(count.nano_usd, l.value.0)) {
            return over(limit.value.to_string(), &limit.origin);
        }
        let is_left = |used: u64, reserved: u64, limit: u64| {
            when == Of::During || used.saturating_add(reserved) < limit
        };
        let tokens_are_left = budget
            .tokens
            .as_ref()
            .is_none_or(|limit| is_left(count.tokens, count.reserved_tokens, limit.value));
        let money_is_left = budget
            .usd
            .as_ref()
            .is_none_or(|limit| is_left(count.nano_usd, count.reserved_nano_usd, limit.value.0));
        if tokens_are_left && money_is_left {
            return Ok(());
        }
        Err(Over::Reserved { what: format!("{} {per}", budget.of) })
    }

    /// Works on the count, alone among all sessions.
    fn with<T>(&self, work: impl FnOnce(&mut Count) -> T) -> Result<T, Over> {
        let Some(file) = &self.file else {
            return Ok(work(&mut self.own.lock()));
        };
        let broken =
            |error: io::Error| Over::Broken { cause: format!("{}: {error}", file.display()) };
        with_file(file, self.budget.per, work).map_err(broken)
    }
}

fn with_file<T>(path: &Path, per: Window, work: impl FnOnce(&mut Count) -> T) -> io::Result<T> {
    if let Some(directory) = path.parent() {
        Places::make_private(directory)?;
    }
    let _lock = locked(&path.with_extension("lock"))?;
    let window = window(per, now());
    let mut file = private().read(true).open(path)?;
    let mut text = Vec::with_capacity(SIZE);
    file.read_to_end(&mut text)?;
    let mut count = match text.as_slice() {
        // It was made, and nothing was counted yet.
        [] => Count::default(),
        text => serde_json::from_slice::<Count>(text)?,
    };
    if count.window != window {
        count = Count { window, ..Count::default() };
    }
    let before = count.clone();
    let outcome = work(&mut count);
    if count != before {
        let mut text = serde_json::to_vec(&count)?;
        text.resize(text.len().max(SIZE), b' ');
        file.write_all_at(&text, 0)?;
        // Once for a request, not for each piece of its answer.
        if count.requests != before.requests {
            file.sync_data()?;
        }
    }
    Ok(outcome)
}

/// Returns how a file of the user's own is opened, or made.
fn private() -> OpenOptions {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(nofollow);
    options
}

/// Returns a lock that goes with its file's descriptor (flock(2)).
fn locked(path: &Path) -> io::Result<File> {
    let file = private().open(path)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the name of the window that a time lies in: `2026-11-22`, `2026-11`.
fn window(per: Window, time: Duration) -> String {
    let date = humantime::format_rfc3339_seconds(UNIX_EPOCH + time).to_string();
    let length = match per {
        Window::Session => 0,
        Window::Day => "2026-11-22".len(),
        Window::Month => "2026-11".len(),
    };
    date.chars().take(length).collect()
}

/// Returns when the window ends, in words and from now on.
fn reset(per: Window) -> (String, Option<Duration>) {
    if per == Window::Session {
        let more = "the user who started the session can start another one with a larger budget";
        return (more.to_owned(), None);
    }
    let now = now();
    let today = window(per, now);
    let midnights = (1..=31).map(|days| Duration::from_secs((now.as_secs() / DAY + days) * DAY));
    let end = midnights.into_iter().find(|time| window(per, *time) != today).unwrap_or(now);
    let words = humantime::format_rfc3339_seconds(UNIX_EPOCH + end);
    (format!("it starts again at {words}"), Some(end.saturating_sub(now)))
}

#[cfg(test)]
mod tests;
