//! `pinfold setup`: what an administrator changes on a machine.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use pinfold_setup::{Machine, Refusal, Wanted};
use pinfold_terminal::notify;

use crate::exit::Failure;
use crate::print::say;

/// The name of the runner's executable.
const RUNNER: &str = "pinfold-runner";

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Let users of this machine run sessions as a user of their own (boundary `systemd`)
    Systemd(SystemdArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pinfold setup systemd --for 'alice=~/work'
  sudo pinfold setup systemd --for 'alice=~/work,/srv/site' --for 'bob=~/src' --wrapper pi
  sudo pinfold setup systemd --dry-run --for 'alice=~/work'   show what it would do
  sudo pinfold setup systemd --remove                         take all of it back")]
pub(crate) struct SystemdArgs {
    /// Let a user start sessions in directories; `~` is that user's home. Users that were set up before stay
    #[arg(long = "for", value_name = "USER=DIR[,DIR…]")]
    host_users: Vec<HostUser>,
    /// The user that sessions run as, made if it does not exist; those of a second host user run as NAME-USER [default: pinfold-agent]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The directory of what is kept for host users [default: /var/lib/NAME]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Let sudo start the runner, too, for users who cannot reach its socket
    #[arg(long)]
    sudo: bool,
    /// Make the name of an agent start a session, for all users (/usr/local/bin)
    #[arg(long = "wrapper", value_name = "AGENT")]
    wrappers: Vec<String>,
    /// Take back what earlier set-ups made
    #[arg(long, conflicts_with_all = ["host_users", "user", "state_dir", "sudo", "wrappers"])]
    remove: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
}

/// A user, and directories that sessions may work in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostUser {
    name: String,
    roots: Vec<String>,
}

impl FromStr for HostUser {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "say a user and directories, as in 'alice=~/work'";
        let (name, roots) = text.split_once('=').ok_or(FORM)?;
        let roots: Vec<String> = roots.split(',').map(str::to_owned).collect();
        if name.is_empty() || roots.iter().any(String::is_empty) {
            return Err(FORM);
        }
        Ok(Self { name: name.to_owned(), roots })
    }
}

pub(crate) fn setup(command: &SetupCommand) -> Result<ExitCode, Failure> {
    match command {
        SetupCommand::Systemd(args) => systemd(args),
    }
}

fn systemd(args: &SystemdArgs) -> Result<ExitCode, Failure> {
    let failed = |refusal: Refusal| Failure::new(refusal.what).hint(refusal.hint);
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("only root can set up this machine")
            .hint(Some("`sudo pinfold setup systemd …`".to_owned())));
    }
    let machine = Machine::this();
    let _alone = (!args.dry_run).then(|| machine.lock()).transpose().map_err(failed)?;
    let plan = if args.remove {
        pinfold_setup::remove(&machine)
    } else {
        pinfold_setup::install(&wanted(args)?, &machine)
    };
    let plan = plan.map_err(failed)?;
    if plan.is_empty() {
        notify!("pinfold: nothing to do: this machine is set up");
        return Ok(ExitCode::SUCCESS);
    }
    say!("pinfold setup systemd {}:\n{plan}", if args.dry_run { "would" } else { "will" });
    if args.dry_run || !args.yes && !agrees()? {
        return Ok(ExitCode::SUCCESS);
    }
    plan.apply(&machine).map_err(failed)?;
    notify!("pinfold: done");
    Ok(ExitCode::SUCCESS)
}

fn wanted(args: &SystemdArgs) -> Result<Wanted, Failure> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let mut host_users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for HostUser { name, roots } in &args.host_users {
        host_users.entry(name.clone()).or_default().extend(roots.iter().cloned());
    }
    let own = program.with_file_name(RUNNER);
    let runner = if own.exists() { own } else { pinfold_setup::RUNNER.into() };
    Ok(Wanted {
        user: args.user.clone(),
        state_dir: args.state_dir.clone(),
        host_users,
        sudo: args.sudo,
        wrappers: args.wrappers.clone(),
        program,
        runner,
    })
}

fn agrees() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::new("nothing was changed: there is no terminal to ask on")
            .hint(Some("`--yes` does not ask, `--dry-run` only shows".to_owned())));
    }
    notify::put(format_args!("pinfold: do all of this? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::new)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_user_has_a_name_and_directories() {
        let read = |text: &str| text.parse::<HostUser>().map(|user| (user.name, user.roots));
        let roots = vec!["~/a b".to_owned(), "/srv=x".to_owned()];
        assert_eq!(read("alice=~/a b,/srv=x"), Ok(("alice".to_owned(), roots)));
        for wrong in ["", "alice", "=~", "alice=", "alice=/a,"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
