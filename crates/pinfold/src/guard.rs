//! `pinfold guard`: looks into a bundle of extensions.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_policy::count::counted;
use pinfold_policy::path::Escaped;
use pinfold_session::bundle::{self, CheckError, Checked};
use serde_json::json;

use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, say};

#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// The directory with the extensions
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Skip packages in node_modules
    #[arg(long)]
    without_node_modules: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    root: PathBuf,
}

pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode, Failure> {
    let packages = if args.without_node_modules {
        bundle::NodeModules::LeftOut
    } else {
        bundle::NodeModules::Included
    };
    let checked = bundle::check(&args.directory, packages).map_err(refused)?;
    if args.output.json {
        print::json_line(&json!({
            "clean": checked.findings.is_empty(),
            "files": checked.files,
            "findings": checked.findings,
        }))?;
    } else {
        show(&checked);
    }
    Ok(if checked.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn refused(error: CheckError) -> Failure {
    let hint = error.hint();
    Failure::new(error).hint(hint)
}

fn show(checked: &Checked) {
    for finding in &checked.findings {
        let (file, what) = (Escaped(finding.file.as_ref()), Escaped(finding.what.as_ref()));
        say!("{file}:{}:{}: {what}", finding.line, finding.column);
        say!("    instead: {}", finding.replacement);
    }
    let (files, count) = (checked.files, checked.findings.len());
    let files = counted(files as u64, "file");
    match count {
        0 => say!("clean: nothing in {files} reaches for processes"),
        _ => say!("refused: {} in {files}", counted(count as u64, "finding")),
    }
}

pub(crate) fn read(args: &ReadArgs) -> Result<ExitCode, Failure> {
    bundle::read(&args.root).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
