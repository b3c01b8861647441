//! From npm's `package-lock.json`, version 3, to the parts of a recipe.

use std::collections::BTreeMap;

use pinfold_provision::names::PackageVersion;
use pinfold_provision::recipe::{Bin, Package};
use pinfold_provision::{Cpu, Integrity, LayerPath, Libc, PackageName};
use serde::Deserialize;
use serde_json::Value;

use super::LockError;
use super::agents::{Agent, ONLY, Start};

/// What is read of an entry; npm writes more.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: Option<String>,
    version: Option<String>,
    integrity: Option<String>,
    #[serde(default)]
    in_bundle: bool,
    #[serde(default)]
    link: bool,
    #[serde(default)]
    os: Value,
    #[serde(default)]
    cpu: Value,
    #[serde(default)]
    libc: Value,
    #[serde(default)]
    bin: BTreeMap<String, String>,
}

/// Returns the packages that Linux on x64 or arm64 needs.
pub(super) fn packages(agent: &Agent, lock: &Value) -> Result<Vec<Package>, LockError> {
    let mut packages = Vec::new();
    for (path, entry) in entries(lock)? {
        let entry: Entry = serde_json::from_value(entry.clone())?;
        let name = package_name(path, &entry);
        // A bundled package lies in its parent's tarball.
        if path.is_empty() || entry.in_bundle || agent.without.contains(&name.as_str()) {
            continue;
        }
        if let Some(package) = package(path, &name, &entry)? {
            packages.push(package);
        }
    }
    Ok(packages)
}

/// Returns the commands of an agent; those of packages that npm did not list are left out.
pub(super) fn commands(
    agent: &Agent,
    lock: &Value,
    packages: &[Package],
) -> Result<Vec<Bin>, LockError> {
    let mut bins = Vec::new();
    for command in agent.commands {
        let path = match command.start {
            Start::File(file) => file.to_owned(),
            Start::OwnBin => own_bin(agent, lock)?,
        };
        let path = LayerPath::parse(&path)?;
        if packages.iter().any(|package| path.below(&package.path).is_some()) {
            let command_name = pinfold_provision::names::Word::parse(command.name)?;
            bins.push(Bin { command: command_name, path, cpu: command.cpu, libc: command.libc });
        }
    }
    Ok(bins)
}

fn entries(lock: &Value) -> Result<&serde_json::Map<String, Value>, LockError> {
    if lock["lockfileVersion"] != 3 {
        return Err(LockError::Lock("it is not version 3; use npm 7 or later".to_owned()));
    }
    lock["packages"].as_object().ok_or_else(|| LockError::Lock("it has no packages".to_owned()))
}

fn package_name(path: &str, entry: &Entry) -> String {
    let from_path = path.rsplit("node_modules/").next().unwrap_or(path);
    entry.name.clone().unwrap_or_else(|| from_path.to_owned())
}

fn package(path: &str, name: &str, entry: &Entry) -> Result<Option<Package>, LockError> {
    let (true, Some(cpu)) = (allows(&entry.os, "linux"), cpu_of(&entry.cpu)) else {
        return Ok(None);
    };
    let (Some(version), Some(integrity), false) = (&entry.version, &entry.integrity, entry.link)
    else {
        return Err(LockError::Lock(format!("{path} is not a package of the registry")));
    };
    let only = ONLY.iter().find(|(package, _)| *package == name).map_or(&[][..], |(_, only)| only);
    Ok(Some(Package {
        path: LayerPath::parse(path)?,
        name: PackageName::parse(name)?,
        version: PackageVersion::parse(version)?,
        integrity: Integrity::parse(integrity).map_err(|e| LockError::Lock(e.to_string()))?,
        size: None,
        cpu,
        libc: libc_of(&entry.libc),
        only: only.iter().map(|path| LayerPath::parse(path)).collect::<Result<_, _>>()?,
    }))
}

fn own_bin(agent: &Agent, lock: &Value) -> Result<String, LockError> {
    let path = format!("node_modules/{}", agent.package);
    let entry: Entry = serde_json::from_value(lock["packages"][&path].clone())?;
    let file = entry
        .bin
        .get(agent.name)
        .ok_or_else(|| LockError::Lock(format!("{path} has no command `{}`", agent.name)))?;
    Ok(format!("{path}/{}", file.trim_start_matches("./")))
}

/// Returns npm's rule for `os`, `cpu` and `libc`: a word or a list of words, `!` before one excludes it.
fn allows(rule: &Value, word: &str) -> bool {
    let words: Vec<&str> = match rule {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => return true,
    };
    let excluded = words.iter().any(|rule| rule.strip_prefix('!') == Some(word));
    let positive = words.iter().any(|rule| !rule.starts_with('!'));
    !excluded && (!positive || words.contains(&word) || words.contains(&"any"))
}

/// Returns the processor that a package is for: `None` if pinfold runs on none such, `Some(None)` for a package of all processors.
fn cpu_of(rule: &Value) -> Option<Option<Cpu>> {
    match (allows(rule, "x64"), allows(rule, "arm64")) {
        (true, true) => Some(None),
        (true, false) => Some(Some(Cpu::X64)),
        (false, true) => Some(Some(Cpu::Arm64)),
        (false, false) => None,
    }
}

fn libc_of(rule: &Value) -> Option<Libc> {
    match (allows(rule, "glibc"), allows(rule, "musl")) {
        (true, false) => Some(Libc::Glibc),
        (false, true) => Some(Libc::Musl),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
