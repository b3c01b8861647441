//! The fourth phase: everything that serves the session runs. Next its command does, to its end.

use std::io;
use std::sync::Arc;

use pinfold_host::audit::{Audit, Purpose};
use pinfold_host::launcher::record_launch;
use pinfold_host::session_id::SessionId;
use pinfold_host::wrappers::Launch;
use pinfold_protect::masks::Kept;
use pinfold_protect::refresh::Refresh;
use pinfold_workspace::git::sync::Sync;

use crate::doors::records::Records;

use crate::outcome::{Outcome, RunError};
use crate::supervise::Supervision;
use crate::supervise::resume::Resume;

use super::ended::Ended;
use super::idle;
use super::session::Session;

/// A session that is served, whose command waits for the order to start.
pub(super) struct Supervised {
    pub(super) refresh: Option<Refresh>,
    pub(super) sync: Option<Sync>,
    pub(super) supervision: Supervision,
    pub(super) masks: Option<Kept>,
    /// What the doors add to the command's environment.
    pub(super) variables: Vec<Vec<u8>>,
    pub(super) launch: Launch,
    pub(super) records: Arc<Records>,
    pub(super) audit: Arc<Audit>,
    pub(super) session: Session,
}

impl Supervised {
    /// Runs the repository's commands and then the session's, and ends everything that served it.
    pub(super) fn until_end(self) -> Ended {
        let Self { session, audit, launch, supervision, .. } = self;
        let request = &session.request;
        let resume = Resume {
            commands: &request.settings.resume,
            mode: request.settings.scalars.workspace_mode.value,
            env: &request.env,
            variables: &self.variables,
            cwd: &request.workspace.root,
            audit: &audit,
            launcher: &request.launcher,
            boundary: session.boundary.name(),
        };
        let is_idle = supervision.is_idle;
        let record =
            || if is_idle { Ok(()) } else { record_launch(&audit, Purpose::Command, &launch) };
        let waits = is_idle && supervision.background.is_none();
        let announced = waits.then(|| session.state.id());
        let outcome = conduct(supervision, &resume, record, announced);
        // It has the masks' channel.
        let below = self.refresh.map(Refresh::end).unwrap_or_default();
        let (fell, helper) = self.masks.map(Kept::end).unzip();
        let synced = self.sync.map(Sync::end).unwrap_or_default();
        let mut fell = fell.unwrap_or_default();
        fell.add(below);
        Ended { outcome, synced, fell, records: self.records, audit, session, helper }
    }
}

/// Conducts the session, from the repository's commands to the end of everything inside.
fn conduct(
    mut supervision: Supervision,
    resume: &Resume<'_>,
    record: impl FnOnce() -> io::Result<()>,
    announced: Option<&SessionId>,
) -> Result<Outcome, RunError> {
    match supervision.resume(resume) {
        Ok(true) => {
            record().map_err(RunError::System)?;
            supervision.start(resume.variables.to_vec())?;
            announced.map_or(Ok(()), idle::announce).map_err(RunError::System)?;
            supervision.state.timeline.done("records the start");
        }
        // Its end is on its way.
        Ok(false) => {}
        Err(error) => {
            supervision.inside.kill();
            supervision.until_end()?;
            return Err(error);
        }
    }
    supervision.until_end()
}
