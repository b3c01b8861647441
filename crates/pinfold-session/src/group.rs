//! What the sessions of a group see of the host's besides the workspace (requirement 2.7): its own
//! directories at fixed places, and what an allowlist outside every project lets them see.
//!
//! | host, below `group_home.root` | inside | access |
//! |---|---|---|
//! | `groups/<folder>` | `/workspace/group` | rw |
//! | `data/sessions/<folder>/.claude`, and other state of the agent's | `/home/agent/.claude`, … | rw |
//! | `group_home.scripts` | `/workspace/scripts` | ro |
//! | `group_home.runner` | `/app/src` | ro |
//! | `data/ipc/<folder>` | `/workspace/ipc` | rw |
//! | `data/env/<folder>/env`, of it the names in `group_home.env` | `/workspace/env-dir/env` | ro |
//! | `config.toml` | `/workspace/project/config.toml` | rw, for admins |
//! | `repo_access` | `/workspace/project` | rw |
//! | `mounts` | `/workspace/extra/…` | as the allowlist says |

mod allowed;
mod home;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_boundary::{Entry, Place};
use pinfold_host::directories::Places;
use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::env::{EnvLayer, EnvVar};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use pinfold_policy::settings::{GroupFiles, GroupHome, GroupTrust, Settings};
use pinfold_rootfs::userland::HOME;
use pinfold_worktree::workspace::{GIT_OUTSIDE, Workspace, git_outside};

use self::allowed::Allowed;
use self::home::Home;
use crate::RunError;
use pinfold_personal::identity::variables;
use pinfold_rootfs::extra::Extra;

/// Where the agent's state lies, of every agent's.
const CLAUDE: &str = ".claude";
/// Where the variables are written that a group's sessions have.
const ENV: &str = "/workspace/env-dir/env";
/// Where a worktree appears, and what admins' sessions see in it.
const PROJECT: &str = "/workspace/project";
const CONFIG: &str = "config.toml";

/// What becomes of a group's directories that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are made.
    Make,
    /// They are left out: nothing is to be changed.
    LeaveOut,
}

/// What a group's session gets.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Grants.
    pub extra: Vec<Extra>,
    /// Files.
    pub files: Vec<Entry>,
    /// Variables.
    pub env: Vec<EnvVar>,
    /// What was left out or narrowed, and why.
    pub notes: Vec<String>,
}

impl Group {
    /// Finds the group that the settings choose; nothing if groups have no files. `agent` is what comes with
    /// the agent: of that its state is the group's own.
    ///
    /// # Errors
    /// Returns an error for a directory that is not available, or is not the group's alone.
    pub(crate) fn find(
        settings: &Settings,
        workspace: &Workspace,
        places: &Places,
        missing: Missing,
        agent: &mut Vec<Extra>,
    ) -> Result<Self, RunError> {
        let (Some(home), Some(files)) = (&settings.group_home, &settings.group_files) else {
            return Ok(Self::default());
        };
        let is_admin = settings.group_trust.value == GroupTrust::Admin;
        let own = Home::open(home, &files.folder, missing, places)?;
        let others = own.check_others(settings, workspace)?;
        let mut group = Self::default();
        group.own_places(&own, agent)?;
        group.shared_places(&own, home)?;
        group.variables(&own, home)?;
        group.worktree(&own, files)?;
        if is_admin {
            group.config(&own)?;
        }
        group.mounts(&own, files, is_admin, &others, places)?;
        group.check(settings)?;
        Ok(group)
    }

    /// Refuses what the administrator does not let be granted: the settings have it with links, which lead
    /// elsewhere.
    fn check(&self, settings: &Settings) -> Result<(), RunError> {
        self.extra.iter().try_for_each(|extra| {
            let allowed = settings.ceiling.check_path("groups", &extra.host, &extra.origin);
            allowed.map_err(RunError::settings)
        })
    }

    fn own_places(&mut self, own: &Home, agent: &mut Vec<Extra>) -> Result<(), RunError> {
        // What agents keep is the group's, not the user's.
        let states = agent.extract_if(.., |extra| extra.kind == RootKind::AgentState);
        let relative = |extra: Extra| extra.inside.as_path().strip_prefix(HOME).map(PathBuf::from);
        let mut states: Vec<PathBuf> = states
            .filter_map(|extra| relative(extra).ok())
            .chain([PathBuf::from(CLAUDE)])
            .collect();
        states.sort();
        states.dedup_by(|later, earlier| later.starts_with(earlier));
        let (group, ipc) = ("/workspace/group".into(), "/workspace/ipc".into());
        let mut places = vec![
            ("folder", RootKind::Knowledge, "groups", PathBuf::new(), group),
            ("ipc", RootKind::Artifacts, "data/ipc", PathBuf::new(), ipc),
        ];
        places.extend(states.into_iter().map(|state| {
            let inside = Path::new(HOME).join(&state);
            ("state", RootKind::AgentState, "data/sessions", state, inside)
        }));
        for (what, kind, holds, below, inside) in places {
            if let Some(host) = own.directory(holds, &below)? {
                self.add(what, kind, host, inside, Access::FULL, &own.origin)?;
            }
        }
        Ok(())
    }

