//! From an agent's name to what its run needs: layer, arguments, environment, files, gateway.

mod choose;
mod state;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_agents::{AgentProfile, Registry, ResolvedAgent, TemplateValues};
use pinfold_boundary::systemd::Configuration;
use pinfold_boundary::{Entry, Place};
use pinfold_egress::{Api, EphemeralKey};
use pinfold_host::directories::Places;
use pinfold_host::owned::{self, OwnedError};
use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::env::{EnvLayer, EnvName, EnvVar};
use pinfold_policy::network::HostPattern;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{MemoryGrant, Settings};
use pinfold_provision::{Cache, Event, Libc, Platform, Recipe};
use pinfold_rootfs::etc_files;
use pinfold_rootfs::interpreter;
use pinfold_rootfs::system::Stack;
use pinfold_rootfs::unpack::{Registry as Npm, ScratchUnpacker};
use pinfold_rootfs::userland::{self, HOME};
use pinfold_secrets::SecretId;
use pinfold_worktree::workspace::Workspace;

use crate::RunError;
use crate::doors::gateway::{self, GATEWAY_URL, Provider};
use pinfold_personal::MyConfig;
use pinfold_rootfs::extra::Extra;

use choose::ThisHost;
pub(crate) use choose::resolve;

/// Where the agent's layer is mounted, and its commands.
const LAYER: &str = "/run/pinfold/agent";
const COMMANDS: &str = "/run/pinfold/agent/bin";

/// Recipes that come with pinfold.
const RECIPES: [(&str, &[u8]); 5] = [
    ("claude", include_bytes!("../../../agents/recipes/claude.json")),
    ("codex", include_bytes!("../../../agents/recipes/codex.json")),
    ("opencode", include_bytes!("../../../agents/recipes/opencode.json")),
    ("pi", include_bytes!("../../../agents/recipes/pi.json")),
    ("pi-0.74", include_bytes!("../../../agents/recipes/pi-0.74.json")),
];

/// Directories with agents of the administrator's and the user's; the user's win.
fn agent_directories(places: &Places) -> [PathBuf; 2] {
    [places.config.join("agents"), PathBuf::from("/etc/pinfold/agents")]
}

/// What a run of an agent needs beyond the settings.
#[derive(Default)]
pub(crate) struct AgentRun {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The agent's variables.
    pub env: Vec<EnvVar>,
    /// Directories of commands, to be first in `PATH`.
    pub path: Option<String>,
    /// Grants.
    pub extra: Vec<Extra>,
    /// Files in the private home.
    pub files: Vec<Entry>,
    /// What of the user's own setup of the agent comes in.
    pub my_config: Option<MyConfig>,
    /// The model provider, if the agent has one.
    pub provider: Option<Provider>,
    /// Whether the agent needs namespaces of its own.
    pub nested: bool,
    /// Hosts of which a refusal is recorded and not shown.
    pub silent_hosts: Vec<HostPattern>,
}

/// Where an agent's program comes from.
#[derive(Clone, Copy)]
pub(crate) enum ProgramSource<'a> {
    /// Its recipe: provisioned if need be, with a notice.
    Layer(&'a dyn Fn(Event)),
    /// The session's system, which has it.
    System,
}

/// Agent files as they were found.
pub(crate) struct AgentFiles(Vec<(PathBuf, Vec<u8>)>);

impl AgentFiles {
    /// Reads the agents of the administrator and the user.
    ///
    /// # Errors
    /// Returns an error for a file that is there and cannot be read.
    pub(crate) fn read(places: &Places) -> Result<Self, RunError> {
        let mut files = Vec::new();
        for directory in agent_directories(places) {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let paths = entries.flatten().map(|entry| entry.path());
            for path in paths.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
                let bytes = owned::read(&path).map_err(not_owned)?;
                files.extend(bytes.map(|bytes| (path, bytes)));
            }
        }
        Ok(Self(files))
    }

    /// Returns the registry over these files and the built-in ones.
    pub(crate) fn registry(&self) -> Registry<'_> {
        Registry::new(self.0.iter().map(|(path, bytes)| SettingsFile { path, bytes }).collect())
    }
}

/// Where and how an agent runs.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) places: &'a Places,
    pub(crate) workspace: &'a Workspace,
    /// The system that it runs on, if that is not the host's.
    pub(crate) stack: Option<&'a Stack>,
    /// What the user syncs for a session behind `systemd`.
    pub(crate) configuration: Option<&'a Configuration>,
}

