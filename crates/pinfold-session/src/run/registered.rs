//! The second phase: the session has its name and its audit log. Next it is furnished.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use pinfold_ask::Desk;
use pinfold_boundary::namespace::explain;
use pinfold_boundary::{Doors, Inside, Mask};
use pinfold_hide as hide;
use pinfold_host::audit::Audit;
use pinfold_host::wrappers::Launch;
use pinfold_hostexec::{Broker, Context, PathMap, SoFar};
use pinfold_policy::authority::Authority;
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_protect::masks::Masks;
use pinfold_terminal::notify;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_workspace::review::Layer;

use crate::design::Design;
use crate::doors::records::Records;
use crate::doors::{self, Behind, Opened, questions};
use crate::outcome::RunError;
use crate::request::Request;

use super::caller::Caller;
use super::furnished::Furnished;
use super::live::{Live, keep};
use super::nested;
use super::record::{record_session, say_what_is_hidden, say_what_is_less};
use super::session::Session;

/// A session with its name and its audit log, whose init still builds the root.
pub(super) struct Registered {
    pub(super) records: Arc<Records>,
    pub(super) passage: Option<Arc<Passage>>,
    pub(super) audit: Arc<Audit>,
    pub(super) launch: Launch,
    pub(super) masks: Masks,
    pub(super) inside: Inside,
    pub(super) session: Session,
    pub(super) caller: Caller,
}

impl Registered {
    /// Scans the workspace while init builds the root, opens the doors, lets init seal the sandbox once
    /// all of that is recorded, and has the masks kept.
    ///
    /// # Errors
    /// Returns that the workspace cannot be protected, a door cannot be opened, the log cannot be
    /// written, or init has failed.
    pub(super) fn furnish(mut self) -> Result<Furnished, RunError> {
        let authority = self.restrict()?;
        let mut doors = self.inside.doors().map_err(explain)?;
        let (mounts, view) = (doors.mounts.take(), doors.view.take());
        let host_exec = self.host_exec_door(&mut doors);
        let memory = self.memory_door(&mut doors);
        let Session { request, state, .. } = &self.session;
        let desk = questions::desk(request, state, &self.audit, self.passage.as_ref())?;
        let mut opened = self.open(doors, desk.as_ref())?;
        let masks = self.masks(&authority, &opened)?;
        self.record(&authority)?;
        let all = masks.iter().cloned().chain(std::mem::take(&mut opened.masks)).collect();
        self.inside.seal(all).map_err(explain)?;
        if let Some(listener) = memory {
            let Session { request, state, memory, .. } = &mut self.session;
            let session = state.id().as_str();
            *memory =
                doors::memory::serve(listener, request, session, &self.audit, &opened.variables)?;
        }

        let live = Live { masks, mounts };
        let all = live.masks.clone();
        let Request { workspace, settings, .. } = &self.session.request;
        let over = workspace.under_view(settings);
        let path_map = PathMap::new(authority, over.cloned());
        let over = over.map(HostPath::as_path);
        let masks = keep(self.masks, live, &mut self.inside, over).map_err(RunError::thread)?;
        let serve = |(listener, desk)| broker(listener, path_map, &self.session, &self.audit, desk);
        let broker = host_exec.zip(desk.as_ref()).map(serve).transpose()?;
        self.session.request.timeline.done("scans the workspace");
        let Self { records, passage, audit, launch, inside, session, caller, .. } = self;
        Ok(Furnished {
            view,
            all,
            broker,
            desk,
            masks,
            opened,
            records,
            passage,
            audit,
            launch,
            inside,
            session,
            caller,
        })
    }

    /// Scans the workspace, and adds what is found there to what the grants alone say.
    ///
    /// # Errors
    /// Returns that the workspace cannot be protected.
    fn restrict(&mut self) -> Result<Authority, RunError> {
        let Session { design, state, request, .. } = &mut self.session;
        let Request { settings, workspace, places, .. } = &*request;
        let Design { view, authority, layer, guard, .. } = design;
        layer.as_mut().map_or(Ok(()), Layer::begin).map_err(RunError::System)?;
        let restrictions = guard.prepare(authority, settings, places, state)?;
        let authority = view.restricted(restrictions)?;
        say_what_is_hidden(&authority, workspace);
        for path in hide::replaced(places, workspace.root.as_path()) {
            let path = Escaped(&path);
            notify!(
                "pinfold: note: the link of {path}, which was hidden, is a file again, as after a \
                 save by renaming (`pinfold hide {path}` moves it out again)"
            );
        }
        Ok(authority)
    }

