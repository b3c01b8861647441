//! The last phase: nothing of the session runs any more, and what it left is settled.

use std::sync::Arc;

use pinfold_host::audit::{Audit, Event};
use pinfold_host::note::{Note, Topic};
use pinfold_protect::masks::{Fell, Helper};
use pinfold_protect::patience::Patience;
use pinfold_terminal::notify;
use pinfold_workspace::git::sync::Synced;
use pinfold_workspace::review;

use crate::design::Design;
use crate::doors::records::Records;
use crate::outcome::{LimitReached, Outcome, RunError};

use super::record::record_settled;
use super::session::Session;

/// A session whose sandbox has ended.
pub(super) struct Ended {
    /// How its command ended, or why it did not run.
    pub(super) outcome: Result<Outcome, RunError>,
    /// What was brought in step while it lived.
    pub(super) synced: Synced,
    /// What became of the masks.
    pub(super) fell: Fell,
    pub(super) records: Arc<Records>,
    pub(super) audit: Arc<Audit>,
    pub(super) session: Session,
    /// What kept the masks. It takes a while to end, and is waited for last.
    pub(super) helper: Option<Helper>,
}

impl Ended {
    /// Checks what ran inside and what it left, however it ended.
    ///
    /// # Errors
    /// Returns why the command was not run, or the error of writing the log.
    pub(super) fn conclude(self) -> Result<Outcome, RunError> {
        let Self { outcome, synced, fell, records, audit, session, helper: _helper } = self;
        let Session { state, design: Design { layer, guard, .. }, request, memory, .. } = session;
        drop(memory);
        if let Ok(outcome) = &outcome {
            let limit = outcome.limit.map(LimitReached::name);
            let exit = Event::Exit { number: None, status: outcome.status, limit };
            audit.record(&exit).map_err(RunError::System)?;
        }
        let mut notes = records.rest();
        notes.extend(fell.notes.into_iter().map(Note::warning));
        let patience = Patience::at_end();
        let (settings, places) = (&request.settings, &request.places);
        let settled = guard.settle(settings, places, synced, &fell.saved, &patience);
        notes.extend(record_settled(&settled, &audit).map_err(RunError::System)?);
        if settled.is_cut {
            let what = "not everything that the session changed was looked at: the next `pinfold run` \
                        finishes it; run no git and no builds there before that";
            notes.insert(0, Note::warning(what));
        }
        if let Ok(outcome) = &outcome {
            let limit = outcome.limit.map(LimitReached::name);
            let event = Event::End { status: outcome.status, limit };
            audit.record(&event).map_err(RunError::System)?;
        }
        let id = state.id().clone();
        drop(guard);
        if layer.is_some() {
            let status = outcome.as_ref().ok().map(|outcome| outcome.status);
            let host = request.host();
            notes.extend(review::conclude(host, &id, &request.settings, status, &audit));
        }
        // A client that waits for the session's end finds its changes applied.
        if settled.is_cut {
            state.leave();
        } else {
            drop(state);
        }
        let used = records.used();
        notes.extend(used.in_words().map(|text| Note::new(Topic::Usage, text)));
        let mut outcome = outcome.inspect_err(|_| notify::notes(&notes, Some(&id)))?;
        outcome.notes.extend(notes);
        outcome.session = Some(id);
        outcome.reached = records.reached();
        outcome.used = used;
        outcome.timeline.done("settles and cleans up");
        Ok(outcome)
    }
}
