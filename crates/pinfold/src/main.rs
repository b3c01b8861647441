//! The command line: parse, call, print.

mod cli;
mod doctor;
mod environment;
mod exit;
mod log;
mod policy;
mod run;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Doctor(output) => Ok(doctor::doctor(output)),
        Command::Audit(args) => log::audit(&args),
    };
    outcome.unwrap_or_else(exit::Failure::show)
}
