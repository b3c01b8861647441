//! `pinfold task serve` and `pinfold task key`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_content::Uuid;
use pinfold_host::directories::Places;
use pinfold_moltnet::{
    Agents, NewAgent, Profile, PublicKey, Scope, Server, ServerConfig, TlsFiles,
};
use pinfold_tasks::{SqliteStore, SystemClock};
use pinfold_terminal::notify;
use serde_json::{Value, json};

use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, say};

// Where a server listens, and how it proves who it is. A doc comment would become the description of the command.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// The address and port; port 0 is any free one. By default 127.0.0.1:8474 for tasks, and port 8475 for a diary
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// A certificate in PEM form, with those that vouch for it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's private key in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Also serve without TLS on an address that other machines reach, such as behind a proxy that has it
    #[arg(long, conflicts_with = "tls_certificate")]
    plain_http: bool,
}

/// A server's address, and its certificate if it has one.
pub(crate) struct Listen {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsFiles>,
}

impl ListenArgs {
    /// Returns where to listen.
    ///
    /// # Errors
    /// Returns an error for an address that others reach without TLS.
    pub(crate) fn listen(self, port: u16) -> Result<Listen, Failure> {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = self.listen.unwrap_or(local);
        if !address.ip().is_loopback() && self.tls_certificate.is_none() && !self.plain_http {
            let what =
                format!("{address} can be reached by others, and keys would be sent in the clear");
            let hint = "name a certificate (--tls-certificate, --tls-key), or say --plain-http behind a proxy with TLS";
            return Err(Failure::new(what).hint(Some(hint.to_owned())));
        }
        let tls = self.tls_certificate.zip(self.tls_key);
        let tls = tls.map(|(certificate, key)| TlsFiles { certificate, key });
        Ok(Listen { address, tls })
    }
}

impl Listen {
    /// Serves until the process ends, and says where.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen.
    pub(crate) fn serve(
        self,
        bind: impl FnOnce(SocketAddr, Option<TlsFiles>) -> io::Result<Server>,
    ) -> Result<ExitCode, Failure> {
        let Self { address, tls } = self;
        let failed = |error| Failure::new(format!("cannot serve on {address}: {error}"));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server = bind(address, tls).map_err(failed)?;
        say!("{scheme}://{}", server.address().map_err(failed)?);
        server.run().map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    listen: ListenArgs,
    /// The provider of the model that daemons are to use
    #[arg(long, value_name = "NAME", requires = "model")]
    provider: Option<String>,
    /// The model that daemons are to use
    #[arg(long, requires = "provider")]
    model: Option<String>,
}

/// The port of the server of tasks.
const PORT: u16 = 8474;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Add an agent, and print its key, which is shown only once
    Add(AddArgs),
    /// List agents
    Ls(Output),
    /// Remove an agent; its key and its tokens are worth nothing from then on
    Rm {
        /// The agent's name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The agent's name
    name: String,
    /// What it may do; may be repeated. By default what a worker needs, or who uses a diary
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<Scope>,
    /// The id of its team, whose tasks it sees; the server's own team by default
    #[arg(long, value_name = "UUID")]
    team: Option<Uuid>,
    /// The public key that it signs with, as ed25519:BASE64
    #[arg(long, value_name = "KEY")]
    public_key: Option<PublicKey>,
}

/// Serves tasks to workers on other machines until it is ended.
pub(super) fn serve(args: ServeArgs, places: &Places) -> Result<ExitCode, Failure> {
    let listen = args.listen.listen(PORT)?;
    let directory = directory(places)?;
    // A store of its own: what `pinfold task add` queues names files and commands of this machine.
    let store = SqliteStore::open_file(&directory.join("served.db"), Box::new(SystemClock))
        .map_err(|error| {
            let hint = error.hint();
            Failure::new(error).hint(hint)
        })?;
    let profile = args.provider.zip(args.model);
    let agents = agents(places)?;
    if agents.list().map_err(Failure::new)?.is_empty() {
        notify!("pinfold: no agent has a key yet; `pinfold task key add NAME` makes one");
    }
    let profile = profile.map(|(provider, model)| Profile { provider, model });
    let files = directory.join("artifacts");
    listen.serve(|address, tls| {
        Server::bind(address, ServerConfig { store, agents, files, profile, tls })
    })
}

pub(super) fn key(command: KeyCommand, places: &Places) -> Result<ExitCode, Failure> {
    keys(command, &agents(places)?, Scope::OF_A_WORKER)
}

/// Manages the keys of agents, which get these scopes unless others are named.
///
/// # Errors
/// Returns an error for an agent that is not there, or a file that cannot be used.
pub(crate) fn keys(
    command: KeyCommand,
    agents: &Agents,
    scopes: &[Scope],
) -> Result<ExitCode, Failure> {
    match command {
        KeyCommand::Add(args) => add(args, agents, scopes)?,
        KeyCommand::Ls(output) => list(&output, agents)?,
        KeyCommand::Rm { name } => {
            if agents.remove(&name).map_err(Failure::new)? {
                notify!("pinfold: removed: {name}")
            } else {
                return Err(Failure::new(format!("no agent {name:?}")));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: AddArgs, agents: &Agents, scopes: &[Scope]) -> Result<(), Failure> {
    let AddArgs { name, mut scope, team, public_key } = args;
    if scope.is_empty() {
        scope = scopes.to_vec();
    }
    let new = NewAgent { name, team, scopes: scope, public_key };
    let (agent, key) = agents.add(&new).map_err(Failure::new)?;
    // Where keys go that are piped to a program.
    say!("{}", key.as_str());
    notify!("pinfold: the key of {} is not shown again", agent.name);
    notify!("pinfold: client id {}, team {}", agent.id, agent.team);
    Ok(())
}

fn list(output: &Output, agents: &Agents) -> Result<(), Failure> {
    let agents = agents.list().map_err(Failure::new)?;
    let words = |scopes: &[Scope]| scopes.iter().map(|scope| scope.word()).collect::<Vec<_>>();
    if output.json {
        let agents = agents.iter().map(|agent| {
            json!({ "name": agent.name, "id": agent.id, "team": agent.team, "scopes": words(&agent.scopes) })
        });
        return print::json(&json!({ "agents": agents.collect::<Vec<Value>>() }));
    }
    for agent in &agents {
        say!("{:20}  {}  {}", agent.name, agent.id, words(&agent.scopes).join(" "));
    }
    if agents.is_empty() {
        notify!("pinfold: no agents");
    }
    Ok(())
}

/// Returns the agents that the server knows.
fn agents(places: &Places) -> Result<Agents, Failure> {
    Ok(Agents::new(directory(places)?.join("agents.json")))
}

fn directory(places: &Places) -> Result<PathBuf, Failure> {
    let directory = places.state.join("tasks");
    Places::make_private(&directory).map_err(Failure::new)?;
    Ok(pinfold_host::directories::resolved(&directory))
}
