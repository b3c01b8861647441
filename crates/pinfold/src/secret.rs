//! `pinfold secret`: where credentials are, and putting them there.

use std::io::{self, Write};

use clap::{Args, Subcommand, ValueEnum};
use pinfold_secrets::{
    AuthMode, Entry, EnvName, Error, Found, InvalidSecret, Report, RunCommand, SecretId, Store,
};
use pinfold_terminal::notify;
use serde_json::{Value, json};

mod prompt;
mod takeover;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Save a secret that is typed, or piped into standard input; live sessions use it at once
    #[command(visible_alias = "rotate")]
    Set(SetArgs),
    /// Import the login that an agent has on this host; it is refreshed outside of sandboxes
    Import(takeover::ImportArgs),
    /// Show where a secret is, and whether it can be used
    Check(CheckArgs),
    /// List secrets and where they are
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a secret; live sessions lose it at once
    #[command(visible_alias = "revoke")]
    Rm {
        /// The secret's name, such as anthropic
        id: SecretId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The secret's name, such as anthropic or openai
    id: SecretId,
    /// Save the name of a variable, and read its value at each use
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from_command", "keyring"])]
    from_env: Option<String>,
    /// Save a command that prints the secret, such as `gh auth token`, and run it at each use; must
    /// be the last option. `--` may stand before the command
    #[arg(
        long,
        value_name = "COMMAND",
        num_args = 1..,
        allow_hyphen_values = true,
        conflicts_with = "keyring"
    )]
    from_command: Option<Vec<String>>,
    /// Save the value in the keyring of the desktop session, not in a file
    #[arg(long)]
    keyring: bool,
    /// The kind of credential, if its form does not show it
    #[arg(long, value_enum)]
    auth: Option<AuthArg>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The secret's name, such as anthropic
    id: SecretId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The kinds of credential on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum AuthArg {
    /// A key of an API account.
    ApiKey,
    /// A token of a subscription login.
    Oauth,
    /// A key of somebody's gateway, sent as a bearer token.
    Gateway,
}

impl From<AuthArg> for AuthMode {
    fn from(argument: AuthArg) -> Self {
        match argument {
            AuthArg::ApiKey => Self::ApiKey,
            AuthArg::Oauth => Self::Oauth,
            AuthArg::Gateway => Self::Gateway,
        }
    }
}

