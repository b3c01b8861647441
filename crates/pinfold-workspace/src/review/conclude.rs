//! The end of a session with a copy-on-write view.

use std::io;

use pinfold_host::Host;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::note::{Note, Topic};
use pinfold_host::session_id::SessionId;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::Settings;

use super::automatic;
use super::changes::Changes;
use super::ended::Review;
use super::error::ReviewError;

/// Paths that are recorded one by one at most.
const MOST_RECORDED: usize = 64;

/// Looks at what a session that has just ended changed, so that later changes of others can be
/// distinguished from it, and says what a user can do with it. An empty layer is removed.
///
/// Where the settings say so, harmless changes of a command that succeeded are applied.
pub fn conclude(
    host: Host<'_>,
    session: &SessionId,
    settings: &Settings,
    status: Option<u8>,
    audit: &Audit,
) -> Vec<Note> {
    let mut applied = Vec::new();
    let mut look = || {
        let review = Review::open_own(host, session)?;
        let changes = review.changes()?;
        let has_commits = review.has_commits();
        let own_mode = review.changed_own_mode();
        if changes.list.is_empty() && !has_commits {
            review.discard()?;
            return Ok((None, own_mode));
        }
        record(&changes, audit).map_err(ReviewError::system("the audit log"))?;
        if automatic::is_wanted(settings, status) {
            applied = automatic::apply(review, &changes, settings, audit)?;
            return Ok((None, own_mode));
        }
        Ok((Some((changes.counts(), has_commits)), own_mode))
    };
    let (looked, own_mode) = match look() {
        Ok((looked, own_mode)) => (Ok(looked), own_mode),
        Err(error) => (Err(error), false),
    };
    let mut notes = match looked {
        Ok(None) => Vec::new(),
        Ok(Some(((added, changed, deleted), has_commits))) => {
            let commits = if has_commits { ", and commits" } else { "" };
            let text = format!(
                "changed in a view of the workspace: {added} added, {changed} changed, {deleted} \
                 deleted{commits}; `pinfold diff {session}` shows it, `pinfold apply {session}` \
                 takes it over, `pinfold discard {session}` drops it"
            );
            vec![Note::new(Topic::Waiting, text)]
        }
        Err(error) => {
            let error: ReviewError = error;
            let text = format!("what session {session} changed cannot be looked at: {error}");
            vec![Note::warning(text)]
        }
    };
    notes.extend(applied);
    if own_mode {
        let text = "the mode of the workspace itself stays as it was: no view changes it";
        notes.push(Note::new(Topic::Waiting, text));
    }
    notes
}

/// Records which files a session changed.
///
/// # Errors
/// Returns the error of writing the log.
fn record(changes: &Changes, audit: &Audit) -> io::Result<()> {
    let (added, changed, deleted) = changes.counts();
    let files = changes.list.iter().filter(|change| !change.is_directory());
    let paths = files.take(MOST_RECORDED).map(|change| Escaped(&change.path).to_string());
    audit.record(&Event::Changed { added, changed, deleted, paths: paths.collect() })
}
