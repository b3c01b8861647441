//! The first phase: a copy of this process builds the sandbox's root.

use std::sync::Arc;

use pinfold_boundary::namespace::explain;
use pinfold_boundary::{Inside, Program};
use pinfold_host::audit::Audit;
use pinfold_host::sys;
use pinfold_host::wrappers::Launch;
use pinfold_policy::path::InsidePath;
use pinfold_policy::settings::Settings;
use pinfold_protect::masks::{Fall, Masks};
use pinfold_terminal::notices::Notices;
use pinfold_terminal::notices::attached::Bulletin;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_workspace::review::Review;

use crate::doors::records::{LiveLines, Records};
use crate::outcome::RunError;
use crate::request::Request;

use super::caller::Caller;
use super::dead::clean_up_after_others;
use super::registered::Registered;
use super::session::Session;

/// A sandbox whose init builds its root, and has the command without starting it.
pub(super) struct Launched {
    /// The command, as wrappers have it.
    launch: Launch,
    /// The helper that will keep masks in place.
    masks: Masks,
    inside: Inside,
    session: Session,
    caller: Caller,
}

impl Launched {
    /// Makes the processes that have to be copies of this one while it has one thread and has read no
    /// secret: init, and the helper for masks.
    ///
    /// # Errors
    /// Returns what the machine, the settings or the workspace do not allow.
    pub(super) fn launch(request: Request) -> Result<Self, RunError> {
        let (caller, stdio) = Caller::open(&request)?;
        let (session, mut inside) = Session::begin(request, &caller)?;
        session.request.launcher.act_for(&session.design.authority);
        // While init builds the root.
        let is_nested = session.request.nested && !inside.has_own_kernel();
        let masks = Masks::start(&inside, Fall::of_nested(is_nested))?;
        let launch = wrapped(&session.request, session.boundary.name())?;
        let program = Program {
            argv: launch.argv.clone(),
            env: launch.env.clone(),
            cwd: InsidePath::new(&launch.cwd).map_err(RunError::path)?,
            ignored: sys::ignored_signals(),
        };
        inside.command(&program, stdio).map_err(explain)?;
        Ok(Self { launch, masks, inside, session, caller })
    }

    /// Settles what killed sessions left here, gives the session its name, and opens its audit log.
    ///
    /// # Errors
    /// Returns that something could not be settled in time, that the name is taken, or that the log
    /// cannot be opened.
    pub(super) fn register(mut self) -> Result<Registered, RunError> {
        let granted = self.session.granted();
        let Session { state, request, .. } = &mut self.session;
        clean_up_after_others(state, request, &granted)?;
        if let Some(name) = &request.name {
            let named = state.set_name(&request.places, name);
            named.map_err(|error| RunError::refused(error, None))?;
        }
        Review::go_on_with_all(request.host());
        let id = Some(state.id().clone());
        let audit = Arc::new(Audit::open(&request.places.state, id).map_err(RunError::System)?);
        request.launcher.record_in(&audit);
        let passage = passage(request, &self.caller);
        let silent = request.silent_hosts.clone();
        let live = live_lines(request, &self.caller, passage.as_ref());
        let records = Arc::new(Records::new(Arc::clone(&audit), live, silent));
        let Self { launch, masks, inside, session, caller } = self;
        Ok(Registered { records, passage, audit, launch, masks, inside, session, caller })
    }
}

/// Returns where questions and notices can be shown on the caller's terminal, if there may be some.
fn passage(request: &Request, caller: &Caller) -> Option<Arc<Passage>> {
    let Settings { host_exec, ask, .. } = &request.settings;
    let asks = host_exec.enabled.value || ask.connections.value;
    let may_interrupt = request.provider.is_some() || asks;
    (may_interrupt && caller.terminal.is_some()).then(Arc::default)
}

/// Returns what is shown of refusals while the session lives.
fn live_lines(request: &Request, caller: &Caller, passage: Option<&Arc<Passage>>) -> LiveLines {
    match passage {
        Some(passage) => LiveLines::Urgent(Arc::new(Notices::new(Arc::clone(passage)))),
        None if caller.terminal.is_some() => LiveLines::None,
        None if request.window.is_some() => LiveLines::Attached(Arc::new(Bulletin::default())),
        None => LiveLines::All,
    }
}

/// Has the wrappers handle the command, if there is one.
///
/// # Errors
/// Returns that a wrapper refuses or fails.
fn wrapped(request: &Request, boundary: &str) -> Result<Launch, RunError> {
    let launch = Launch {
        argv: request.argv.clone(),
        env: request.env.clone(),
        cwd: request.workspace.cwd.as_path().to_owned(),
        handled_by: Vec::new(),
    };
    let is_idle = launch.argv.is_empty();
    Ok(if is_idle { launch } else { request.launcher.wrapped(boundary, launch)? })
}
