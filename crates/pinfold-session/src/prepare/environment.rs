//! The environment inside (requirement 1.6): nothing enters that is not listed.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use pinfold_policy::env::{EnvLayer, EnvName, EnvVar, compose_env};
use pinfold_policy::network::Endpoint;
use pinfold_policy::origin::Origin;
use pinfold_policy::settings::Settings;
use pinfold_rootfs::etc_files;
use pinfold_rootfs::system::Stack;
use pinfold_rootfs::userland;
use pinfold_worktree::workspace::Workspace;

use crate::doors::ssh::Ssh;
use crate::doors::{self, certificates};
use crate::snapshot::by_name;
use pinfold_personal::caller_trust::CallerTrust;
use pinfold_rootfs::search_path::{SearchPath, VIRTUAL_ENV};

/// Variables of the caller that describe the user's terminal, language and trust, and hold no secret. They
/// enter without being asked for.
const DESCRIBING: [&str; 15] = [
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "TZ",
    // Whether Node trusts what the system does.
    "NODE_USE_SYSTEM_CA",
];

/// The variable that programs are looked for by.
const PATH: &str = "PATH";

/// Returns the caller's variables that describe its terminal, language and trust.
pub fn describing() -> Vec<(OsString, OsString)> {
    let variable = |name: &str| Some((name.into(), std::env::var_os(name)?));
    DESCRIBING.into_iter().filter_map(variable).collect()
}

/// What of the caller's environment counts in the sandbox, in addition to single variables.
pub(super) struct Caller {
    /// What comes first in `PATH`, such as the directory of the agent's commands.
    pub(super) first: Vec<String>,
    /// What else comes before and after the system's directories.
    pub(super) search: SearchPath,
    /// The virtual environment that is active.
    pub(super) virtual_environment: Option<PathBuf>,
    /// Authorities that the caller trusts.
    pub(super) trust: CallerTrust,
}

/// Puts the environment together.
pub(super) fn environment(
    settings: &Settings,
    workspace: &Workspace,
    agent: Vec<EnvVar>,
    caller: &Caller,
    has_ssh: bool,
    stack: Option<&Stack>,
) -> Vec<(OsString, OsString)> {
    let mut variables = agent;
    variables.extend(forwarded(settings));
    variables.extend(fixed(workspace, stack));
    variables.extend(variable(PATH, path(settings, caller), EnvLayer::Fixed));
    if let Some(root) = &caller.virtual_environment {
        variables.extend(variable(VIRTUAL_ENV, root.into(), EnvLayer::Forwarded));
    }
    if certificates::names_stores(settings, stack) {
        variables.extend(named(certificates::environment()));
    } else {
        variables.extend(named(caller.trust.environment()));
    }
    variables.extend(quiet(settings));
    variables.extend(go_memory(settings));
    if has_ssh {
        let (name, value) = Ssh::environment();
        variables.extend(variable(name, value.into(), EnvLayer::Door));
    }
    for setting in settings.env.iter().filter(|setting| setting.name.as_str() != PATH) {
        variables.push(EnvVar {
            name: setting.name.clone(),
            value: setting.value.clone().into(),
            layer: layer(&setting.origin),
            origin: setting.origin.clone(),
        });
    }
    let name = |name: EnvName| OsString::from(name.as_str());
    compose_env(variables).into_iter().map(|var| (name(var.name), var.value)).collect()
}

fn layer(origin: &Origin) -> EnvLayer {
    match origin {
        Origin::Project(_) => EnvLayer::Project,
        Origin::Flag { .. } => EnvLayer::Flag,
        Origin::Ceiling(_) => EnvLayer::Managed,
        Origin::User(_) | Origin::Default | Origin::Profile { .. } => EnvLayer::User,
    }
}

fn forwarded(settings: &Settings) -> Vec<EnvVar> {
    let asked = settings.forward_env.iter().map(|name| (name.value.clone(), name.origin.clone()));
    let describing =
        DESCRIBING.iter().filter_map(|name| Some((name.parse().ok()?, Origin::Default)));
    describing
        .chain(asked)
        .filter_map(|(name, origin): (EnvName, Origin)| {
            let value = std::env::var_os(name.as_str())?;
            Some(EnvVar { name, value, layer: EnvLayer::Forwarded, origin })
        })
        .collect()
}