    fn shared_places(&mut self, own: &Home, home: &GroupHome) -> Result<(), RunError> {
        let shared = [
            ("scripts", &home.scripts, "/workspace/scripts"),
            ("runner", &home.runner, "/app/src"),
        ];
        for (what, place, inside) in shared {
            let Some(place) = place else { continue };
            let host = own.shared(place)?;
            let (kind, access) = (RootKind::Knowledge, Access::READ_ONLY);
            self.add(what, kind, host, inside, access, &place.origin)?;
        }
        Ok(())
    }

    /// Adds the variables that are allowed by name, as variables and as a file for a shell.
    fn variables(&mut self, own: &Home, home: &GroupHome) -> Result<(), RunError> {
        let Some((shown, bytes)) = own.env()? else { return Ok(()) };
        let mut content = String::new();
        for (name, value) in variables::parse(&shown, &bytes)? {
            let Some(allowed) = home.env.iter().find(|allowed| allowed.value == name) else {
                continue;
            };
            content.push_str(&format!("{name}='{}'\n", value.replace('\'', r"'\''")));
            self.env.push(EnvVar {
                name,
                value: value.into(),
                layer: EnvLayer::User,
                origin: allowed.origin.clone(),
            });
        }
        let place = Place::File { content: content.into_bytes(), mode: 0o444, keep: false };
        self.files.push(Entry { path: InsidePath::from_static(ENV), place });
        Ok(())
    }

    fn worktree(&mut self, own: &Home, files: &GroupFiles) -> Result<(), RunError> {
        let Some(place) = &files.repo_access else { return Ok(()) };
        let host = own.shared(place)?;
        let git = git_outside(host.as_path()).map_err(|error| {
            let hint = error.hint();
            RunError::refused(error, hint)
        })?;
        if let Some(git) = git {
            // Nobody names it: it comes with the worktree, whose `.git` names it by its path on the host.
            let (git, origin) = (HostPath::new(git).map_err(RunError::path)?, Origin::Default);
            own.check(&git, &place.origin)?;
            let inside = git.as_path().to_owned();
            self.add(GIT_OUTSIDE, RootKind::Workspace, git, inside, Access::FULL, &origin)?;
        }
        let kind = RootKind::Knowledge;
        self.add("worktree", kind, host, PROJECT, Access::FULL, &place.origin)
    }

    /// Adds the file that admins' sessions change. Over a worktree it needs one that it can mask: to make
    /// one there would leave it in the repository.
    fn config(&mut self, own: &Home) -> Result<(), RunError> {
        let Some(host) = own.config()? else { return Ok(()) };
        let inside = Path::new(PROJECT).join(CONFIG);
        let over = self.extra.iter().find(|extra| extra.inside.as_path() == Path::new(PROJECT));
        if over.is_some_and(|over| !over.host.as_path().join(CONFIG).is_file()) {
            let inside = inside.display();
            self.notes.push(format!("{inside} is left out: the worktree has none to show it over"));
            return Ok(());
        }
        self.add("config", RootKind::Knowledge, host, inside, Access::FULL, &own.origin)
    }

    fn mounts(
        &mut self,
        own: &Home,
        files: &GroupFiles,
        is_admin: bool,
        others: &[HostPath],
        places: &Places,
    ) -> Result<(), RunError> {
        if files.mounts.is_empty() {
            return Ok(());
        }
        let Some(allowed) = Allowed::read(places)? else {
            let file = Allowed::file(places);
            let count = files.mounts.len();
            let file = Escaped(&file);
            self.notes.push(format!("{count} mounts are left out: there is no {file}"));
            return Ok(());
        };
        for mount in &files.mounts {
            let Valued { value: asked, origin } = mount;
            let inside = format!("/workspace/extra/{}", asked.inside.as_str());
            match allowed.decide(asked, is_admin, own) {
                Ok((host, access, narrowed)) => {
                    self.notes.extend(narrowed.map(|why| format!("{inside} is read-only: {why}")));
                    self.add("mount", RootKind::Knowledge, host, inside, access, origin)?;
                }
                Err(why) => self.notes.push(format!("{inside} ({origin}) is left out: {why}")),
            }
        }
        let own_ones = self
            .extra
            .iter()
            .filter(|extra| extra.access == Access::FULL)
            .map(|extra| extra.host.as_path());
        allowed.check_place(own, own_ones.chain(others.iter().map(HostPath::as_path)))
    }

    fn add(
        &mut self,
        what: &str,
        kind: RootKind,
        host: HostPath,
        inside: impl AsRef<Path>,
        access: Access,
        origin: &Origin,
    ) -> Result<(), RunError> {
        let inside = InsidePath::new(inside).map_err(RunError::path)?;
        let id = Arc::from(format!("group {what} {inside}"));
        self.extra.push(Extra {
            id,
            kind,
            host,
            inside,
            access,
            origin: origin.clone(),
            held: None,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