/// Prepares a run: provisions the layer if need be and makes the session's key.
///
/// # Errors
/// Returns an error for what is missing, with the hint.
pub(crate) fn prepare(
    mut agent: ResolvedAgent,
    secret: Option<SecretId>,
    user_args: Vec<OsString>,
    unattended: bool,
    context: Context<'_>,
    source: ProgramSource<'_>,
) -> Result<AgentRun, RunError> {
    let Context { settings, places, workspace, stack, configuration } = context;
    let provider = match secret {
        Some(id) => Some(gateway::provider(&agent, id, settings, places)?),
        None => None,
    };
    let key = provider.as_ref().map(|provider| provider.key.expose().to_owned());
    let workspace_text = workspace.root.as_path().to_string_lossy();
    let values = TemplateValues {
        gateway: Some(GATEWAY_URL),
        key: key.as_deref(),
        home: Some(HOME),
        workspace: Some(&workspace_text),
        ..TemplateValues::default()
    };
    if settings.scalars.memory.value != MemoryGrant::None {
        agent = agent.with_memory();
    }
    let mut files = files(&agent, &values)?;
    let mut extra = state::grants(&agent, settings, places, workspace)?;
    if state::is_kept(settings, workspace) {
        let flags = agent.profile.stateless_flags.clone();
        agent = agent.without_flags(&flags);
    }
    let mut my_config = None;
    if settings.files.my_config.value {
        let (root, host) = (workspace.root.as_path(), ThisHost { home: &places.home });
        my_config = Some(MyConfig::collect(&agent.profile, places, root, &host, &mut files)?);
        let flags = agent.profile.my_config.without_flags.clone();
        agent = agent.without_flags(&flags);
    }
    let points = my_config.as_ref().map(MyConfig::points).unwrap_or_default();
    let synced = configuration.map(synced_paths).transpose()?.unwrap_or_default();
    let written: Vec<&InsidePath> = files.iter().map(|file| &file.path).chain(&synced).collect();
    state::clear_the_way(&extra, &written, &points)?;
    extra.extend(read_grants(&agent.profile, settings, places)?);
    let command = &agent.profile.cli_command;
    let layer = match source {
        ProgramSource::Layer(progress) => layer(&agent, places, stack, progress)?,
        ProgramSource::System => installed(command, stack)?,
    };
    if let Some(layer) = &layer {
        interpreter::check(&layer.host.as_path().join("bin"), command, stack)?;
    }
    let path = layer.as_ref().map(|_| COMMANDS.to_owned());
    extra.extend(layer);
    let has_servers = my_config.as_ref().is_some_and(|mine| mine.has_servers);
    let (mut argv, env) = command_line(&agent, &values, unattended, has_servers)?;
    argv.extend(user_args);
    Ok(AgentRun {
        argv,
        env,
        path,
        extra,
        files,
        my_config,
        provider,
        nested: agent.profile.nested,
        silent_hosts: agent.profile.silent_hosts,
    })
}

/// Returns the agent's program with its own arguments, and its variables.
fn command_line(
    agent: &ResolvedAgent,
    values: &TemplateValues<'_>,
    unattended: bool,
    has_servers: bool,
) -> Result<(Vec<OsString>, Vec<EnvVar>), RunError> {
    let mut env = agent.env(values).map_err(refused)?;
    let mut argv: Vec<OsString> = vec![agent.profile.cli_command.clone().into()];
    argv.extend(agent.args(values).map_err(refused)?.into_iter().map(OsString::from));
    if unattended {
        argv.extend(agent.profile.unattended_flags.iter().map(OsString::from));
    }
    if has_servers {
        let (args, variables) = agent.server_settings(values).map_err(refused)?;
        argv.extend(args.into_iter().map(OsString::from));
        env.extend(variables);
    }
    env.extend(agent.profile.model_variables.iter().filter_map(model_variable));
    Ok((argv, env))
}

/// Returns where the files of the user's configuration are written.
fn synced_paths(configuration: &Configuration) -> Result<Vec<InsidePath>, RunError> {
    let target = Path::new(HOME).join(&configuration.target);
    let path = |file: &PathBuf| InsidePath::new(target.join(file)).map_err(RunError::path);
    // Of settings there may be some without the user's own.
    let settings = PathBuf::from("settings.json");
    configuration.files.keys().chain([&settings]).map(path).collect()
}

/// Returns a variable of the caller's that names a model.
fn model_variable(name: &EnvName) -> Option<EnvVar> {
    let value = std::env::var_os(name.as_str()).filter(|value| !value.is_empty())?;
    Some(EnvVar { name: name.clone(), value, layer: EnvLayer::Profile, origin: Origin::Default })
}

fn files(agent: &ResolvedAgent, values: &TemplateValues<'_>) -> Result<Vec<Entry>, RunError> {
    let files = agent.files(values).map_err(refused)?;
    let entry = |file: pinfold_agents::AgentFile| -> Result<Entry, RunError> {
        let path = InsidePath::new(Path::new(HOME).join(&file.path)).map_err(RunError::path)?;
        let content = file.content.into_bytes();
        Ok(Entry { path, place: Place::File { content, mode: file.mode, keep: file.keep } })
    };
    files.into_iter().map(entry).collect()
}

