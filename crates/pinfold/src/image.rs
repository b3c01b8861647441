//! `pinfold image`: agents' container images.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_engines::image::{Event, How, ImageError};
use pinfold_host::Host;
use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_image::{Base, ImageTag, Reference};
use pinfold_policy::path::Escaped;
use pinfold_policy::project::ImageEngine;
use pinfold_session::prepare::{self, AgentImage};
use pinfold_terminal::notify;
use serde_json::json;

use crate::cli::Output;
use crate::exit::Failure;
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
    /// The engine, docker or podman; by default the first that works
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
    /// The engine, docker or podman; by default the first that works
    #[arg(long, value_name = "NAME")]
    engine: Option<ImageEngine>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn image(command: &ImageCommand, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let host = Host { places: &places, launcher };
    let done = match command {
        ImageCommand::Build(args) => build(args, host),
        ImageCommand::Tag(args) => tag(args, host),
        ImageCommand::Ls(args) => list(args, host),
    };
    done.map_err(Failure::plain)
}

impl WantedArgs {
    fn image(&self) -> AgentImage {
        AgentImage {
            agent: self.agent.clone(),
            engine: self.engine,
            base_image: self.base_image.clone(),
            provider: self.provider.clone(),
            files: self.files.clone(),
            extensions: self.extensions.clone(),
            agent_only: self.agent_only,
            trust_image: None,
        }
    }
}

fn build(args: &BuildArgs, host: Host<'_>) -> Result<ExitCode, Failure> {
    let image = AgentImage { trust_image: args.trust_image, ..args.wanted.image() };
    let network = args.network.as_deref();
    let how = How { rebuild: args.rebuild, offline: args.offline, network };
    let (_, tag) = image.build(&how, host, &report, &pinfold_host::sys::die_of)?;
    say!("{tag}");
    Ok(ExitCode::SUCCESS)
}

fn tag(args: &TagArgs, host: Host<'_>) -> Result<ExitCode, Failure> {
    let tagged = args.wanted.image().tag(host, &report)?;
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

fn list(args: &ListArgs, host: Host<'_>) -> Result<ExitCode, Failure> {
    let engine = prepare::engine(args.engine, host, &report)?;
    let prefix = match &args.agent {
        Some(agent) => ImageTag::repository_of(agent).map_err(Failure::new)?,
        None => ImageTag::PREFIX.to_owned(),
    };
    let listed = engine.list(&prefix).map_err(failure)?;
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

/// Shows what happens to a user who waits.
pub(crate) fn report(event: &Event<'_>) {
    match event {
        Event::Instead(engine, why) => notify!("pinfold: note: {engine} is used, since {why}"),
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

/// Returns an error about an image, with the hint.
pub(crate) fn failure(error: ImageError) -> Failure {
    let hint = error.hint();
    Failure::own(error).hint(hint)
}
