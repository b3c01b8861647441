//! `pinfold secret import`: the logins that agents have on this host.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pinfold_secrets::{Client, Entry, Foreign, Found, RunCommand, Store, read_foreign};
use pinfold_terminal::notify;
use zeroize::Zeroizing;

use super::SecretError;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The agent whose login to import
    #[arg(value_enum)]
    agent: AgentArg,
    /// The file with the login, if it is not the agent's usual one
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Import only this provider of a file that has several
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AgentArg {
    /// Claude Code: ~/.claude/.credentials.json
    Claude,
    /// Codex: ~/.codex/auth.json
    Codex,
    /// pi: ~/.pi/agent/auth.json
    Pi,
}

impl AgentArg {
    fn client(self) -> Client {
        match self {
            Self::Claude => Client::Claude,
            Self::Codex => Client::Codex,
            Self::Pi => Client::Pi,
        }
    }

    /// Returns the file, where the agent's own variables say it is.
    fn usual(self, variables: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let (variable, below_home, file) = match self {
            Self::Claude => ("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),
            Self::Codex => ("CODEX_HOME", ".codex", "auth.json"),
            Self::Pi => ("PI_CODING_AGENT_DIR", ".pi/agent", "auth.json"),
        };
        let set = |name: &str| variables(name).filter(|value| !value.is_empty());
        let home = || set("HOME").map(|home| Path::new(&home).join(below_home));
        Some(set(variable).map(PathBuf::from).or_else(home)?.join(file))
    }
}

/// Takes the credentials of a file over.
///
/// # Errors
/// Returns [`SecretError::Foreign`] when the file is not there or not understood; the store's errors.
pub(super) fn import(
    args: &ImportArgs,
    store: &Store,
    runner: &dyn RunCommand,
) -> Result<(), SecretError> {
    let usual = || args.agent.usual(|name| env::var_os(name));
    let Some(path) = args.from.clone().or_else(usual) else {
        return Err(SecretError::NoFile);
    };
    let refused = |cause: String| SecretError::Foreign { path: path.clone(), cause };
    let bytes = fs::read(&path).map(Zeroizing::new).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refused(
            "the file does not exist; log in with the agent, or name its file with --from"
                .to_owned(),
        ),
        _ => refused(error.to_string()),
    })?;
    let found =
        read_foreign(args.agent.client(), &bytes).map_err(|error| refused(error.to_string()))?;
    let chosen = choose(found, args.provider.as_deref()).map_err(refused)?;
    let mut kept = 0;
    for Foreign { provider, id, entry } in chosen {
        let entry = match entry {
            Ok(entry) => entry,
            Err(what) => {
                notify!("skipped {provider}: it is {what}");
                continue;
            }
        };
        let login = matches!(entry, Entry::Login(_));
        let Found { place, auth } = store.set(&id, entry, None, runner)?;
        kept += 1;
        notify!("{id} ({auth}) is now taken from {place}");
        if login {
            notify!(
                "pinfold refreshes this login from now on, and the copy in {} may end when it does: \
                 log in there again for one of its own",
                path.display()
            );
        }
    }
    if kept == 0 { Err(refused("nothing in it can be taken over".to_owned())) } else { Ok(()) }
}

/// Returns the credentials to take; an error when two would be the same secret.
fn choose(found: Vec<Foreign>, provider: Option<&str>) -> Result<Vec<Foreign>, String> {
    let names = |found: &[Foreign]| {
        found.iter().map(|one| one.provider.as_str()).collect::<Vec<_>>().join(", ")
    };
    if let Some(name) = provider {
        let known = names(&found);
        let chosen: Vec<_> = found.into_iter().filter(|one| one.provider == name).collect();
        return if chosen.is_empty() {
            Err(format!("it has no provider {name}; it has {known}"))
        } else {
            Ok(chosen)
        };
    }
    for (at, one) in found.iter().enumerate() {
        if let Some(other) = found[..at].iter().find(|other| other.id == one.id) {
            return Err(format!(
                "both {} and {} would be the secret {}; choose one with --provider",
                other.provider, one.provider, one.id
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
