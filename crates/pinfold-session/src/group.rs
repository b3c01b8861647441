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
use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::env::{EnvLayer, EnvVar};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use pinfold_policy::settings::{GroupFiles, GroupHome, GroupTrust, Settings};

use self::allowed::Allowed;
use self::home::Home;
use crate::identity::variables;
use crate::places::Places;
use crate::userland::HOME;
use crate::workspace::{Workspace, git_outside};
use crate::{Extra, RunError};

/// Where the agent's state lies, of every agent's.
const CLAUDE: &str = ".claude";
/// Where the variables are written that a group's sessions have.
const ENV: &str = "/workspace/env-dir/env";

/// What a group's session gets.
#[derive(Debug, Default)]
pub struct Group {
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
    /// Of the group that the settings choose; nothing if groups have no files. `agent` is what comes with
    /// the agent: of that its state is the group's own.
    ///
    /// # Errors
    /// A directory that cannot be had, or is not the group's alone.
    pub fn find(
        settings: &Settings,
        workspace: &Workspace,
        places: &Places,
        agent: &mut Vec<Extra>,
    ) -> Result<Self, RunError> {
        let (Some(home), Some(files)) = (&settings.group_home, &settings.group_files) else {
            return Ok(Self::default());
        };
        let is_admin = settings.group_trust.value == GroupTrust::Admin;
        let own = Home::open(home, &files.folder)?;
        own.check_others(settings, workspace)?;
        let mut group = Self::default();
        group.own_places(&own, home, agent)?;
        if is_admin && let Some(config) = own.file("config.toml")? {
            let kind = RootKind::Knowledge;
            group.grant(
                "config",
                kind,
                config,
                "/workspace/project/config.toml",
                Access::FULL,
                home,
            )?;
        }
        group.variables(&own, home)?;
        group.worktree(&own, files)?;
        group.mounts(&own, files, is_admin, (workspace, places))?;
        Ok(group)
    }

    fn own_places(
        &mut self,
        own: &Home,
        home: &GroupHome,
        agent: &mut Vec<Extra>,
    ) -> Result<(), RunError> {
        let folder = own.directory("groups", None)?;
        self.grant("folder", RootKind::Knowledge, folder, "/workspace/group", Access::FULL, home)?;
        let ipc = own.directory("data/ipc", None)?;
        self.grant("ipc", RootKind::Artifacts, ipc, "/workspace/ipc", Access::FULL, home)?;
        // What agents keep is the group's, not the user's.
        let is_state = |extra: &Extra| extra.kind == RootKind::AgentState;
        let mut state: Vec<PathBuf> = agent
            .extract_if(.., |extra| is_state(extra))
            .filter_map(|extra| extra.inside.as_path().strip_prefix(HOME).ok().map(PathBuf::from))
            .chain([PathBuf::from(CLAUDE)])
            .collect();
        state.sort();
        state.dedup_by(|later, earlier| later.starts_with(earlier));
        for path in state {
            let host = own.directory("data/sessions", Some(&path))?;
            let inside = Path::new(HOME).join(&path);
            self.grant("state", RootKind::AgentState, host, inside, Access::FULL, home)?;
        }
        let shared = [
            ("scripts", &home.scripts, "/workspace/scripts"),
            ("runner", &home.runner, "/app/src"),
        ];
        for (what, place, inside) in shared {
            let Some(place) = place else { continue };
            let host = own.shared(place)?;
            self.grant(what, RootKind::Knowledge, host, inside, Access::READ_ONLY, home)?;
        }
        Ok(())
    }

    /// The variables that are allowed by name, as variables and as a file for a shell.
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
        self.files.push(Entry { path: InsidePath::new(ENV).map_err(RunError::path)?, place });
        Ok(())
    }

    fn worktree(&mut self, own: &Home, files: &GroupFiles) -> Result<(), RunError> {
        let Some(place) = &files.repo_access else { return Ok(()) };
        let host = own.shared(place)?;
        let git = git_outside(host.as_path()).map_err(|error| {
            let hint = error.hint();
            RunError::refused(error, hint)
        })?;
        // Its `.git` names this one by its path on the host.
        if let Some(git) = git {
            let git = HostPath::new(git).map_err(RunError::path)?;
            own.check(&git, &place.origin)?;
            let inside = git.as_path().to_owned();
            let kind = RootKind::Knowledge;
            self.add("git directory", kind, git, inside, Access::FULL, &place.origin)?;
        }
        let kind = RootKind::Knowledge;
        self.add("worktree", kind, host, "/workspace/project", Access::FULL, &place.origin)
    }

    fn mounts(
        &mut self,
        own: &Home,
        files: &GroupFiles,
        is_admin: bool,
        (workspace, places): (&Workspace, &Places),
    ) -> Result<(), RunError> {
        if files.mounts.is_empty() {
            return Ok(());
        }
        let Some(allowed) = Allowed::read(places, own, workspace)? else {
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
        Ok(())
    }

    fn grant(
        &mut self,
        what: &str,
        kind: RootKind,
        host: HostPath,
        inside: impl AsRef<Path>,
        access: Access,
        home: &GroupHome,
    ) -> Result<(), RunError> {
        self.add(what, kind, host, inside, access, &home.root.origin)
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
        self.extra.push(Extra { id, kind, host, inside, access, origin: origin.clone() });
        Ok(())
    }
}
