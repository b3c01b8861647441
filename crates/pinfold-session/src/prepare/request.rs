//! From the settings to the request of a run: agent, system, toolchains, identity and environment.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use pinfold_agents::{AgentProfile, PROMPT};
use pinfold_boundary::Entry;
use pinfold_boundary::systemd::Configuration;
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionName;
use pinfold_policy::authority::Subject;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::{BoundaryName, Settings};
use pinfold_rootfs::system::Stack;
use pinfold_rootfs::{chromium, failing_tools, podman};
use pinfold_terminal::notify;
use pinfold_wire::Window;
use pinfold_worktree::workspace::Workspace;

use super::environment::{Caller, environment};
use super::presence::{Circumstances, Presence, Seat};
use super::settings::in_mode;
use super::{Preparation, Progress, permissions};
use crate::agent::{self, AgentRun, ProgramSource};
use crate::detach::Background;
use crate::doors::ssh::Ssh;
use crate::group::{Group, Missing};
use crate::outcome::RunError;
use crate::request::Request;
use crate::snapshot::{Event, SnapshotError, Snapshots};
use crate::spec;
use crate::timeline::Timeline;
use pinfold_memory::TaskDiary;
use pinfold_personal::caller_trust::CallerTrust;
use pinfold_personal::identity::{self, Identity};
use pinfold_rootfs::extra::Extra;
use pinfold_rootfs::node_tools;
use pinfold_rootfs::search_path::{SearchPath, Shown, VIRTUAL_ENV};
use pinfold_rootfs::toolchains::Toolchains;

/// What is to be run.
#[derive(Default)]
pub struct Wanted {
    /// The agent, if one is named.
    pub agent: Option<String>,
    /// The agent's arguments, or the command with its own.
    pub rest: Vec<OsString>,
    /// What the agent is to do before it ends.
    pub prompt: Option<String>,
    /// A specification, which the command finds at [`pinfold_agents::SPEC`] and which comes back.
    pub spec: Option<Vec<u8>>,
    /// Notes about earlier sessions, which the command finds at [`crate::NOTES`].
    pub notes: Option<String>,
    /// The diary and tags of entries, if it works on a task.
    pub task: Option<TaskDiary>,
    /// Whether nothing is to be run.
    pub idle: bool,
    /// Whether the user said that nobody answers.
    pub is_unattended: bool,
    /// Whether commits and references that it makes are gone when it ends.
    pub discards_commits: bool,
    /// What the session is called.
    pub name: Option<SessionName>,
    /// Where it goes on by itself.
    pub background: Option<Background>,
    /// How large a terminal it has there, if it has one.
    pub window: Option<Window>,
}

impl Wanted {
    /// Returns who answers while it goes on.
    pub fn presence(&self) -> Presence {
        let seat = if self.window.is_some() { Seat::Terminal } else { Seat::Log };
        Presence::of(Circumstances {
            is_unattended: self.is_unattended,
            background: self.background.is_some().then_some(seat),
            runs_agent: self.runs_agent(),
        })
    }

    /// Returns whether an agent is to be run: the one that is named, or the one of the settings.
    fn runs_agent(&self) -> bool {
        self.agent.is_some() || self.rest.is_empty() && !self.idle
    }
}

