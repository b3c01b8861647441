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
        let Self { outcome, synced, mut fell, records, audit, session, helper: _helper } = self;
        let Session { state, design: Design { layer, guard, .. }, request, memory, .. } = session;
        drop(memory);
        // A log that cannot be written (a full disk) keeps nothing from being settled and shown.
        let mut recorded = Ok(());
        let end = outcome.as_ref().ok().map(|ran| (ran.status, ran.limit.map(LimitReached::name)));
        if let Some((status, limit)) = end {
            recorded = audit.record(&Event::Exit { number: None, status, limit });
        }
        let mut notes = records.rest();
        notes.extend(std::mem::take(&mut fell.notes).into_iter().map(Note::warning));
        let patience = Patience::at_end();
        let (settings, places) = (&request.settings, &request.places);
        let settled = guard.settle(settings, places, synced, &fell, &patience);
        recorded = recorded.and(record_settled(&settled, &audit));
        notes.extend(settled.notes());
        if settled.is_cut {
            notes.insert(0, Note::warning("not everything that the session changed was looked at: the next `pinfold run` finishes it; run no git and no builds there before that"));
        }
        if let Some((status, limit)) = end {
            recorded = recorded.and(audit.record(&Event::End { status, limit }));
        }
        let id = state.id().clone();
        drop(guard);
        if layer.is_some() {
            let (status, host) = (end.map(|(status, _)| status), request.host());
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
        let outcome =
            outcome.and_then(|outcome| recorded.map(|()| outcome).map_err(RunError::System));
        let mut outcome = outcome.inspect_err(|_| notify::notes(&notes, Some(&id)))?;
        outcome.notes.extend(notes);
        outcome.session = Some(id);
        outcome.reached = records.reached();
        outcome.used = used;
        outcome.timeline.done("settles and cleans up");
        Ok(outcome)
    }
}
