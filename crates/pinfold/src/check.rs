//! `pinfold check`: would it be allowed, and why.

mod network;
mod permissions;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use pinfold_host::Host;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::access::Access;
use pinfold_policy::authority::{Explanation, Grant, HostTree, Verdict};
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::settings::{BoundaryName, Settings, WorkspaceMode};
use pinfold_rootfs::system::Stack;
use pinfold_rootfs::{linked, own};
use pinfold_secrets::Store;
use pinfold_session::snapshot::Snapshots;
use pinfold_session::{Prospect, RunError, prepare, prospect};
use pinfold_worktree::workspace::Workspace;

use crate::cli::{Output, PolicyArgs};
use crate::exit::Failure;
use crate::policy;
use crate::print::{self, say};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The kind of access
    #[arg(value_name = "ACCESS")]
    asked: Asked,
    /// What it would access.
    #[arg(help = "A path as it is in the sandbox, HOST[:PORT], or a secret's name")]
    target: OsString,
    #[command(flatten)]
    request: RequestArgs,
    /// Check for a session of this agent
    #[arg(long, value_name = "AGENT")]
    profile: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct RequestArgs {
    /// With `host`: the method of a request
    #[arg(long)]
    method: Option<String>,
    /// With `host`: the path of a request, without its query
    #[arg(long, value_name = "PATH")]
    url_path: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Asked {
    /// Read a path
    Read,
    /// Write a path
    Write,
    /// Execute a path
    Exec,
    /// Reach a host
    Host,
    /// Use a secret
    Secret,
}

/// What may be done to a path.
#[derive(Debug, Clone, Copy)]
enum PathAccess {
    Read,
    Write,
    Exec,
}

impl PathAccess {
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
pub(crate) fn check(args: &CheckArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let host = Host { places: &places, launcher };
    let start = policy::prepare(
        &args.policy,
        args.profile.as_deref(),
        policy::presence(&args.policy),
        host,
    )?;
    let settings = start.settings();
    let access = match args.asked {
        Asked::Read => PathAccess::Read,
        Asked::Write => PathAccess::Write,
        Asked::Exec => PathAccess::Exec,
        Asked::Host | Asked::Secret => return check_network(args, settings, &places),
    };
    if args.request.method.is_some() || args.request.url_path.is_some() {
        return Err(Failure::new("--method and --url-path are about a host")
            .hint(Some("`pinfold check host NAME --method GET --url-path /`".to_owned())));
    }
    check_path(args, access, settings, host, start.workspace())
}

/// Answers for a host or a secret.
fn check_network(
    args: &CheckArgs,
    settings: &Settings,
    places: &Places,
) -> Result<ExitCode, Failure> {
    let target = args.target.to_string_lossy();
    let answer = match args.asked {
        Asked::Secret => network::secret(&target, settings, &Store::new(places.secrets()))?,
        _ => network::host(&target, &args.request, settings)?,
    };
    let (allowed, reason) = (answer.is_allowed(), answer.reason.as_deref());
    record(places, answer.access, &answer.asked, allowed, reason).map_err(Failure::new)?;
    if args.output.json {
        print::json_line(&answer)?
    } else {
        say!("{answer}")
    }
    Ok(ExitCode::from(u8::from(!allowed)))
}

fn check_path(
    args: &CheckArgs,
    asked: PathAccess,
    settings: &Settings,
    host: Host<'_>,
    project: &Workspace,
) -> Result<ExitCode, Failure> {
    // What is not made yet is not made for a question, and has no answer.
    let stack =
        if settings.snapshot.is_host() { None } else { Some(there(settings, host, project)?) };
    let (places, workspace) = (host.places, prepare::in_mode(project.clone(), settings, host)?);
    let profile = args.profile.as_deref();
    let prospect = prospect(settings, profile, &workspace, stack.as_ref(), host)
        .map_err(|error| Failure::from(error).plain())?;
    let path = workspace.cwd.as_path().join(&args.target);
    let access = asked.access();
    let (authority, links) = (&prospect.authority, prospect.links.as_slice());
    let explained = match &stack {
        Some(stack) => stack.explain(authority, links, access, &path),
        None => linked::explain(authority, &HostTree, links, access, &path),
    };
    let mut explanation = explained.map_err(Failure::new)?;
    let host = explanation.host.as_ref().filter(|_| explanation.restriction.is_none());
    let note = host.and_then(|host| prospect.note(host.as_path())).map(str::to_owned);
    explanation.note = explanation.note.or(note);
    let boundary = settings.scalars.boundary.as_ref().map(|boundary| boundary.value);
    if stack.is_none() {
        let is_view = settings.scalars.workspace_mode.value == WorkspaceMode::Overlay;
        let view = is_view.then_some(&workspace.root);
        let is_nested = settings.scalars.nested.value && boundary != Some(BoundaryName::Vm);
        heed_permissions(&mut explanation, asked, &prospect, is_nested, view)
            .map_err(Failure::new)?;
    }
    let is_private = workspace.is_scratch && path.starts_with(workspace.root.as_path())
        || prospect.is_private(&explanation.inside);
    own::explain(&mut explanation, access, boundary, is_private);
    let allowed = explanation.verdict == Verdict::Allow;
    let reason = explanation.reason.as_deref().or(explanation.note.as_deref());
    record(places, asked.word(), &Escaped(&path).to_string(), allowed, reason)
        .map_err(Failure::new)?;
    if args.output.json {
        print::json_line(&explanation)?
    } else {
        say!("{explanation}")
    }
    Ok(ExitCode::from(u8::from(!allowed)))
}

/// Explains what the policy allows and the kernel refuses.
///
/// # Errors
/// Returns the error of `stat(2)`.
fn heed_permissions(
    explanation: &mut Explanation,
    asked: PathAccess,
    prospect: &Prospect,
    is_nested: bool,
    view: Option<&HostPath>,
) -> std::io::Result<()> {
    let is_plain = explanation.verdict == Verdict::Allow && explanation.restriction.is_none();
    let file = explanation.host.as_ref().filter(|_| is_plain && explanation.exists);
    let grant = prospect.authority.governing(&explanation.inside);
    let (Some(file), Some(grant)) = (file, grant) else { return Ok(()) };
    let is_live = |grant: &Grant| grant.access == Access::FULL && Some(&grant.root.host) != view;
    let leaves_something = is_nested && prospect.authority.grants().any(is_live);
    let is_closable = leaves_something || prospect.is_unnamed(&grant.root.inside);
    let refusal = permissions::refusal(grant, file.as_path(), asked, is_closable)?;
    if let Some(refusal) = refusal {
        (explanation.verdict, explanation.reason) = (Verdict::Deny, Some(refusal));
    }
    Ok(())
}

fn there(settings: &Settings, host: Host<'_>, project: &Workspace) -> Result<Stack, Failure> {
    let found = Snapshots::new(host, &|_| {}).find(settings, project.root.as_path());
    found.map_err(RunError::from)?.ok_or_else(|| {
        Failure::new("the system that sessions run on here is not made yet")
            .hint(Some("`pinfold snapshot build` makes it".to_owned()))
    })
}

fn record(
    places: &Places,
    access: &'static str,
    asked: &str,
    allowed: bool,
    reason: Option<&str>,
) -> std::io::Result<()> {
    Audit::open(&places.state, None)?.record(&Event::Decision {
        access,
        path: asked.to_owned(),
        outcome: if allowed { "allow" } else { "deny" },
        reason: reason.unwrap_or("granted").to_owned(),
    })
}
