//! `pinfold memory serve` and `pinfold memory key`.

use std::process::ExitCode;

use clap::Args;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::directories::{Places, resolved};
use pinfold_host::session_id::SessionId;
use pinfold_mcp::Purpose;
use pinfold_memory::{KnownSecrets, MemoryTools, Rules};
use pinfold_moltnet::{Agents, DiaryConfig, Scope, Server};
use pinfold_policy::settings::MemoryGrant;
use pinfold_secrets::Store;
use pinfold_terminal::notify;

use super::diary::{DiaryArgs, Scene};
use crate::exit::Failure;
use crate::task::{KeyCommand, ListenArgs, keys};

/// The port of the server of a diary.
const PORT: u16 = 8475;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    listen: ListenArgs,
    /// Sign entries with the key of --identity, which this repository has
    #[arg(long, requires = "identity")]
    sign: bool,
    #[command(flatten)]
    diary: DiaryArgs,
}

/// Serves a diary to agents on other machines until it is ended.
///
/// # Errors
/// Returns an error for a diary that cannot be used, or a server that cannot listen.
pub(super) fn serve(args: ServeArgs, scene: &Scene<'_>) -> Result<ExitCode, Failure> {
    let listen = args.listen.listen(PORT)?;
    let purpose = if args.sign { Purpose::Sign } else { Purpose::Write };
    let diary = args.diary.open_here(scene, purpose)?;
    let id = diary.id().to_string();
    let agents = agents(scene.places)?;
    if agents.list().map_err(Failure::new)?.is_empty() {
        notify!("pinfold: no agent has a key yet; `pinfold memory key add NAME` makes one");
    }
    let (places, launcher) = (scene.places.clone(), scene.launcher.clone());
    let secrets = move || {
        let store = Store::new(places.secrets());
        KnownSecrets::of_store(&store, &launcher).map_err(|error| error.to_string())
    };
    // Scopes say what each agent may do.
    let rules = Rules::new(MemoryGrant::Write, secrets);
    let rules = rules.ok_or_else(|| Failure::new("the diary has no tools"))?;
    let tools = MemoryTools::new(diary, rules);
    let session = SessionId::generate().map_err(Failure::new)?;
    let audit = Audit::open(&scene.places.state, Some(session)).map_err(Failure::new)?;
    notify!("pinfold: serving the diary {id}");
    let record = Box::new(move |tool: &str| audit.record(&Event::Memory { tool, diary: &id }));
    let name = args.diary.shown().to_owned();
    listen.serve(|address, tls| {
        Server::bind_diary(address, DiaryConfig { tools, name, agents, record, tls })
    })
}

/// Manages the keys of agents that may use served diaries.
///
/// # Errors
/// Returns the errors of [`keys`].
pub(super) fn key(command: KeyCommand, scene: &Scene<'_>) -> Result<ExitCode, Failure> {
    keys(command, &agents(scene.places)?, Scope::OF_A_SIGNER)
}

fn agents(places: &Places) -> Result<Agents, Failure> {
    let directory = places.state.join("memory");
    Places::make_private(&directory).map_err(Failure::new)?;
    Ok(Agents::new(resolved(&directory).join("agents.json")))
}
