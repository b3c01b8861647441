//! What a session will be, before anything runs in it.
//!
//! Finding a design changes nothing. The directories that its plan names are made afterwards, so a
//! request that is refused leaves nothing behind.

mod plan;
pub(crate) mod system_user;

use std::path::PathBuf;
use std::sync::Arc;

use pinfold_boundary::{Boundary, Entry, LaunchPlan, Place};
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::SessionState;
use pinfold_hostexec as hostexec;
use pinfold_personal::caller_trust::{CallerTrust, named_by_settings};
use pinfold_policy::authority::Authority;
use pinfold_policy::path::HostPath;
use pinfold_protect::own::Own;
use pinfold_protect::stand_in::StandIns;
use pinfold_workspace::generated::{self, Generated};
use pinfold_workspace::guard::{self, Guard};
use pinfold_workspace::review::Layer;
use pinfold_workspace::shadow::{self, Shadow};

use crate::boundaries;
use crate::doors;
use crate::doors::certificates::{self, Trust};
use crate::doors::ssh::Ssh;
use crate::doors::{gitconfig, github};
use crate::outcome::RunError;
use crate::request::Request;
use crate::view::View;

/// What a session will be, apart from what is launched.
#[derive(Debug)]
pub(crate) struct Design {
    pub(crate) view: View,
    /// What the grants alone say.
    pub(crate) authority: Authority,
    pub(crate) layer: Option<Layer>,
    pub(crate) guard: Guard,
    pub(crate) trust: Option<Trust>,
    pub(crate) stand_ins: Option<StandIns>,
}

/// Decides what a request needs before it can be designed.
///
/// # Errors
/// Returns an error for a boundary that this version does not have, or a remote that cannot be read.
pub(crate) fn settle(request: &mut Request) -> Result<Box<dyn Boundary>, RunError> {
    let boundary = boundaries::choose(
        &request.settings,
        &request.places,
        &boundaries::written(&request.settings, request.workspace.root.as_path()),
        &request.launcher,
    )?;
    github::broker(&mut request.settings, &request.workspace)?;
    Ok(boundary)
}

/// Returns a new session with its design, and the plan of its inside. The directories are made.
///
/// # Errors
/// Returns what the machine, the settings or the workspace do not allow.
pub(crate) fn make(request: &Request) -> Result<(Design, SessionState, LaunchPlan), RunError> {
    let state = SessionState::create(&request.places).map_err(RunError::System)?;
    let (mut design, plan) = Design::find(request, state.id())?;
    design.make_places(request)?;
    if let Some(mine) = &request.my_config {
        mine.make(state.private()).map_err(RunError::System)?;
    }
    Ok((design, state, plan))
}

