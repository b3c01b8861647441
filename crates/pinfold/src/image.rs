//! `pinfold image`: agents' container images.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_engines::image::{
    Engine, Event, How, ImageError, Images, Wanted, extensions_of, files_of,
};
use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_image::{AgentContext, AgentFiles, Base, ImageTag, Layer, Reference};
use pinfold_policy::agents::Selection;
use pinfold_policy::path::Escaped;
use pinfold_policy::project::{Base as SystemBase, ImageEngine};
use pinfold_policy::settings::{Attendance, EngineName, Flags, Settings, Trust};
use pinfold_session::agent::AgentFiles as Profiles;
use pinfold_session::repository::{Repository, TrustStore};
use pinfold_terminal::notify;
use pinfold_workspace::workspace::Workspace;
use serde_json::json;

use crate::cli::Output;
use crate::exit::Failure;
use crate::policy;
use crate::print::{self, say};

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build an agent's image with this repository's additions, and print its tag
    Build(BuildArgs),
    /// Print the tag that the image would have, without building
    Tag(TagArgs),
    /// List images
    Ls(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WantedArgs {
    /// The agent (pi, claude, codex, opencode, or one of your own)
    #[arg(value_name = "AGENT")]
    agent: String,
    /// The engine, docker or podman; by default the first that is installed
    #[arg(long, value_name = "NAME")]
    engine: Option<ImageEngine>,
    /// Build on this image instead of the provider's
    #[arg(long, value_name = "IMAGE")]
    base_image: Option<Reference>,
    /// The provider whose image to build on
    #[arg(long)]
    provider: Option<String>,
    /// Read the agent's Dockerfile and what it copies from this directory
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Read the agent's extensions from this directory, one directory each
    #[arg(long, value_name = "DIR")]
    extensions: Option<PathBuf>,
    /// Leave out this repository's additions
    #[arg(long)]
    agent_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    wanted: WantedArgs,
    /// Build even if there is an image with the same content
    #[arg(long)]
    rebuild: bool,
    /// Contact no registry: build on the local image, however old
    #[arg(long)]
    offline: bool,
    /// The engine's network for the build, such as host or none
    #[arg(long, value_name = "MODE")]
    network: Option<String>,
    /// Trust what this repository adds if this is its hash
    #[arg(
        long,
        value_name = "HASH",
        help = "Trust what this repository adds if this is its hash, which `pinfold trust --image \
                --hash` prints"
    )]
    trust_image: Option<ContentHash>,
}

#[derive(Debug, Args)]
pub(crate) struct TagArgs {
    #[command(flatten)]
    wanted: WantedArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// List only images of this agent
    agent: Option<String>,
    /// The engine, docker or podman; by default the first that is installed
    #[arg(long, value_name = "NAME")]
    engine: Option<ImageEngine>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn image(command: &ImageCommand) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let done = match command {
        ImageCommand::Build(args) => build(args, &places),
        ImageCommand::Tag(args) => tag(args, &places),
        ImageCommand::Ls(args) => list(args, &places),
    };
    done.map_err(Failure::plain)
}

/// What this repository adds to agents' images, if it adds anything.
///
/// # Errors
/// A mistake in it.
pub(crate) fn layer(workspace: &Workspace) -> Result<Option<Layer>, Failure> {
    Layer::find(workspace.root.as_path()).map_err(|error| told(error.into()))
}

impl WantedArgs {
    fn wanted(&self, places: &Places, workspace: Option<&Workspace>) -> Result<Wanted, Failure> {
        let layer = workspace.map(layer).transpose()?.flatten();
        let profiles = Profiles::read(places)?;
        let profile = profiles.registry().load(&self.agent).map_err(Failure::new)?;
        let provider = self.provider(places, workspace)?;
        let selection = Selection { provider: provider.as_deref(), ..Selection::default() };
        let terms = profile.resolve(selection).map_err(Failure::new)?.terms;
        let context = self.context(places).map_err(told)?;
        let provided = terms.base_image.filter(|_| context.dockerfile().takes_base());
        let provided = provided.map(|name| name.parse()).transpose().map_err(Failure::new)?;
        let name = workspace.map(|workspace| name_of(workspace.root.as_path()));
        Ok(Wanted {
            agent: self.agent.clone(),
            context,
            base: self.base_image.clone().or(provided),
            layer: layer.zip(name),
        })
    }

