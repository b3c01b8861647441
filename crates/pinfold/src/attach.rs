//! `pinfold attach`.

use std::process::ExitCode;

use clap::Args;
use pinfold_cluster::has_cluster;
use pinfold_host::directories::Places;
use pinfold_session::RunError;
use pinfold_session::control::{self, Attach, AttachEnd};
use pinfold_terminal::detach_keys::DetachKeys;
use pinfold_terminal::notify;

use crate::completions;
use crate::exit::Failure;

/// Why a session of a cluster cannot be attached to from here.
const ELSEWHERE: &str = "sessions of a cluster are on its nodes, which `pinfold task show` names; `pinfold task logs -f` follows a task from here";

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The session, by its name or the beginning of its id
    #[arg(add = completions::live())]
    session: String,
    /// The keys that detach
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    detach_keys: DetachKeys,
    /// Only watch: send no keys, and do not change the size of its window
    #[arg(long)]
    read_only: bool,
}

pub(crate) fn attach(args: AttachArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    let attach = Attach { keys: args.detach_keys, read_only: args.read_only };
    let attached = control::attach(&places, &args.session, attach).map_err(|error| {
        let is_elsewhere = matches!(error, RunError::NoSession(_)) && has_cluster(&places);
        let failure = Failure::from(error);
        if is_elsewhere { failure.hint(Some(ELSEWHERE.to_owned())) } else { failure }
    });
    match attached? {
        AttachEnd::Ended(status) => Ok(ExitCode::from(status)),
        AttachEnd::Detached(session) => {
            notify::put(format_args!("\n"));
            notify!("pinfold: detached; `pinfold attach {session}` goes back");
            Ok(ExitCode::SUCCESS)
        }
    }
}
