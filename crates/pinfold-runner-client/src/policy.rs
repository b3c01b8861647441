//! What in a policy helps nobody, and where a user's configuration lies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pinfold_runner::Refusal;
use pinfold_runner::accounts::{Account, is_name};
use pinfold_runner::installed;
use pinfold_runner::policy::{GUIDE, PATH, Policy, expand, is_canonical};

/// Where an agent has its configuration, below a home.
const CONFIGURATION: &str = ".pi/agent";

/// Returns a policy in which nothing is missing or means nothing. For root's program it would give nothing.
///
/// # Errors
/// Returns what an administrator has to change.
pub fn checked(policy: Policy) -> Result<Policy, Refusal> {
    match fault(&policy) {
        None => Ok(policy),
        Some(what) => Err(Refusal::new(format!("{PATH}: {what}"), GUIDE)),
    }
}

fn fault(policy: &Policy) -> Option<String> {
    if policy.host_users.is_empty() {
        return Some("hostUsers is empty: nobody may start a session".to_owned());
    }
    if let Some(what) = fault_of_users(policy) {
        return Some(what);
    }
    if !policy.environment_files.iter().all(|path| is_canonical(path)) {
        return Some("environmentFiles must be absolute paths without `.` and `..`".to_owned());
    }
    let is_variable = |(name, value): (&String, &String)| {
        !name.is_empty() && !name.contains('=') && !(name.clone() + value).contains('\0')
    };
    if !policy.environment.iter().all(is_variable) {
        return Some("environment has what can be no variable".to_owned());
    }
    // Any home will do.
    let home = Path::new("/home/user");
    for (name, user) in &policy.host_users {
        if user.project_roots.is_empty() {
            return Some(format!("projectRoots of {name} is empty: leave the user out instead"));
        }
        let mut roots = user.project_roots.iter();
        if let Some(root) = roots.find(|root| expand(root, home).is_none()) {
            return Some(format!(
                "{root:?}, a project root of {name}, must be an absolute path or one below `~`, without `.` and \
                 `..`, and not `/`"
            ));
        }
        let path = path_of(policy, name);
        if expand(path, home).is_none() && !is_canonical(&Path::new("/").join(path)) {
            return Some(format!(
                "configPath {path:?} must be a path below a home or an absolute one, without `.` and `..`"
            ));
        }
    }
    None
}

/// Says what is wrong in the names of users. Root's program compares the ids of those that a request is about.
fn fault_of_users(policy: &Policy) -> Option<String> {
    let hosts = || policy.host_users.keys().map(String::as_str);
    // A caller can have its service user run any program, also outside a unit.
    let mut sharers = BTreeMap::new();
    for host in hosts() {
        let service = policy.service(host);
        if let Some(other) = sharers.insert(service, host) {
            return Some(format!(
                "sessions of {other:?} and {host:?} would both run as {service:?} and reach each other: give one of \
                 them another user (`hostUsers.{host}.user`)"
            ));
        }
    }
    let services = || sharers.keys().copied().chain([policy.user.as_str()]);
    if let Some(name) = services().chain(hosts()).find(|name| !is_name(name)) {
        return Some(format!("{name:?} is no name of a user"));
    }
    let is_wrong = |name: &&str| *name == "root" || policy.host_users.contains_key(*name);
    let name = services().find(is_wrong)?;
    Some(format!("user {name:?} must neither be root nor a host user"))
}

fn path_of<'p>(policy: &'p Policy, host_user: &str) -> &'p str {
    let own = policy.host_users.get(host_user).and_then(|host| host.config_path.as_deref());
    own.or(policy.config_path.as_deref()).unwrap_or(CONFIGURATION)
}

/// Returns where a user has the agent's configuration, and where it belongs below the isolated home.
#[must_use]
pub fn configuration(policy: &Policy, account: &Account) -> Option<(PathBuf, PathBuf)> {
    let path = path_of(policy, &account.name);
    if path.starts_with(['/', '~']) {
        return Some((installed::canonical(&expand(path, &account.home)?), CONFIGURATION.into()));
    }
    let source = expand(&format!("~/{path}"), &account.home)?;
    Some((installed::canonical(&source), PathBuf::from(path)))
}

#[cfg(test)]
mod tests;
