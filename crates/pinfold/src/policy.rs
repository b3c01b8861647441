//! What the command line's flags ask for.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_host::{Host, Refusal};
use pinfold_policy::env::EnvName;
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::project::Base;
use pinfold_policy::settings::{
    FlagBudget, FlagHostExec, FlagLimits, FlagNetwork, FlagScalars, Flags, Settings, WrapperSetting,
};
use pinfold_session::prepare::{Asked, Circumstances, Preparation, Presence, SettingsFiles};

use crate::cli::PolicyArgs;
use crate::exit::Failure;

/// Returns who answers where nothing is run: what the flags say.
pub(crate) fn presence(args: &PolicyArgs) -> Presence {
    Presence::of(Circumstances { is_unattended: args.unattended, ..Circumstances::default() })
}

/// Begins to prepare a run in the current directory.
///
/// # Errors
/// Returns an error for a flag that has no meaning here, a workspace that cannot be granted, a settings
/// file that cannot be read, or a mistake in one.
pub(crate) fn prepare(
    args: &PolicyArgs,
    agent: Option<&str>,
    presence: Presence,
    host: Host<'_>,
) -> Result<Preparation, Failure> {
    let asked = Asked {
        flags: flags(args, agent)?,
        presence,
        sandbox_config: args.sandbox_config.clone(),
        trust_config: args.trust_config,
    };
    Ok(Preparation::find(host.places.clone(), host.launcher.clone(), asked)?)
}

/// Returns what the administrator's and the user's files say, wherever this is.
///
/// # Errors
/// Returns an error for a file that cannot be read, or a mistake in one.
pub(crate) fn own() -> Result<Settings, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    Ok(SettingsFiles::read(&places)?.own()?)
}

/// Returns the wrappers of launches, which only the administrator's and the user's files name.
///
/// # Errors
/// Returns the errors of [`own`].
pub(crate) fn wrappers() -> Result<Vec<WrapperSetting>, Refusal> {
    let settings = own().map_err(|failure| Refusal::new(failure.into_error()))?;
    Ok(settings.wrappers.into_iter().map(|wrapper| wrapper.value).collect())
}

fn flags(args: &PolicyArgs, agent: Option<&str>) -> Result<Flags, Failure> {
    let paths =
        |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<Result<_, _>>();
    let scalars = FlagScalars {
        boundary: args.boundary,
        engine: args.engine,
        agent: agent.map(str::to_owned),
        model: args.model.clone(),
        provider: args.provider.clone(),
        workspace_mode: args.workspace,
        apply: args.apply,
        apply_ignored: args.apply_ignored.then_some(true),
        worktree_branch: args.worktree_branch.clone(),
        landlock: args.landlock,
        allow_weaker: args.allow_weaker.then_some(true),
        nested: args.nested.then_some(true),
        group: args.group.clone(),
        identity_mode: args.identity_mode,
        identity: args.identity.clone(),
        memory: args.memory_grant,
    };
    Ok(Flags {
        scalars,
        state: args.state,
        my_config: args.my_config,
        limits: FlagLimits {
            cpus: args.cpus,
            memory: args.memory,
            pids: args.pids,
            disk: args.disk,
            files: args.files,
            timeout: args.timeout,
        },
        env: args.env.iter().map(|text| variable(text)).collect::<Result<_, _>>()?,
        forward_env: args.forward_env.clone(),
        read: paths(&args.read)?,
        write: paths(&args.write)?,
        sockets: paths(&args.socket)?,
        opt_in: args.opt_in.clone(),
        base: args.base.as_ref().map(base).transpose()?,
        budget: FlagBudget {
            requests: args.budget_requests,
            tokens: args.budget_tokens,
            usd: args.budget_usd,
            of_tasks: args.task_budget,
        },
        network: FlagNetwork {
            allow: args.allow_host.clone(),
            presets: args.allow.clone(),
            internal: args.allow_internal_host.clone(),
            intercept: args.intercept.clone(),
            publish: args.publish.clone(),
        },
        ask: args.ask,
        host_exec: FlagHostExec { enabled: args.host_exec, waits: args.wait_for_approvals },
        narrowing: args.narrow.clone(),
    })
}

/// Returns a base whose path means the same in the repository's root.
fn base(base: &Base) -> Result<Base, Failure> {
    let whole = |path: &Path| absolute(path).map(HostPath::into_path_buf);
    Ok(match base {
        Base::Directory(path) => Base::Directory(whole(path)?),
        Base::Tarball(path) => Base::Tarball(whole(path)?),
        other => other.clone(),
    })
}

fn absolute(path: &Path) -> Result<HostPath, Failure> {
    let named = |error: &dyn std::fmt::Display| {
        let what = format!("cannot use the path {}: {error}", Escaped(path));
        Failure::own(what).hint(Some("name a path that exists, or leave it out".to_owned()))
    };
    let whole = fs::canonicalize(path).map_err(|error| named(&error))?;
    HostPath::new(whole).map_err(|error| named(&error))
}

fn variable(text: &str) -> Result<(EnvName, String), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failure::own(format!("--env {text}: expected NAME=VALUE"))
            .hint(Some(format!("to let a variable of yours in, say --forward-env {text}")))
    })?;
    let name: EnvName = name.parse().map_err(Failure::own)?;
    Ok((name, value.to_owned()))
}