impl Design {
    /// Decides what the session of this name will be. Changes nothing.
    ///
    /// # Errors
    /// Returns what the settings or the workspace do not allow.
    pub(crate) fn find(request: &Request, id: &SessionId) -> Result<(Self, LaunchPlan), RunError> {
        let Request { settings, workspace, places, stack, .. } = request;
        let stack = stack.as_ref();
        let (subject, extra) = (request.subject.clone(), request.extra.clone());
        let view = View::collect(subject, settings, workspace, stack, extra)?;
        let authority = view.authority()?;
        let own = Own::find(places).map_err(RunError::System)?;
        guard::refuse(&authority, &own, settings, places)?;
        generated::refuse(&authority)?;
        let over = workspace.under_view(settings);
        let layer = over.map(|_| Layer::of(places, id));
        let shadows = shadow::find(settings, workspace)?;
        let mounts = shadows.iter().map(Shadow::entries).collect::<Result<Vec<_>, _>>()?;
        let copies = copies(places, id, layer.as_ref());
        let mut guard =
            Guard::new(&copies, id, over, shadows, Arc::new(own), request.launcher.clone());
        guard.keep_trusted(named_by_settings(places));
        if let Some(branch) = &request.only {
            guard.hold_to(branch);
        }
        if request.discards_commits {
            guard.isolate_repositories();
        }
        let mut plan = plan::plan(&view, &authority, settings, stack)?;
        if let Some(layer) = &layer {
            plan::put_view(&mut plan, &workspace.root, layer)?;
        }
        plan.tree.extend(guard.entries(workspace.root.as_path(), places)?);
        let private = SessionState::private_of(places, id);
        let mine = request.my_config.as_ref().map(|mine| mine.entries(&private)).transpose()?;
        plan.tree.extend(mine.into_iter().flatten());
        plan.tree.extend(request.files.iter().cloned());
        plan.tree.extend(system_user::entries(stack).map_err(RunError::path)?);
        plan.tree.extend(mounts.into_iter().flatten());
        let trust = certificates::is_needed(settings)
            .then(|| Trust::new(&private, stack.cloned(), request.caller_trust.clone()));
        if trust.is_none() && stack.is_some_and(|stack| !stack.is_built()) {
            plan.tree.extend(certificates::of_host(&request.caller_trust).map_err(RunError::path)?);
        }
        let of_caller =
            (!certificates::names_stores(settings, stack)).then_some(&request.caller_trust);
        let stores = of_caller.map(CallerTrust::entries).transpose().map_err(RunError::path)?;
        plan.tree.extend(stores.into_iter().flatten());
        plan.tree.extend(trust.as_ref().map(Trust::entry).transpose()?);
        let stand_ins = (!settings.secrets.is_empty()).then(|| StandIns::new(&private));
        plan.tree.extend(stand_ins.as_ref().map(StandIns::entry).transpose()?);
        plan.nested = request.nested;
        let ssh = request.ssh.as_ref();
        plan.tree.extend(ssh.map(Ssh::entries).transpose()?.into_iter().flatten());
        plan.tree.extend(gitconfig::entry(settings, ssh, of_caller)?);
        plan.tree.extend(hostexec::entries(&settings.host_exec)?);
        let diary = pinfold_mcp::door(settings);
        plan.tree.extend(diary.as_ref().map(|_| doors::memory::entry()).transpose()?);
        let generated = Generated::take_out(&mut plan.tree, &authority, over)?;
        guard.put_over(generated);
        plan.doors = hostexec::door(&settings.host_exec).into_iter().chain(diary).collect();
        let (with_gateway, lives_on) = (request.provider.is_some(), request.lives_on());
        plan.doors.extend(doors::wanted(with_gateway, lives_on, settings, ssh)?);
        // What lies in pinfold's own directories is nobody else's to enter, and leaves them without such bits.
        let of_state = |host: &HostPath| host.as_path().starts_with(&places.state);
        let is_open =
            |entry: &Entry| matches!(&entry.place, Place::Writable(host) if !of_state(host));
        plan.leaves_nothing = !plan.tree.iter().any(is_open);
        system_user::refuse_shared_files(stack, &plan, settings)?;
        Ok((Self { view, authority, layer, guard, trust, stand_ins }, plan))
    }

    /// Makes the directories that the plan names. They have to be there when it is launched.
    ///
    /// # Errors
    /// Returns the file system's error; a workspace that no view can be made of.
    fn make_places(&mut self, request: &Request) -> Result<(), RunError> {
        if let Some(layer) = &mut self.layer {
            layer.make(&request.workspace.root, self.guard.shadows())?;
        }
        self.guard.make().map_err(RunError::System)?;
        self.stand_ins.as_ref().map_or(Ok(()), StandIns::make).map_err(RunError::System)?;
        self.trust.as_ref().map_or(Ok(()), Trust::make).map_err(RunError::System)
    }
}

/// Returns where the private copies of git directories lie.
fn copies(places: &Places, id: &SessionId, layer: Option<&Layer>) -> PathBuf {
    match layer {
        Some(layer) => layer.private().to_owned(),
        None => SessionState::private_of(places, id),
    }
}