impl Preparation {
    /// Returns the request of this run. Makes the system and the agent's layer if they are not there.
    ///
    /// # Errors
    /// Returns an error for an agent, a system, a toolchain or an identity that is not available.
    pub fn request(
        mut self,
        wanted: Wanted,
        progress: &dyn Progress,
        mut timeline: Timeline,
    ) -> Result<Request, RunError> {
        if wanted.rest.is_empty() && self.settings.scalars.agent.is_none() && !wanted.idle {
            let hint = "say `pinfold run AGENT` or `pinfold run -- COMMAND`".to_owned();
            return Err(RunError::refused("nothing to run", Some(hint)));
        }
        let workspace = match self.workspace.take() {
            Some(workspace) => workspace,
            None => in_mode(self.project.clone(), &self.settings, self.host())?,
        };
        let stack = self.stack(progress)?;
        let presence = self.asked.presence;
        let is_systemd = self.settings.scalars.boundary.as_ref().map(|chosen| chosen.value);
        let is_systemd = is_systemd == Some(BoundaryName::Systemd);
        let configuration = is_systemd.then(pinfold_personal::configuration).flatten();
        let (subject, mut run) =
            self.program(&wanted, &workspace, stack.as_ref(), configuration.as_ref(), progress)?;
        let Wanted { name, background, window, discards_commits, spec, notes, task, .. } = wanted;
        let Self { places, launcher, project, mut settings, .. } = self;
        if run.nested {
            nest(&mut settings, &subject)?;
        }
        let mut surroundings = Surroundings::find(&settings, &workspace, stack.as_ref(), &places)?;
        surroundings.caller.first.extend(run.path.take());
        timeline.done("reads settings, agent and toolchains");
        let group = Group::find(&settings, &workspace, &places, Missing::Make, &mut run.extra)?;
        for note in &group.notes {
            notify!("pinfold: note: {note}");
        }
        let identity = Identity::find(&settings, &project)?;
        let author = identity::author_of_group(&settings, &project, &places);
        let ssh = Ssh::find(&settings, identity.as_ref(), &places)?;
        let Identity { env: identity_env, files: identity_files, private, .. } =
            identity.unwrap_or_default();
        let env = run.env.into_iter().chain(author).chain(identity_env).chain(group.env).collect();
        let Surroundings { caller, extra, files } = surroundings;
        let has_ssh = ssh.is_some();
        let mut env = environment(&settings, &workspace, env, &caller, has_ssh, stack.as_ref());
        if window.is_some() {
            name_terminal(&mut env);
        }
        let files = run.files.into_iter().chain(identity_files).chain(group.files).chain(files);
        let returns_spec = spec.is_some();
        let files = files.chain(spec.map(spec::entry));
        let files = files.chain(notes.map(|notes| spec::notes(notes.into_bytes())));
        let extra = run.extra.into_iter().chain(extra).chain(group.extra);
        Ok(Request {
            only: presence.only_branch(&settings),
            discards_commits,
            returns_spec,
            extra: extra.collect(),
            files: files.collect(),
            my_config: run.my_config,
            configuration,
            stack,
            provider: run.provider,
            ssh,
            private,
            task,
            nested: settings.scalars.nested.value,
            silent_hosts: run.silent_hosts,
            attended: presence.is_at_the_terminal(),
            caller_trust: caller.trust,
            name,
            background,
            window,
            timeline,
            ..Request::plain(
                Subject::AgentSession { agent: subject.into() },
                run.argv,
                env,
                settings,
                workspace,
                places,
                launcher,
            )
        })
    }

    /// Returns the system of the run, made now if need be.
    fn stack(&self, progress: &dyn Progress) -> Result<Option<Stack>, RunError> {
        let report = |event: Event<'_>| progress.system(&event);
        let snapshots = Snapshots::new(self.host(), &report);
        let made = snapshots.ensure(&self.settings, self.project.root.as_path());
        progress.system_ended();
        if let Some(signal) = made.as_ref().err().and_then(SnapshotError::interrupted) {
            progress.interrupted(signal);
        }
        Ok(made?)
    }

    /// Returns whose session it is, and what runs in it.
    fn program(
        &self,
        wanted: &Wanted,
        workspace: &Workspace,
        stack: Option<&Stack>,
        configuration: Option<&Configuration>,
        progress: &dyn Progress,
    ) -> Result<(String, AgentRun), RunError> {
        let (settings, places) = (&self.settings, &self.places);
        let rest = wanted.rest.clone();
        let Some(agent) = settings.scalars.agent.as_ref().filter(|_| wanted.runs_agent()) else {
            let name = rest.first().map(|word| word.to_string_lossy().into_owned());
            let run = AgentRun { argv: rest, ..AgentRun::default() };
            return Ok((name.unwrap_or_else(|| "idle".to_owned()), run));
        };
        let name = agent.value.clone();
        let resolved = agent::resolve(&name, settings, places)?;
        let report = |event| progress.agent(event);
        let source =
            if self.is_of_image { ProgramSource::System } else { ProgramSource::Layer(&report) };
        let asks = self.asked.presence.sees_the_agent();
        let given = match &wanted.prompt {
            Some(prompt) => [args_of_prompt(&resolved.0.profile, prompt)?, rest].concat(),
            None => rest,
        };
        permissions::say_who_is_asked(&resolved.0.profile, &given, asks);
        let context = agent::Context { settings, places, workspace, stack, configuration };
        let (resolved, secret) = resolved;
        Ok((name, agent::prepare(resolved, secret, given, !asks, context, source)?))
    }
}

