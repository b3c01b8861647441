//! `pinfold work --source`: works on the tasks of a server.

use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_attempt::{Output, Repository, first_prompt};
use pinfold_content::Uuid;
use pinfold_host::Host;
use pinfold_host::Refusal;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_moltnet::{Credentials, Remote, RemoteConfig, WayOut, Work};
use pinfold_tasks::{Completion, Stop, TaskSpec, VerifyStep, load_task};
use pinfold_terminal::notify;

use super::plain;
use crate::exit::Failure;
use crate::task;

#[derive(Debug, Args)]
#[command(next_help_heading = "Tasks of a server")]
pub(crate) struct RemoteArgs {
    /// The address of a server with MoltNet's task API: https, or http on this machine
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// The repository to work on; the current one by default
    #[arg(long, value_name = "DIRECTORY", requires = "source")]
    repository: Option<PathBuf>,
    /// A task file that says how to work on all tasks: its front matter without the brief
    #[arg(long, value_name = "FILE", requires = "source")]
    template: Option<PathBuf>,
    /// The agent
    #[arg(long, value_name = "NAME", requires = "source")]
    agent: Option<String>,
    /// A command that each result has to pass, in a sandbox of its own; may be repeated
    #[arg(long, value_name = "COMMAND", requires = "source")]
    verify: Vec<String>,
    /// A moltnet.json with credentials, if the environment has none
    #[arg(long, value_name = "FILE", requires = "source")]
    credentials: Option<PathBuf>,
    /// The id of the team, if the key does not say so
    #[arg(long, value_name = "UUID", requires = "source")]
    team: Option<Uuid>,
    /// Work on tasks with this correlation id alone
    #[arg(long, value_name = "UUID", requires = "source")]
    correlation: Option<Uuid>,
}

impl RemoteArgs {
    /// Returns the server's address, if tasks come from one.
    pub(super) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

/// Returns what a server is asked with: the login of this file or of the environment, and the way to the network.
///
/// # Errors
/// Returns an error, with what to do, if there is no login or if a proxy is named that cannot be used.
pub(crate) fn login(file: Option<&Path>) -> Result<(Credentials, WayOut), Failure> {
    let credentials = Credentials::find(file).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    let way = WayOut::from_environment().map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(Some(hint))
    })?;
    Ok((credentials, way))
}

/// Has `work` use the queue of a server.
pub(super) fn with_source<T>(
    args: &RemoteArgs,
    address: &str,
    places: &Places,
    launcher: &Launcher,
    stop: &Stop,
    work: impl FnOnce(&Remote<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let template = template(args, places)?;
    let host = Host { places, launcher };
    let directory = template.repository.clone().unwrap_or_default();
    let (credentials, way) = login(args.credentials.as_deref())?;
    let describe = |completion: &Completion| describe(completion, &directory, host);
    let config = RemoteConfig {
        address: address.to_owned(),
        way,
        credentials,
        team: args.team,
        correlation: args.correlation,
        template,
        check: &|spec| first_prompt(spec).map(drop),
        describe: &describe,
        is_ending: &|| stop.is_set(),
        notify: &|line| notify!("pinfold: {}", plain(line)),
    };
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(format!("cannot use {address}: {error}"));
    let remote = Remote::new(config).map_err(|error| failed(&error))?;
    remote.check().map_err(|error| failed(&error))?;
    work(&remote)
}

/// Returns what all tasks have: all but title and brief.
fn template(args: &RemoteArgs, places: &Places) -> Result<TaskSpec, Failure> {
    let mut spec = match &args.template {
        Some(path) => load_task(path).map_err(|refusal| {
            let hint = refusal.hint().map(str::to_owned);
            Failure::new(refusal).hint(hint)
        })?,
        None => TaskSpec::new("template", "template"),
    };
    if spec.branch.is_some() || !spec.depends.is_empty() {
        return Err(Failure::new("the template names a branch or tasks to wait for")
            .hint(Some("each task has a branch of its own; leave these out".to_owned())));
    }
    if let Some(directory) = &args.repository {
        let named = |error| Failure::new(format!("--repository {}: {error}", directory.display()));
        spec.repository = Some(std::fs::canonicalize(directory).map_err(named)?);
    }
    if args.agent.is_some() {
        spec.agent.clone_from(&args.agent);
    }
    if !args.verify.is_empty() {
        spec.verify = args.verify.iter().cloned().map(VerifyStep).collect();
    }
    task::settle(&mut spec, places)?;
    Ok(spec)
}

/// Describes the result of an attempt to the server.
fn describe(completion: &Completion, directory: &Path, host: Host<'_>) -> Result<Work, Refusal> {
    let output: Output = serde_json::from_str(&completion.output).map_err(Refusal::of)?;
    let repository = Repository::of(directory, host)?;
    let commits = repository.commits(&output.base, &output.commit)?;
    let subjects: Vec<String> = commits
        .iter()
        .filter_map(|(_, message)| message.lines().next())
        .map(|subject| format!("- {subject}"))
        .collect();
    let steps: Vec<&str> = output.steps.iter().map(|step| step.command.as_str()).collect();
    let verified = if steps.is_empty() {
        "no command verified it".to_owned()
    } else {
        format!("verified by: {}", steps.join("; "))
    };
    let what = if output.is_changed() {
        format!("Branch {} at {}", output.branch, output.commit)
    } else {
        "Nothing was changed".to_owned()
    };
    let summary = format!("{what}; {verified}.\n\n{}", subjects.join("\n"));
    Ok(Work { branch: output.branch, summary: summary.trim().to_owned(), commits })
}