    /// The provider that sessions of the agent have here.
    fn provider(
        &self,
        places: &Places,
        workspace: Option<&Workspace>,
    ) -> Result<Option<String>, Failure> {
        let read = |workspace| Repository::read(workspace, None).map_err(policy::told);
        let repository = workspace.map(read).transpose()?.unwrap_or_default();
        let (agent, provider) = (Some(self.agent.clone()), self.provider.clone());
        let flags = Flags { agent, provider, ..Flags::default() };
        let files = policy::Files::read(places)?;
        let resolve =
            |trust| files.settings(flags.clone(), Attendance::Attended, &repository, trust);
        let mut settings = resolve(Trust::default())?;
        if let Some(workspace) = workspace
            && policy::is_trusted(&settings, &repository, places, workspace)?
        {
            settings = resolve(Trust::Trusted)?;
        }
        Ok(settings.provider.map(|provider| provider.value))
    }

    fn context(&self, places: &Places) -> Result<AgentContext, ImageError> {
        let files = match &self.files {
            Some(directory) => AgentFiles::of_directory(directory)?,
            None => files_of(&self.agent, places)?,
        };
        let extensions = self.extensions.clone().or_else(|| extensions_of(&self.agent, places));
        Ok(AgentContext::new(files, extensions.as_deref())?)
    }

    /// Where a repository could add something.
    fn workspace(&self, places: &Places) -> Result<Option<Workspace>, Failure> {
        match self.agent_only {
            true => Ok(None),
            false => policy::workspace(places).map(Some),
        }
    }
}

fn build(args: &BuildArgs, places: &Places) -> Result<ExitCode, Failure> {
    let (_, tag) = built(args, places, &tell)?;
    say!("{tag}");
    Ok(ExitCode::SUCCESS)
}

/// The image of the agent that these settings name, as what a run begins with; built if it is not there.
///
/// # Errors
/// No agent, or why its image cannot be had.
pub(crate) fn base_of(settings: &Settings, places: &Places) -> Result<SystemBase, Failure> {
    let agent = settings.agent.as_ref().ok_or_else(|| {
        Failure::own("--agent-image: no agent is named")
            .hint(Some("say `pinfold run --agent-image AGENT`".to_owned()))
    })?;
    let engine = settings.engine.as_ref().and_then(|engine| match engine.value {
        EngineName::Docker => Some(ImageEngine::Docker),
        EngineName::Podman => Some(ImageEngine::Podman),
        _ => None,
    });
    let wanted = WantedArgs {
        agent: agent.value.clone(),
        engine,
        base_image: None,
        provider: settings.provider.as_ref().map(|provider| provider.value.clone()),
        files: None,
        extensions: None,
        agent_only: false,
    };
    let args =
        BuildArgs { wanted, rebuild: false, offline: false, network: None, trust_image: None };
    let quietly = |event: &Event<'_>| match event {
        Event::There(_) => {}
        event => tell(event),
    };
    let (engine, tag) = built(&args, places, &quietly)?;
    Ok(SystemBase::Stored(engine, tag.to_string()))
}