/// Returns what the agent reads of the host, where it is on the host, like what is granted with
/// `--read`; programs name themselves by absolute paths. What is not there is not granted: one list
/// serves hosts that have an agent in different places.
///
/// # Errors
/// Returns an error for a path that cannot be looked at, or that the administrator's policy forbids.
pub(crate) fn read_grants(
    agent: &AgentProfile,
    settings: &Settings,
    places: &Places,
) -> Result<Vec<Extra>, RunError> {
    let origin = Origin::Profile { agent: Arc::from(agent.name.as_str()) };
    let mut grants = Vec::new();
    for path in &agent.reads {
        let path = places.home.join(path);
        let canonical = match fs::canonicalize(&path) {
            Ok(canonical) => canonical,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(&path, &error)),
        };
        let host = HostPath::new(&canonical).map_err(RunError::path)?;
        let checked = settings.ceiling.check_path("grants.read", &host, &origin);
        checked.map_err(RunError::settings)?;
        grants.push(Extra {
            id: Arc::from(format!("agent reads {host}")),
            kind: RootKind::Knowledge,
            inside: InsidePath::new(&canonical).map_err(RunError::path)?,
            host,
            access: Access::READ_ONLY,
            origin: origin.clone(),
            held: None,
        });
    }
    Ok(grants)
}

/// Returns no layer, for a program that the session's system has.
///
/// # Errors
/// Returns an error if it has none.
fn installed(command: &str, stack: Option<&Stack>) -> Result<Option<Extra>, RunError> {
    let has =
        |dir: &str| stack.is_some_and(|stack| stack.file(&Path::new(dir).join(command)).is_some());
    if userland::PATH.split(':').any(has) {
        Ok(None)
    } else {
        let what = format!("the image has no program {command} in {}", userland::PATH);
        Err(RunError::refused(what, Some("leave --agent-image out, or say --base".to_owned())))
    }
}

/// Returns the grant of the agent's layer; none for a program that the host has.
fn layer(
    agent: &ResolvedAgent,
    places: &Places,
    stack: Option<&Stack>,
    progress: &dyn Fn(Event),
) -> Result<Option<Extra>, RunError> {
    let Some(name) = &agent.profile.recipe else { return Ok(None) };
    let own = |directory: &PathBuf| directory.join("recipes").join(format!("{name}.json"));
    let found = agent_directories(places).iter().map(own).find(|path| path.exists());
    let read = found.map_or(Ok(None), |path| owned::read(&path)).map_err(not_owned)?;
    let bytes = match read {
        Some(bytes) => bytes,
        None => match RECIPES.iter().find(|(known, _)| known == name) {
            Some((_, bytes)) => bytes.to_vec(),
            None => {
                let what = format!(
                    "agent {} names a recipe that does not exist: {name}",
                    agent.profile.name
                );
                let path = own(&places.config.join("agents"));
                return Err(RunError::refused(what, Some(format!("put it at {}", path.display()))));
            }
        },
    };
    let libc = etc_files::is_musl(stack).map_err(RunError::System)?;
    let libc = if libc { Libc::Musl } else { Libc::Glibc };
    let platform = Platform::this_machine(libc)
        .ok_or_else(|| RunError::refused("recipes are for x86-64 and arm64 only", None))?;
    let recipe =
        Recipe::parse(&bytes).map_err(refused)?.for_platform(platform).map_err(|error| {
            match (refused(error), libc) {
                (RunError::Refused(what), Libc::Musl) => {
                    let hint =
                        "the session's system is built on musl: name a base with glibc (debian)";
                    RunError::refused(what, Some(hint.to_owned()))
                }
                (error, _) => error,
            }
        })?;
    let cache = Cache::new(places.cache.join("agents"), pinfold_provision::Registry::default());
    let (layer, lock) = cache.ensure(&recipe, &Npm, &ScratchUnpacker, progress).map_err(refused)?;
    Ok(Some(Extra {
        id: Arc::from("agent"),
        kind: RootKind::System,
        host: HostPath::new(fs::canonicalize(&layer.dir).map_err(RunError::System)?)
            .map_err(RunError::path)?,
        inside: InsidePath::from_static(LAYER),
        access: Access::READ_ONLY,
        origin: Origin::Profile { agent: Arc::from(agent.profile.name.as_str()) },
        held: Some(Arc::new(lock)),
    }))
}

fn not_owned(error: OwnedError) -> RunError {
    let hint = error.hint();
    RunError::refused(error, hint)
}

fn unreadable(path: &Path, error: &io::Error) -> RunError {
    RunError::refused(format!("cannot read {}: {error}", path.display()), None)
}

/// Returns an error with its causes, in one line.
fn refused(error: impl std::error::Error) -> RunError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    RunError::refused(text, None)
}

/// Returns the session's key in the shape that the agent expects.
pub(crate) fn key_for(prefix: &str, api: Api) -> io::Result<EphemeralKey> {
    use pinfold_egress::KeyShape;
    let shape = match (prefix, api) {
        ("sk-ant-oat01-", _) => KeyShape::AnthropicOauth,
        (_, Api::Anthropic) => KeyShape::AnthropicApiKey,
        (_, Api::OpenAi | Api::Bedrock | Api::Vertex) => KeyShape::OpenAi,
        (_, Api::Gemini) => KeyShape::Gemini,
    };
    EphemeralKey::generate(shape)
}
