//! `cargo xtask lock`: npm's own resolution of an agent, written down as a recipe.
//!
//! npm resolves and runs nothing (`--package-lock-only --ignore-scripts`); which of the packages
//! are wanted, and the files that commands start, is said in [`agents`].

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use pinfold_provision::names::{PackageVersion, Word};
use pinfold_provision::{Recipe, RecipeError};
use serde_json::json;

mod agents;
mod convert;
mod sizes;

use agents::{AGENTS, Agent};

/// Why no recipe was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("usage: cargo xtask lock AGENT VERSION [FILE]")]
    Usage,
    #[error("unknown agent `{0}`; known: {known}", known = agents::names())]
    UnknownAgent(String),
    #[error("cannot start {0}: {1}; it is needed to write recipes")]
    Start(&'static str, io::Error),
    #[error("{0} failed:\n{1}")]
    Tool(&'static str, String),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("npm's lock cannot be used: {0}")]
    Lock(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Name(#[from] pinfold_provision::names::NameError),
}

pub(crate) fn run(args: &[&str]) -> Result<(), LockError> {
    let (name, version, file) = match args {
        [name, version] => (*name, *version, *name),
        [name, version, file] => (*name, *version, *file),
        _ => return Err(LockError::Usage),
    };
    let agent = AGENTS
        .iter()
        .find(|agent| agent.name == name)
        .ok_or_else(|| LockError::UnknownAgent(name.to_owned()))?;
    let version = PackageVersion::parse(version)?;
    let lock = npm_lock(agent, &version)?;
    let mut packages = convert::packages(agent, &lock)?;
    let bin = convert::commands(agent, &lock, &packages)?;
    sizes::fill_in(&mut packages)?;
    let recipe = Recipe::new(Word::parse(name)?, version, packages, bin)?;
    let bytes = recipe.to_bytes()?;
    let path = recipes_dir().join(format!("{}.json", Word::parse(file)?));
    fs::write(&path, bytes).map_err(|source| LockError::Write { path: path.clone(), source })?;
    println!("{}: {} packages", path.display(), recipe.packages().len());
    Ok(())
}

fn recipes_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/recipes")
}

/// Returns npm's `package-lock.json` (version 3) for one agent and the packages that it needs.
fn npm_lock(agent: &Agent, version: &PackageVersion) -> Result<serde_json::Value, LockError> {
    let dir = tempfile::tempdir()?;
    // Packages for other processors may only stand among the optional ones.
    let with: serde_json::Map<_, _> =
        agent.with.iter().map(|(name, range)| ((*name).to_owned(), json!(range))).collect();
    let manifest = json!({
        "name": "recipe", "version": "0.0.0", "private": true,
        "dependencies": { agent.package: version.as_str() },
        "optionalDependencies": with,
    });
    fs::write(dir.path().join("package.json"), serde_json::to_vec(&manifest)?)?;
    let arguments = [
        "install",
        "--package-lock-only",
        "--ignore-scripts",
        "--omit=dev",
        "--no-audit",
        "--no-fund",
        "--lockfile-version=3",
    ];
    run_tool("npm", &arguments, dir.path(), Stdio::null())?;
    Ok(serde_json::from_slice(&fs::read(dir.path().join("package-lock.json"))?)?)
}

/// Runs a developer's tool and gives what it printed.
fn run_tool(
    tool: &'static str,
    args: &[&str],
    dir: &Path,
    stdin: Stdio,
) -> Result<String, LockError> {
    #[expect(clippy::disallowed_methods, reason = "a developer's tool, not part of pinfold")]
    let output = Command::new(tool)
        .args(args)
        .current_dir(dir)
        .stdin(stdin)
        .output()
        .map_err(|error| LockError::Start(tool, error))?;
    if !output.status.success() {
        return Err(LockError::Tool(tool, String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