/// Why a `pinfold secret` failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    /// The store's own words.
    #[error(transparent)]
    Store(#[from] Error),
    /// What was typed or piped is no secret.
    #[error("nothing was kept: {0}")]
    Invalid(#[from] InvalidSecret),
    /// A file of an agent's cannot be taken over.
    #[error("cannot take over {}: {cause}", .path.display())]
    Foreign {
        path: std::path::PathBuf,
        /// Why not; never a quotation.
        cause: String,
    },
    /// Nothing follows `--from-command --`.
    #[error("no command after `--from-command --`")]
    NoCommand,
    /// There is no home to look in.
    #[error("HOME is not set; name the file with --from")]
    NoFile,
    /// Standard input, standard output or the terminal failed.
    #[error("cannot {action}: {cause}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// A check or a list found nothing usable; what there is to say has been said.
    #[error("no usable secret `{id}`: {cause}")]
    Unusable { id: SecretId, cause: Error },
}

/// Carries out one command. Data goes to `out`, words for a user to standard error.
///
/// # Errors
/// Returns [`SecretError`]; `check` fails when the secret cannot be used.
pub(crate) fn run(
    command: SecretCommand,
    store: &Store,
    runner: &dyn RunCommand,
    out: &mut dyn Write,
) -> Result<(), SecretError> {
    match command {
        SecretCommand::Set(args) => set(args, store, runner),
        SecretCommand::Import(args) => takeover::import(&args, store, runner),
        SecretCommand::Check(args) => check(&args, store, runner, out),
        SecretCommand::Ls { json } => list(json, store, out),
        SecretCommand::Rm { id } => {
            for place in store.remove(&id, runner)? {
                notify!("forgot {id} ({place})");
            }
            Ok(())
        }
    }
}

fn set(args: SetArgs, store: &Store, runner: &dyn RunCommand) -> Result<(), SecretError> {
    let entry = match (args.from_env, args.from_command) {
        (Some(name), _) => Entry::Env(EnvName::new(name).map_err(pinfold_secrets::Error::from)?),
        (None, Some(argv)) => Entry::Command(command(argv)?),
        (None, None) if args.keyring => Entry::Keyring(prompt::read_value(&args.id)?),
        (None, None) => Entry::Value(prompt::read_value(&args.id)?),
    };
    let Found { place, auth } = store.set(&args.id, entry, args.auth.map(Into::into), runner)?;
    notify!("{} ({auth}) is now taken from {place}", args.id);
    Ok(())
}

/// Takes away a `--` before a command: to clap it is the first of the option's values.
///
/// # Errors
/// Returns an error if no command follows it.
fn command(mut argv: Vec<String>) -> Result<Vec<String>, SecretError> {
    if argv.first().is_some_and(|first| first == "--") {
        argv.remove(0);
    }
    if argv.is_empty() { Err(SecretError::NoCommand) } else { Ok(argv) }
}

fn check(
    args: &CheckArgs,
    store: &Store,
    runner: &dyn RunCommand,
    out: &mut dyn Write,
) -> Result<(), SecretError> {
    let report = store.check(&args.id)?;
    // A secret is sound if its value is available: nothing else shows a command that fails.
    let usable = store.resolve(&args.id, runner).map(|_| ());
    if args.json {
        let mut value = as_json(&report);
        value["usable"] = json!(usable.is_ok());
        if let Err(error) = &usable {
            value["error"] = json!(error.to_string());
        }
        print(out, &format!("{value:#}"))?;
    } else {
        for looked in &report.looked {
            print(out, &format!("{}: {}: {}", report.id, looked.place, looked.outcome))?;
        }
        if let Some(Found { place, auth }) = &report.found {
            let state = if usable.is_ok() { "usable" } else { "not usable" };
            print(out, &format!("{}: {place}: found, {auth}, {state}", report.id))?;
        }
    }
    usable.map_err(|cause| SecretError::Unusable { id: args.id.clone(), cause })
}

fn list(json: bool, store: &Store, out: &mut dyn Write) -> Result<(), SecretError> {
    let reports = store.list()?;
    if json {
        let values: Vec<Value> = reports.iter().map(as_json).collect();
        return print(out, &format!("{:#}", Value::from(values)));
    }
    for report in &reports {
        match (&report.found, report.looked.first()) {
            (Some(Found { place, auth }), _) => {
                print(out, &format!("{}\t{auth}\t{place}", report.id))?;
            }
            (None, Some(looked)) => {
                print(out, &format!("{}\t{}\t{}", report.id, looked.outcome, looked.place))?;
            }
            (None, None) => {}
        }
    }
    if reports.is_empty() {
        notify!("pinfold: no secrets; keep one with `pinfold secret set anthropic`");
    }
    Ok(())
}

fn as_json(report: &Report) -> Value {
    let place = |place: &pinfold_secrets::Place| json!({"source": place.kind(), "location": place.location()});
    let found = report.found.as_ref().map(|found| {
        let mut value = place(&found.place);
        value["auth_mode"] = json!(found.auth.to_string());
        value
    });
    let looked: Vec<Value> = report
        .looked
        .iter()
        .map(|looked| {
            let mut value = place(&looked.place);
            value["outcome"] = json!(looked.outcome);
            value
        })
        .collect();
    json!({"id": report.id.as_str(), "found": found, "looked": looked})
}

fn print(out: &mut dyn Write, line: &str) -> Result<(), SecretError> {
    writeln!(out, "{line}").map_err(|cause| SecretError::Io { action: "print", cause })
}

#[cfg(test)]
mod tests;
