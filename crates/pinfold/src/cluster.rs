//! `pinfold cluster`: the nodes of a cluster work on the tasks of a team's queue.

mod check;
mod node;
mod run;
mod site;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;

use crate::cli::Output;
use crate::exit::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Place queued tasks on nodes as jobs of Slurm or Kubernetes, and look after them until nothing is queued
    Run(RunArgs),
    /// Check the scheduler, the store, and by a job what is missing on a node
    Check(CheckArgs),
    /// Work on the attempt that this job was placed for
    #[command(hide = true)]
    Work(node::NodeArgs),
    /// Say what is missing on this node
    #[command(hide = true)]
    Probe(node::AllocationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Wait for tasks when there are none, until this is ended
    #[arg(long)]
    poll: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Start no job
    #[arg(long)]
    no_job: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn cluster(command: ClusterCommand, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    match command {
        ClusterCommand::Run(args) => run::run(&args, &places, launcher),
        ClusterCommand::Check(args) => check::check(&args, &places, launcher),
        ClusterCommand::Work(args) => node::work(&args, &places, launcher),
        ClusterCommand::Probe(_) => node::probe(&places, launcher),
    }
}
