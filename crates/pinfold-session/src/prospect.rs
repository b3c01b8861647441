//! What a run would have, for a caller that only asks.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pinfold_host::Host;
use pinfold_personal::caller_trust::named_by_settings;
use pinfold_policy::authority::{Authority, Subject};
use pinfold_policy::path::InsidePath;
use pinfold_policy::settings::Settings;
use pinfold_protect::tracked::Tracked;
use pinfold_rootfs::system::Stack;
use pinfold_workspace::guard::{self, Found};
use pinfold_worktree::workspace::Workspace;

use crate::RunError;
use crate::agent::{AgentFiles, read_grants};
use crate::group::{Group, Missing};
use crate::view::View;

/// What pinfold has in each sandbox, read-only.
const OWN: &str = "/run/pinfold";

/// The authority that a run would have here and now, without starting one.
#[derive(Debug)]
pub struct Prospect {
    pub authority: Authority,
    /// Links of the sandbox's root, each with where it leads.
    pub links: Vec<(InsidePath, OsString)>,
    tracked: Tracked,
    public: BTreeSet<PathBuf>,
    userland: Vec<InsidePath>,
    directories: Vec<InsidePath>,
}

impl Prospect {
    /// Returns whether a path that nobody granted lies in a directory of the session's own system that is empty at its start.
    #[must_use]
    pub fn is_private(&self, inside: &InsidePath) -> bool {
        let is_in = |directory: &InsidePath| inside.starts_with(directory);
        self.directories.iter().any(is_in) && !inside.starts_with(&InsidePath::from_static(OWN))
    }

    /// Returns what the authority alone does not tell of a path on the host: why it is not hidden
    /// although its name says that it holds a secret.
    #[must_use]
    pub fn note(&self, host: &Path) -> Option<&'static str> {
        if self.tracked.same.contains(host) {
            Some(
                "its name would hide it, but git has this very content, and the sandbox reads what git \
                 has",
            )
        } else if self.public.contains(host) {
            Some("its name would hide it, but it holds public certificates of the system alone")
        } else {
            None
        }
    }

    /// Returns whether a path in the sandbox is a directory of the host's system that nobody has named.
    #[must_use]
    pub fn is_unnamed(&self, inside: &InsidePath) -> bool {
        self.userland.contains(inside)
    }
}

/// Looks at what a run would have here and now; of the agent's, too, if one is named.
///
/// # Errors
/// Returns the errors of the start of a run.
pub fn prospect(
    settings: &Settings,
    named: Option<&str>,
    workspace: &Workspace,
    stack: Option<&Stack>,
    host: Host<'_>,
) -> Result<Prospect, RunError> {
    let places = host.places;
    let agent = settings.scalars.agent.as_ref().map_or("command", |agent| agent.value.as_str());
    let mut extra = Vec::new();
    if named.is_some() {
        let files = AgentFiles::read(places)?;
        let profile =
            files.registry().load(agent).map_err(|error| RunError::refused(error, None))?;
        extra = read_grants(&profile, settings, places)?;
    }
    let group = Group::find(settings, workspace, places, Missing::LeaveOut, &mut extra)?;
    extra.extend(group.extra);
    let subject = Subject::AgentSession { agent: agent.into() };
    let view = View::collect(subject, settings, workspace, stack, extra)?;
    let found =
        guard::look(&view.authority()?, settings, workspace, host, named_by_settings(host.places))?;
    let Found { restrictions, tracked, public } = found;
    let authority = view.restricted(restrictions)?;
    let directories = view.directories().to_vec();
    let (links, userland) = (view.links, view.userland);
    Ok(Prospect { authority, links, tracked, public, userland, directories })
}
