//! `pinfold learn`, `pinfold allow` and `pinfold forbid`.

use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_policy::network::{InvalidRule, NetworkRule, Preset};
use pinfold_session::control::{Change, RulesNow, change};
use pinfold_terminal::notify;

use crate::completions;
use crate::exit::Failure;
use crate::print::say;

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    #[arg(
        value_name = "RULE",
        help = "NAME[:PORT][/PROTOCOL], *.NAME for those below, or a preset: npm, pypi, crates, go, \
                debian or github"
    )]
    rule: Asked,
    /// The session, by the beginning of its id; without it, the only one
    #[arg(long, value_name = "ID", add = completions::live())]
    session: Option<String>,
}

/// What is to be changed.
#[derive(Debug, Clone)]
enum Asked {
    Preset(Preset),
    Rule(NetworkRule),
}

impl FromStr for Asked {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        match text.parse() {
            Ok(preset) => Ok(Self::Preset(preset)),
            Err(_) => text.parse().map(Self::Rule),
        }
    }
}

impl Asked {
    fn rules(&self) -> Vec<NetworkRule> {
        match self {
            Self::Preset(preset) => preset.rules(),
            Self::Rule(rule) => vec![rule.clone()],
        }
    }
}

/// Which way.
pub(crate) enum Way {
    Allow,
    Forbid,
}

pub(crate) fn change_session(way: &Way, args: &ChangeArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let mut now = None;
    for rule in args.rule.rules() {
        let rule = rule.to_string();
        let wanted = match way {
            Way::Allow => Change::Allow(rule),
            Way::Forbid => Change::Forbid(rule),
        };
        let changed = change(&places, args.session.as_deref(), &wanted);
        now = Some(changed.map_err(Failure::of_session)?);
    }
    let Some(RulesNow { rules, by_proxy }) = now else { return Ok(ExitCode::SUCCESS) };
    for rule in rules {
        say!("{rule}");
    }
    if by_proxy && matches!(way, Way::Allow) {
        notify!(
            "pinfold: note: only programs that use HTTP_PROXY and HTTPS_PROXY reach it in this session; \
             start it with --allow-host, --detach or --idle for all programs"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what a run reached, and the smallest rules that allow it.
pub(crate) fn propose(reached: &[NetworkRule]) {
    if reached.is_empty() {
        notify!("pinfold: this run reached no host; it needs no rule");
        return;
    }
    let rules: Vec<String> = reached.iter().map(ToString::to_string).collect();
    let flags: Vec<String> = rules.iter().map(|rule| format!("--allow-host {rule}")).collect();
    let quoted: Vec<String> = rules.iter().map(|rule| format!("\"{rule}\"")).collect();
    notify!("pinfold: this run reached these hosts; the rules allow that and no more:");
    notify!("  pinfold run {}", flags.join(" "));
    notify!("or, in config.toml:");
    notify!("  [network]");
    notify!("  allow = [{}]", quoted.join(", "));
}
