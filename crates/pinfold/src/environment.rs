//! The environment inside (requirement 1.6): nothing enters that is not listed.

use std::ffi::OsString;

use pinfold_policy::env::{EnvLayer, EnvName, EnvVar, compose_env};
use pinfold_policy::origin::Origin;
use pinfold_policy::settings::Settings;
use pinfold_session::ssh::Ssh;
use pinfold_session::system::Stack;
use pinfold_session::workspace::Workspace;
use pinfold_session::{broker, door, trust, userland};

/// Variables of the caller that describe the person's terminal and language, and hold no
/// secret. They enter without being asked for.
const DESCRIBING: [&str; 14] = [
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
];

/// The caller's variables that describe its terminal and language.
pub(crate) fn describing() -> Vec<(OsString, OsString)> {
    let variable = |name: &str| Some((name.into(), std::env::var_os(name)?));
    DESCRIBING.into_iter().filter_map(variable).collect()
}

/// Puts the environment together.
pub(crate) fn environment(
    settings: &Settings,
    workspace: &Workspace,
    agent: Vec<EnvVar>,
    path_first: &[String],
    (has_ssh, stack): (bool, Option<&Stack>),
) -> Vec<(OsString, OsString)> {
    let mut variables = agent;
    variables.extend(forwarded(settings));
    variables.extend(fixed(settings, workspace, path_first, stack));
    if trust::is_needed(settings) || stack.is_some() {
        variables.extend(trusted());
    }
    if has_ssh {
        let (name, value) = Ssh::environment();
        variables.extend(variable(name, value.into(), EnvLayer::Door));
    }
    for setting in &settings.env {
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

/// What is right inside. An empty template directory keeps `git init` from planting hooks.
fn fixed(
    settings: &Settings,
    workspace: &Workspace,
    path_first: &[String],
    stack: Option<&Stack>,
) -> Vec<EnvVar> {
    let asking = settings.host_exec.enabled.value.then_some(broker::DIRECTORY);
    let parts = path_first.iter().map(String::as_str).chain([userland::PATH]);
    // Names that ask the host come before the programs that they stand for.
    let path = asking.into_iter().chain(parts).collect::<Vec<_>>().join(":");
    let root = workspace.root.as_path().as_os_str();
    let values: [(&str, OsString, EnvLayer); 14] = [
        ("PATH", path.into(), EnvLayer::Fixed),
        ("HOME", userland::HOME.into(), EnvLayer::Fixed),
        ("USER", "agent".into(), EnvLayer::Fixed),
        ("LOGNAME", "agent".into(), EnvLayer::Fixed),
        ("SHELL", userland::shell(stack).into(), EnvLayer::Fixed),
        ("GIT_TEMPLATE_DIR", OsString::new(), EnvLayer::Fixed),
        ("PINFOLD_WORKSPACE", root.to_owned(), EnvLayer::Door),
        ("MOLTNET_GUEST_WORKSPACE", root.to_owned(), EnvLayer::Door),
        ("HTTP_PROXY", door::PROXY_URL.into(), EnvLayer::Door),
        ("HTTPS_PROXY", door::PROXY_URL.into(), EnvLayer::Door),
        ("NO_PROXY", door::NO_PROXY.into(), EnvLayer::Door),
        ("http_proxy", door::PROXY_URL.into(), EnvLayer::Door),
        ("https_proxy", door::PROXY_URL.into(), EnvLayer::Door),
        ("no_proxy", door::NO_PROXY.into(), EnvLayer::Door),
    ];
    values.into_iter().filter_map(|(name, value, layer)| variable(name, value, layer)).collect()
}

/// Where programs find the session's own certificate authority.
fn trusted() -> Vec<EnvVar> {
    let trusted = trust::environment();
    trusted.filter_map(|(name, value)| variable(name, value.into(), EnvLayer::Door)).collect()
}

fn variable(name: &str, value: OsString, layer: EnvLayer) -> Option<EnvVar> {
    Some(EnvVar { name: name.parse().ok()?, value, layer, origin: Origin::Default })
}