/// Whose image it is, and its tag.
fn built(
    args: &BuildArgs,
    places: &Places,
    tell: &dyn Fn(&Event<'_>),
) -> Result<(ImageEngine, ImageTag), Failure> {
    let workspace = args.wanted.workspace(places)?;
    let wanted = args.wanted.wanted(places, workspace.as_ref())?;
    let engine = engine(args.wanted.engine, places)?;
    let name = engine.name();
    let how =
        How { rebuild: args.rebuild, offline: args.offline, network: args.network.as_deref() };
    let is_trusted = |found: ContentHash| {
        let path = wanted.layer.as_ref().map(|(layer, _)| layer.path()).unwrap_or_default();
        check(found, args.trust_image, workspace.as_ref(), path, places)
    };
    let built = Images::new(engine, places, tell).build(&wanted, &how, &is_trusted);
    if let Err(ImageError::Interrupted(signal)) = &built {
        pinfold_host::sys::die_of(*signal);
    }
    Ok((name, built.map_err(told)?))
}

/// An engine of the machine's, and no program of that name that lies in the workspace.
fn engine(asked: Option<ImageEngine>, places: &Places) -> Result<Engine, Failure> {
    Engine::find(asked, &policy::workspace_here(places)).map_err(told)
}

/// Whether what a repository adds is trusted, by the hash that was given or by what was looked at.
fn check(
    found: ContentHash,
    given: Option<ContentHash>,
    workspace: Option<&Workspace>,
    path: PathBuf,
    places: &Places,
) -> Result<(), ImageError> {
    match given {
        Some(given) if given == found => return Ok(()),
        Some(given) => return Err(ImageError::NotAsGiven { path, given, found }),
        None => {}
    }
    let store = TrustStore::new(places);
    let is_trusted = workspace.map(|workspace| store.is_trusted(workspace, found)).transpose();
    match is_trusted {
        Ok(Some(true)) => Ok(()),
        Ok(_) => Err(ImageError::Untrusted { path }),
        Err(cause) => Err(ImageError::Own { doing: "read what is trusted in", path, cause }),
    }
}

fn tag(args: &TagArgs, places: &Places) -> Result<ExitCode, Failure> {
    let workspace = args.wanted.workspace(places)?;
    let wanted = args.wanted.wanted(places, workspace.as_ref())?;
    let engine = engine(args.wanted.engine, places)?;
    let tagged = Images::new(engine, places, &tell).tag(&wanted).map_err(told)?;
    let base = match &tagged.base {
        Some(Base::Image(reference)) => Some(reference.as_str()),
        Some(Base::Scratch) => Some("scratch"),
        None => None,
    };
    if args.output.json {
        let shown = json!({
            "tag": tagged.last().to_string(),
            "agent": tagged.agent.to_string(),
            "base": base,
            "base-digest": tagged.digest,
            "extensions": tagged.extensions.map(|hash| hash.to_string()),
        });
        print::json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    if tagged.digest.is_empty() && tagged.base != Some(Base::Scratch) {
        let base = base.unwrap_or("what it builds on");
        notify!("pinfold: note: {base} is not known here, so the tag is without its digest");
    }
    say!("{}", tagged.last());
    Ok(ExitCode::SUCCESS)
}

fn list(args: &ListArgs, places: &Places) -> Result<ExitCode, Failure> {
    let engine = engine(args.engine, places)?;
    let prefix = match &args.agent {
        Some(agent) => ImageTag::repository_of(agent).map_err(Failure::new)?,
        None => ImageTag::PREFIX.to_owned(),
    };
    let listed = engine.list(&prefix).map_err(told)?;
    if args.output.json {
        let shown: Vec<_> = listed
            .iter()
            .map(|one| {
                json!({"tag": one.tag, "id": one.id, "size": one.size, "created": one.created})
            })
            .collect();
        print::json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    if listed.is_empty() {
        notify!("pinfold: no images; `pinfold image build AGENT` builds one");
    }
    for one in listed {
        let plain = |text: &str| Escaped(Path::new(text)).to_string();
        say!("{}  {}  {}", plain(&one.tag), plain(&one.size), plain(&one.created));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person sees who waits.
fn tell(event: &Event<'_>) {
    match event {
        Event::Pulling(reference) => notify!("pinfold: getting {reference}"),
        Event::Own(reference) => notify!(
            "pinfold: note: {reference} is older than seven days, and was made on this machine, so \
             there is nobody to ask for a newer one"
        ),
        Event::Building(tag) => notify!("pinfold: building {tag}"),
        Event::There(tag) => notify!("pinfold: {tag} is there"),
        Event::Output(said) => {
            // What a repository has a build say does not drive the terminal.
            pinfold_terminal::notify::output(said);
        }
    }
}

/// An error about an image, with the way out.
pub(crate) fn told(error: ImageError) -> Failure {
    let hint = error.hint();
    Failure::own(error).hint(hint)
}

/// What a repository is called: its directory's name.
fn name_of(root: &Path) -> String {
    root.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
