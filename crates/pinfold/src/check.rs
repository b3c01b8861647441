//! `pinfold check`: would it be allowed, and why.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use pinfold_policy::access::Access;
use pinfold_policy::authority::{HostTree, Subject, Verdict};
use pinfold_policy::path::Escaped;
use pinfold_session::agent::{AgentFiles, read_grants};
use pinfold_session::audit::{Audit, Event};
use pinfold_session::places::Places;
use pinfold_session::{View, prospect, userland};
use serde_json::json;

use crate::cli::{Output, PolicyArgs};
use crate::exit::Failure;
use crate::policy;

/// `pinfold check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// What would be done
    access: Asked,
    /// To which path, as it is called inside
    path: PathBuf,
    /// As this agent
    #[arg(long, value_name = "AGENT")]
    profile: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Asked {
    Read,
    Write,
    Exec,
}

impl Asked {
    fn access(self) -> Access {
        match self {
            Self::Read => Access::READ,
            Self::Write => Access::WRITE,
            Self::Exec => Access::EXECUTE,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exec => "execute",
        }
    }
}

/// Explains, and answers by status too: 0 allowed, 1 denied.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::new)?;
    let workspace = policy::workspace(&places)?;
    let settings = policy::settings(&args.policy, args.profile.as_deref(), &places, &workspace)?;
    let workspace = policy::in_mode(workspace, &settings, &places)?;
    let agent = settings.agent.as_ref().map_or("command", |agent| agent.value.as_str());
    let mut extra = Vec::new();
    if args.profile.is_some() {
        let files = AgentFiles::read(&places)?;
        let profile = files.registry().load(agent).map_err(Failure::new)?;
        extra = read_grants(&profile, &settings, &places)?;
    }
    let subject = Subject::AgentSession { agent: agent.into() };
    let view = View::collect(subject, &settings, &workspace, None, extra)?;
    let prospect = prospect(&view, &settings, &workspace, &places)?;
    let path = workspace.cwd.as_path().join(&args.path);
    let access = args.access.access();
    let mut explanation =
        prospect.authority.explain(&HostTree, access, &path).map_err(Failure::new)?;
    let host = explanation.host.as_ref().filter(|_| explanation.restriction.is_none());
    explanation.note = host.and_then(|host| prospect.note(host.as_path())).map(str::to_owned);
    let private = explanation.grant.is_none()
        && (userland::is_private(&path)
            || (workspace.is_scratch && path.starts_with(workspace.root.as_path())));
    let allowed = private || explanation.verdict == Verdict::Allow;
    let reason = if private {
        Some("private to the session".to_owned())
    } else {
        explanation.reason.clone()
    };
    record(&places, args.access, &path, allowed, reason.as_deref()).map_err(Failure::new)?;
    match (args.output.json, private) {
        (true, true) => println!("{}", json!({ "verdict": "allow", "reason": reason })),
        (true, false) => println!("{}", serde_json::to_string(&explanation).map_err(Failure::new)?),
        (false, true) => println!(
            "{} {}: allowed: it is private to the session, empty at its start and gone at its end",
            args.access.word(),
            Escaped(&path)
        ),
        (false, false) => println!("{explanation}"),
    }
    Ok(ExitCode::from(u8::from(!allowed)))
}

fn record(
    places: &Places,
    access: Asked,
    path: &Path,
    allowed: bool,
    reason: Option<&str>,
) -> std::io::Result<()> {
    Audit::open(&places.state, None)?.record(&Event::Decision {
        access: access.word(),
        path: Escaped(path).to_string(),
        outcome: if allowed { "allow" } else { "deny" },
        reason: reason.unwrap_or("granted").to_owned(),
    })
}
