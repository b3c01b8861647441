//! What a session of a host user has beyond its grants: the agent's configuration and variables.
//!
//! All of it is put together by init's parent in the unit, as the service user. The configuration was sent by the caller,
//! who may be hostile: it is bytes with bounds, kept as one file, and never a tree that somebody walks. Each session
//! writes copies of its files into its own home.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_init::Failure;
use pinfold_policy::path::InsidePath;
use pinfold_runner::policy::Policy;
use pinfold_runner_client::checked;
use pinfold_wire::{Step, Wire as _};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::configuration::Configuration;
use super::variables;
use crate::plan::{Entry, LaunchPlan, Place};

/// Where the configuration is kept in the user's directory, and where the next one is written.
const KEPT: &str = "configuration";
const NEXT: &str = "configuration.next";
/// Where an agent has its configuration if the user has none.
const USUAL: &str = ".pi/agent";
/// The file of it that settings are merged into.
const SETTINGS: &str = "settings.json";
/// Bytes: no file with variables is longer.
const LONGEST: u64 = 1 << 20;
/// Variables of tools that keep what they download elsewhere than in `~/.cache`, and the directories there.
const CACHES: [(&str, &str); 2] = [("npm_config_cache", "npm"), ("GOMODCACHE", "go-mod")];

/// Adds the configuration to a plan, and returns the variables of every program.
///
/// # Errors
/// Returns what could not be read or kept.
pub(super) fn furnish(
    plan: &mut LaunchPlan,
    directory: &OwnedFd,
    files: Vec<OwnedFd>,
    sent: Option<Configuration>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let policy =
        Policy::load().and_then(checked).map_err(|refusal| failed(&refusal.what, Errno::PERM))?;
    let home = plan.identity.home.as_path().display().to_string();
    let variables = variables_of(&policy, files, &home)?;
    let configuration = remember(directory, sent)
        .map_err(|errno| failed("the user's configuration in the state directory", errno))?;
    let entries = entries(plan, configuration, policy.settings)
        .map_err(|errno| failed("a path of the user's configuration", errno))?;
    plan.tree.extend(entries);
    Ok(variables)
}

/// Returns the variables of every program: caches, the policy's own, and those of its files in their
/// order.
fn variables_of(policy: &Policy, files: Vec<OwnedFd>, home: &str) -> Result<Vec<Vec<u8>>, Failure> {
    // The runner has opened what the policy named then.
    if files.len() != policy.environment_files.len() {
        return Err(failed("the policy changed: environmentFiles", Errno::AGAIN));
    }
    let caches =
        CACHES.map(|(name, directory)| (name.to_owned(), format!("{home}/.cache/{directory}")));
    let own = policy.environment.clone();
    let mut all: BTreeMap<String, String> = caches.into_iter().chain(own).collect();
    for (file, path) in files.into_iter().zip(&policy.environment_files) {
        let mut text = String::new();
        let read = File::from(file).take(LONGEST + 1).read_to_string(&mut text);
        let wrong = |what: &str| failed(&format!("{}{what}", path.display()), Errno::INVAL);
        // A value that is cut would count as the whole one.
        if text.len() as u64 > LONGEST {
            return Err(wrong(" is longer than 1 MiB"));
        }
        read.map_err(|_| wrong(" is not text"))?;
        all.extend(variables::parse(&text).map_err(|line| wrong(&format!(", line {line}")))?);
    }
    Ok(all.into_iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect())
}

fn failed(what: &str, errno: Errno) -> Failure {
    Failure::about(Step::Files, what.as_bytes())(errno)
}

/// Keeps what the caller sent, or returns what was kept.
fn remember(
    directory: &OwnedFd,
    sent: Option<Configuration>,
) -> Result<Option<Configuration>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    // Another session of the same user may begin as well.
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    let kept = kept(&directory)?;
    let Some(sent) = sent else {
        return Ok(kept.and_then(|kept| Configuration::decode(&kept).ok()));
    };
    let bytes = sent.encode();
    if kept.as_ref() != Some(&bytes) {
        match rustix::fs::unlinkat(&directory, NEXT, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&directory, NEXT, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(made).write_all(&bytes);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        rustix::fs::renameat(&directory, NEXT, &directory, KEPT)?;
    }
    Ok(Some(sent))
}

fn kept(directory: &OwnedFd) -> Result<Option<Vec<u8>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, KEPT, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    let most = 2 * Configuration::MOST_BYTES as u64;
    let read = File::from(file).take(most).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(Some(bytes))
}

/// Returns the files to be written. What the plan has already is pinfold's own, as the address of a
/// gateway: it stays. Of settings the user's count least, and the policy's most.
fn entries(
    plan: &mut LaunchPlan,
    configuration: Option<Configuration>,
    managed: Map<String, Value>,
) -> Result<Vec<Entry>, Errno> {
    let (target, mut files) = match configuration {
        Some(all) => (all.target, all.files),
        None => (USUAL.into(), BTreeMap::new()),
    };
    let home = plan.identity.home.as_path().join(target);
    let settings = home.join(SETTINGS);
    let place = plan.tree.iter().position(|entry| {
        matches!(entry.place, Place::File { .. }) && entry.path.as_path() == settings
    });
    if !managed.is_empty() || place.is_some() {
        let users = files.remove(Path::new(SETTINGS)).map(|file| file.content);
        let own = place.map(|at| plan.tree.remove(at)).and_then(|own| match own.place {
            Place::File { content, .. } => Some(content),
            _ => None,
        });
        let layers = [users, own]
            .into_iter()
            .flatten()
            .filter_map(|content| serde_json::from_slice(&content).ok());
        // Settings that are no object are nobody's.
        let layers = layers.filter(Value::is_object);
        let mut merged = Value::Object(Map::new());
        layers.chain([Value::Object(managed)]).for_each(|layer| merge(&mut merged, layer));
        let mut content = serde_json::to_vec_pretty(&merged).map_err(|_| Errno::INVAL)?;
        content.push(b'\n');
        let file = super::ConfigurationFile { content, is_executable: false };
        files.insert(SETTINGS.into(), file);
    }
    let mut entries = Vec::with_capacity(files.len());
    for (path, file) in files {
        let path = InsidePath::new(home.join(path)).map_err(|_| Errno::INVAL)?;
        let is_taken = |entry: &Entry| {
            let is_closed =
                matches!(entry.place, Place::ReadOnly(_) | Place::System(_) | Place::Symlink(_));
            entry.path.starts_with(&path) || is_closed && path.starts_with(&entry.path)
        };
        if plan.tree.iter().any(is_taken) {
            continue;
        }
        let mode = if file.is_executable { 0o755 } else { 0o644 };
        let place = Place::File { content: file.content, mode, keep: false };
        entries.push(Entry { path, place });
    }
    Ok(entries)
}

/// Puts a value over another: objects key by key, everything else as a whole.
fn merge(below: &mut Value, over: Value) {
    match (below, over) {
        (Value::Object(below), Value::Object(over)) => {
            for (key, value) in over {
                merge(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, over) => *below = over,
    }
}

/// Returns the name of a project's link below the home: the same for the same path, and another for each path.
pub(super) fn alias(project: &Path) -> String {
    // FNV-1a, which no later version of a library changes.
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = project.as_os_str().as_encoded_bytes().iter().fold(0x811c_9dc5, step);
    let name = project.file_name().unwrap_or(OsStr::new("project")).to_string_lossy();
    format!("{name}-{hash:08x}")
}

#[cfg(test)]
mod tests;
