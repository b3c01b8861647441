//! `pinfold serve` and `pinfold mcp`.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_serve::{Api, Mcp};
use pinfold_terminal::notify;

use crate::cli::PolicyArgs;
use crate::exit::Failure;
use crate::memory;

/// The API's description. A test of `pinfold-client` keeps it as the code is.
const SCHEMA: &str = include_str!("../../../schema/api.json");

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The socket to listen on; by default in the user's runtime directory
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Serve one client on standard input and output instead
    #[arg(long, conflicts_with = "socket")]
    stdio: bool,
    /// Print the API's description (OpenRPC) and exit
    #[arg(long, conflicts_with_all = ["socket", "stdio"])]
    schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Options of `pinfold run` for its sandboxes, such as `--allow-host example.com`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

pub(crate) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    if args.schema {
        io::stdout().write_all(SCHEMA.as_bytes()).map_err(Failure::new)?;
        return Ok(ExitCode::SUCCESS);
    }
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let default = || socket(&places);
    let path = args.socket.unwrap_or_else(default);
    let api = Api::new(places);
    if args.stdio {
        api.serve(pinfold_serve::input(), io::stdout()).map_err(Failure::new)?;
    } else {
        let is_bound = || notify!("pinfold: serving at {}", path.display());
        pinfold_serve::listen(&api, &path, is_bound).map_err(Failure::new)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns where clients look for the server: `$XDG_RUNTIME_DIR/pinfold/api.sock`, or next to the state
/// if the system has no such directory.
fn socket(places: &Places) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|directory| directory.is_absolute());
    let directory = runtime.map(|runtime| runtime.join("pinfold"));
    directory.unwrap_or_else(|| places.state.join("serve")).join("api.sock")
}

/// Serves tools. `parse` parses the words of a command line.
pub(crate) fn mcp(
    args: McpArgs,
    launcher: &Launcher,
    parse: impl FnOnce(Vec<OsString>) -> Result<PolicyArgs, clap::Error>,
) -> Result<ExitCode, Failure> {
    // Options that cannot be read are reported to the user who wrote them, not to the model later.
    let run = ["pinfold", "run", "--idle", "--held"].map(OsString::from);
    let parsed = parse(run.into_iter().chain(args.options.iter().cloned()).collect());
    let policy = parsed.unwrap_or_else(|error| error.exit());
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let directory = std::env::current_dir().map_err(Failure::new)?;
    let memory = memory::tools(&policy, Host { places: &places, launcher })?;
    let mcp = Mcp::new(directory, args.options, memory);
    mcp.serve(places, pinfold_serve::input(), io::stdout()).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