    /// Takes the listener for commands on the host, if there is one. It is the first of the plan's.
    fn host_exec_door(&self, doors: &mut Doors) -> Option<OwnedFd> {
        let is_asked = self.session.request.settings.host_exec.enabled.value;
        (is_asked && !doors.sockets.is_empty()).then(|| doors.sockets.remove(0))
    }

    /// Takes the listener for a diary, if there is one. It is the next of the plan's.
    fn memory_door(&self, doors: &mut Doors) -> Option<OwnedFd> {
        let is_wanted = pinfold_mcp::door(&self.session.request.settings).is_some();
        (is_wanted && !doors.sockets.is_empty()).then(|| doors.sockets.remove(0))
    }

    /// Puts together what serves the doors. Reads secrets.
    ///
    /// # Errors
    /// Returns the errors of [`doors::open`].
    fn open(&mut self, doors: Doors, desk: Option<&Arc<Desk>>) -> Result<Opened, RunError> {
        let request = &self.session.request;
        let doorkeeper = desk.and_then(|desk| questions::doorkeeper(request, desk, &self.audit));
        let Session { design, request, .. } = &mut self.session;
        let (provider, ssh) = (request.provider.take(), request.ssh.take());
        let behind = Behind { provider, ssh, doorkeeper };
        let trust = design.trust.as_ref();
        let host = request.host();
        let settings = &request.settings;
        doors::open(doors, behind, settings, host, &self.records, trust)
    }

    /// Returns the masks of the session.
    ///
    /// # Errors
    /// Returns the error of writing the files behind them, or refuses masks that could not be kept.
    fn masks(&mut self, authority: &Authority, opened: &Opened) -> Result<Vec<Mask>, RunError> {
        let Session { design: Design { guard, stand_ins, .. }, request, .. } = &mut self.session;
        let Request { settings, workspace, .. } = request;
        if let Some(stand_ins) = stand_ins {
            stand_ins.fill(authority, &opened.variables).map_err(RunError::System)?;
        }
        let masks = guard.masks(authority, stand_ins.as_ref());
        if request.nested && !self.inside.has_own_kernel() {
            let over = workspace.under_view(settings).map(HostPath::as_path);
            nested::refuse_live_masks(&masks, over, workspace)?;
        }
        Ok(masks)
    }

    /// Records what the sandbox will be, in the audit log and with its changes.
    ///
    /// # Errors
    /// Returns the error of writing a record.
    fn record(&mut self, authority: &Authority) -> Result<(), RunError> {
        let Session { design, boundary, request, .. } = &mut self.session;
        let Request { settings, workspace, argv, .. } = &*request;
        let Design { layer, guard, .. } = design;
        if request.nested {
            nested::refuse_loose_memory(settings, &self.inside)?;
        }
        say_what_is_less(settings, &self.inside, boundary.lacks(), request.nested);
        let name = boundary.name();
        let record = record_session(authority, request, name, &self.inside);
        self.audit.record(&record).map_err(RunError::System)?;
        let Some(layer) = layer else { return Ok(()) };
        if let Some(note) = Layer::note(&workspace.root) {
            notify!("pinfold: note: {note}");
        }
        let mut record = layer
            .describe(&workspace.root, authority.subject(), argv, settings)
            .map_err(RunError::System)?;
        guard.complete(&mut record);
        layer.record(&record, guard.names()).map_err(RunError::System)
    }
}

/// Returns what serves the door for commands on the host.
///
/// # Errors
/// Returns the error of making a descriptor.
fn broker(
    listener: OwnedFd,
    path_map: PathMap,
    session: &Session,
    audit: &Arc<Audit>,
    desk: &Arc<Desk>,
) -> Result<Broker, RunError> {
    let Request { settings, workspace, places, launcher, .. } = &session.request;
    let launcher = launcher.leaving_out(path_map.writable());
    let context = Context {
        settings: settings.clone(),
        path_map,
        desk: Arc::clone(desk),
        audit: Arc::clone(audit),
        places: places.clone(),
        launcher,
        repository: questions::repository(workspace),
        known: session.design.guard.known(places),
        place: session.state.private().join("host-exec"),
        so_far: SoFar::default(),
    };
    Broker::new(listener, context).map_err(RunError::System)
}