/// Returns the arguments that have an agent work on a prompt and end.
///
/// # Errors
/// Returns an error for an agent of which nobody said how, and for a prompt that no argument can be.
fn args_of_prompt(agent: &AgentProfile, prompt: &str) -> Result<Vec<OsString>, RunError> {
    // execve(2): MAX_ARG_STRLEN, with the zero at its end.
    const LONGEST: usize = 128 << 10;
    let refused = |what: String, hint: &str| RunError::refused(what, Some(hint.to_owned()));
    if prompt.trim().is_empty() {
        return Err(refused("the prompt is empty".to_owned(), "say what the agent is to do"));
    }
    if prompt.contains('\0') {
        return Err(refused("the prompt has a zero byte".to_owned(), "give it as plain text"));
    }
    if prompt.len() >= LONGEST - 1 {
        let what = format!("the prompt has {} KiB; at most 127 are possible", prompt.len() >> 10);
        return Err(refused(what, "put it into a file that the agent can read, and name the file"));
    }
    if !agent.prompt_args.iter().any(|arg| arg == PROMPT) {
        let what = format!("pinfold does not know how to give {} a prompt", agent.name);
        let hint = "set prompt_args with {prompt} in its file, or pass the prompt after `--` as the agent takes it";
        return Err(refused(what, hint));
    }
    // A prompt that is a list in Markdown is no option.
    let prompt = if prompt.starts_with('-') { format!(" {prompt}") } else { prompt.to_owned() };
    let args = agent.prompt_args.iter();
    Ok(args.map(|arg| if arg == PROMPT { prompt.clone() } else { arg.clone() }.into()).collect())
}

/// What of the caller's machine a run has around it.
struct Surroundings {
    caller: Caller,
    /// Grants of toolchains.
    extra: Vec<Extra>,
    /// Tools of pinfold's own.
    files: Vec<Entry>,
}

impl Surroundings {
    /// Finds toolchains, tools and the search path.
    ///
    /// # Errors
    /// Returns an error for a path that no sandbox can have.
    fn find(
        settings: &Settings,
        workspace: &Workspace,
        stack: Option<&Stack>,
        places: &Places,
    ) -> Result<Self, RunError> {
        let active = std::env::var_os(VIRTUAL_ENV);
        let toolchains = Toolchains::find(
            &places.home,
            workspace.root.as_path(),
            stack,
            active.as_deref().map(Path::new),
        )
        .map_err(RunError::path)?;
        let shared = (!workspace.is_scratch).then(|| workspace.root.as_path());
        let shown = Shown::of(settings, shared, &toolchains.extra, stack);
        let is_nested = settings.scalars.nested.value;
        let failing_tools = failing_tools::entries(stack, is_nested).map_err(RunError::path)?;
        let explaining = (!failing_tools.is_empty()).then(|| failing_tools::DIRECTORY.to_owned());
        let path = std::env::var_os("PATH");
        let mut search = SearchPath::find(path.as_deref(), &shown, toolchains.path);
        let node_tools =
            node_tools::find(stack, &toolchains.extra, &mut search).map_err(RunError::path)?;
        let caller = Caller {
            first: explaining.into_iter().collect(),
            search,
            virtual_environment: shown.virtual_environment(active.as_deref()),
            trust: CallerTrust::find(places),
        };
        let mut files: Vec<Entry> = failing_tools.into_iter().chain(node_tools).collect();
        if is_nested {
            files.extend(podman::entries().map_err(RunError::path)?);
        } else {
            files.extend(chromium::entry(stack).map_err(RunError::path)?);
        }
        Ok(Self { caller, extra: toolchains.extra, files })
    }
}

/// Allows namespaces inside, which the agent needs, where the administrator does.
fn nest(settings: &mut Settings, agent: &str) -> Result<(), RunError> {
    if !settings.scalars.nested.value {
        let profile = Origin::Profile { agent: Arc::from(agent) };
        settings.ceiling.check_nested(&profile).map_err(RunError::settings)?;
        settings.scalars.nested = Valued::new(true, profile);
    }
    Ok(())
}

/// Names a terminal where the caller had none: an attached client has one like this, or close to it.
fn name_terminal(env: &mut Vec<(OsString, OsString)>) {
    if !env.iter().any(|(name, _)| name == "TERM") {
        env.push(("TERM".into(), "xterm-256color".into()));
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn the_agent_of_the_settings_runs_unless_a_command_or_nothing_is_asked_for() {
        let (named, rest) = (Some("pi".to_owned()), vec!["true".into()]);
        assert!(Wanted::default().runs_agent());
        assert!(Wanted { agent: named, rest: rest.clone(), ..Wanted::default() }.runs_agent());
        assert!(!Wanted { rest, ..Wanted::default() }.runs_agent());
        assert!(!Wanted { idle: true, ..Wanted::default() }.runs_agent());
    }
}