/// Returns the search path. Names that ask the host come before the programs that they stand for, then
/// the agent's commands, then what the settings say, or the directories that are shown.
fn path(settings: &Settings, caller: &Caller) -> OsString {
    let asks = settings.host_exec.enabled.value || pinfold_mcp::door(settings).is_some();
    let asking = asks.then_some(pinfold_hostexec::DIRECTORY);
    let first =
        asking.into_iter().chain(caller.first.iter().map(String::as_str)).map(OsString::from);
    let rest = chosen_path(settings).map_or_else(
        || {
            let SearchPath { before, after } = &caller.search;
            let parts = before.iter().map(String::as_str);
            parts
                .chain([userland::PATH])
                .chain(after.iter().map(String::as_str))
                .map(OsString::from)
                .collect()
        },
        |chosen| vec![chosen],
    );
    let parts: Vec<OsString> = first.chain(rest).collect();
    parts.join(OsStr::new(":"))
}

/// Returns the `PATH` of the settings: the one of the highest layer, and the last of that.
fn chosen_path(settings: &Settings) -> Option<OsString> {
    let set = settings
        .env
        .iter()
        .filter(|setting| setting.name.as_str() == PATH)
        .max_by_key(|setting| layer(&setting.origin));
    let is_forwarded = settings.forward_env.iter().any(|name| name.value.as_str() == PATH);
    let forwarded = || is_forwarded.then(|| std::env::var_os(PATH)).flatten();
    set.map(|setting| setting.value.clone().into()).or_else(forwarded)
}

/// Returns what is right inside. An empty template directory keeps `git init` from planting hooks.
fn fixed(workspace: &Workspace, stack: Option<&Stack>) -> Vec<EnvVar> {
    let root = workspace.root.as_path().as_os_str();
    let values: [(&str, OsString, EnvLayer); 11] = [
        ("HOME", userland::HOME.into(), EnvLayer::Fixed),
        ("SHELL", etc_files::shell(stack).into(), EnvLayer::Fixed),
        ("GIT_TEMPLATE_DIR", OsString::new(), EnvLayer::Fixed),
        ("PINFOLD_WORKSPACE", root.to_owned(), EnvLayer::Door),
        ("MOLTNET_GUEST_WORKSPACE", root.to_owned(), EnvLayer::Door),
        ("HTTP_PROXY", doors::PROXY_URL.into(), EnvLayer::Door),
        ("HTTPS_PROXY", doors::PROXY_URL.into(), EnvLayer::Door),
        ("NO_PROXY", doors::NO_PROXY.into(), EnvLayer::Door),
        ("http_proxy", doors::PROXY_URL.into(), EnvLayer::Door),
        ("https_proxy", doors::PROXY_URL.into(), EnvLayer::Door),
        ("no_proxy", doors::NO_PROXY.into(), EnvLayer::Door),
    ];
    let user: &[(&str, &str)] = if stack.is_some_and(|stack| stack.is_root) {
        &by_name::VARIABLES
    } else {
        &[("USER", "agent"), ("LOGNAME", "agent")]
    };
    let user = user.iter().map(|(name, value)| (*name, OsString::from(value), EnvLayer::Fixed));
    let all = values.into_iter().chain(user);
    all.filter_map(|(name, value, layer)| variable(name, value, layer)).collect()
}

/// Returns where programs find certificate authorities.
fn named(stores: impl Iterator<Item = (&'static str, String)>) -> Vec<EnvVar> {
    stores.filter_map(|(name, value)| variable(name, value.into(), EnvLayer::Door)).collect()
}

/// Keeps npm from looking for a newer npm where it may not reach its registry. The caller's own setting
/// counts, if it is forwarded.
fn quiet(settings: &Settings) -> Option<EnvVar> {
    let registry = Endpoint::parse("registry.npmjs.org:443", None).ok()?;
    let is_refused = settings.network.decide(&registry).is_err();
    let quiet = variable("npm_config_update_notifier", "false".into(), EnvLayer::Profile);
    quiet.filter(|_| is_refused)
}

/// Sizes programs of Go by the memory limit, since their runtime looks for none itself. A tenth is left for what
/// it does not manage (pkg.go.dev/runtime/debug#SetMemoryLimit).
fn go_memory(settings: &Settings) -> Option<EnvVar> {
    let limit = settings.limits.memory.as_ref()?.value.bytes();
    variable("GOMEMLIMIT", (limit / 10 * 9).to_string().into(), EnvLayer::Profile)
}

fn variable(name: &str, value: OsString, layer: EnvLayer) -> Option<EnvVar> {
    Some(EnvVar { name: name.parse().ok()?, value, layer, origin: Origin::Default })
}
