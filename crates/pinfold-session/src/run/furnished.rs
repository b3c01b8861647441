//! The third phase: masks and doors are in place, and the sandbox is sealed. Next everything that serves it
//! is started.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use pinfold_ask::Desk;
use pinfold_boundary::{Inside, LiveView, Mask};
use pinfold_host::audit::Audit;
use pinfold_host::sys;
use pinfold_host::wrappers::Launch;
use pinfold_hostexec::Broker;
use pinfold_protect::masks::Kept;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_workspace::git::sync::Sync;
use pinfold_workspace::guard::Guard;

use crate::control::{Base, Control, Rules};
use crate::doors::Opened;
use crate::doors::records::Records;
use crate::doors::server::DoorServer;
use crate::outcome::RunError;
use crate::spec::Return;
use crate::supervise::disk_watch::DiskWatch;
use crate::supervise::{HASTE, Progress, Supervision};

use super::caller::Caller;
use super::live::refresh;
use super::session::Session;
use super::supervised::Supervised;

/// A sandbox that is sealed, whose command waits for the order to start.
pub(super) struct Furnished {
    /// The view of the workspace, if it has one.
    pub(super) view: Option<LiveView>,
    /// All masks.
    pub(super) all: Vec<Mask>,
    pub(super) broker: Option<Broker>,
    pub(super) desk: Option<Arc<Desk>>,
    pub(super) masks: Option<Kept>,
    pub(super) opened: Opened,
    pub(super) records: Arc<Records>,
    pub(super) passage: Option<Arc<Passage>>,
    pub(super) audit: Arc<Audit>,
    pub(super) launch: Launch,
    pub(super) inside: Inside,
    pub(super) session: Session,
    pub(super) caller: Caller,
}

impl Furnished {
    /// Opens the control socket, and starts what moves bytes, watches limits and keeps both sides in
    /// step.
    ///
    /// # Errors
    /// Returns the error of making a socket or of starting a thread, or why init has failed.
    pub(super) fn supervise(mut self) -> Result<Supervised, RunError> {
        let base = self.base();
        let Session { state, request, .. } = &mut self.session;
        let rules = self.opened.policy.map(|policy| Rules {
            policy,
            ceiling: request.settings.ceiling.clone(),
            audit: Arc::clone(&self.audit),
            by_proxy: self.opened.by_proxy,
        });
        sys::allow_many_files();
        let control = Control::open(state.private(), rules, base, Arc::clone(&self.audit));
        let control = control.map_err(RunError::System)?.with_desk(self.desk.clone());
        let control = control.with_bulletin(self.records.bulletin());
        let (outputs, input) = self.caller.moved.start().map_err(RunError::thread)?;
        let disk_watch =
            request.bound.take().map(DiskWatch::watch).transpose().map_err(RunError::thread)?;
        let timeout = request.settings.limits.timeout.as_ref();
        let background = request.background.take();
        let mut supervision = Supervision {
            inside: self.inside,
            signals: self.caller.signals,
            terminal: self.caller.terminal,
            window: request.window,
            inner: None,
            outputs,
            input,
            serving: DoorServer::new(self.opened.egress, Arc::clone(&self.records)),
            control,
            broker: self.broker,
            desk: self.desk,
            passage: self.passage,
            sockets: self.opened.sockets,
            is_idle: request.argv.is_empty(),
            disk_watch,
            deadline: timeout.map(|timeout| Instant::now() + timeout.value.duration()),
            background: background.map(|under| under.of(state.id(), request.name.as_ref())),
            running: None,
            drained: Vec::new(),
            state: Progress {
                timeline: std::mem::take(&mut request.timeline),
                spec: Return::of(request.returns_spec),
                ..Progress::default()
            },
        };
        supervision.inside.limit_patience(HASTE).map_err(RunError::System)?;
        supervision.receive_terminal()?;
        state.lend_lock().map_err(RunError::System)?;
        let sync = bring_in_step(&self.session.design.guard).map_err(RunError::thread)?;
        let refresh = refresh(self.view, &self.session, self.all, self.masks.as_ref());
        Ok(Supervised {
            refresh: refresh.map_err(RunError::thread)?,
            sync,
            supervision,
            masks: self.masks,
            variables: self.opened.variables,
            launch: self.launch,
            records: self.records,
            audit: self.audit,
            session: self.session,
        })
    }

    /// Returns what clients of the control socket are given for what they run.
    fn base(&self) -> Base {
        let Session { boundary, request, .. } = &self.session;
        Base {
            env: request.env.clone(),
            variables: self.opened.variables.clone(),
            cwd: request.workspace.cwd.as_bytes().to_vec(),
            roots: self.session.roots(),
            boundary: boundary.name(),
            lacks: boundary.lacks(),
            launcher: request.launcher.clone(),
        }
    }
}

/// Starts to bring the repositories in step with the host's.
///
/// # Errors
/// Returns the error of starting a thread.
fn bring_in_step(guard: &Guard) -> io::Result<Option<Sync>> {
    match guard.host_git() {
        Ok(git) => Sync::start(Arc::new(guard.repositories()), git),
        // The end of the session says so.
        Err(_) => Ok(None),
    }
}
