//! Starts cargo and the other programs that the tasks run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// Returns a command that starts `program`, without the variables by which `cargo run` describes this package.
/// Build scripts (ring's) depend on them, so cargo would build everything above ring again with them, and once
/// more without them.
#[expect(clippy::disallowed_methods, reason = "a developer's tool, not part of pinfold")]
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| is_of_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns whether cargo sets a variable for the package that it runs ("Environment variables Cargo sets for crates" in
/// the Cargo Book).
fn is_of_package(name: &str) -> bool {
    const WHOLE: [&str; 4] =
        ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || WHOLE.contains(&name)
}

/// Runs cargo in the current directory with two lists of arguments.
///
/// # Errors
/// Returns an error that names the subcommand if cargo cannot be started or fails.
pub(crate) fn run(words: &[&str], more: &[&str]) -> Outcome {
    finish(command("cargo").args(words).args(more))
}

/// Runs a command that prints for itself.
///
/// # Errors
/// Returns an error that names the command if it cannot be started or fails.
pub(crate) fn finish(command: &mut Command) -> Outcome {
    let line = shown(command);
    let status = command.status().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status})").into()) }
}

/// Returns what a command prints.
///
/// # Errors
/// Returns an error with the command's own message if it cannot be started or fails.
pub(crate) fn output(command: &mut Command) -> Result<String, Box<dyn std::error::Error>> {
    let line = shown(command);
    let output = command.output().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{line}` failed: {}", message.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the program and its first argument, which is enough to recognise a command.
fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let first = command.get_args().next().map(|word| format!(" {}", word.to_string_lossy()));
    program + first.as_deref().unwrap_or_default()
}

/// Runs a subcommand of cargo that builds, and returns the path of the program of this name.
///
/// # Errors
/// Returns an error if the build fails or does not make the program.
pub(crate) fn build(words: &[&str], name: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    // Cargo shows errors itself.
    finish(command("cargo").args(words).arg("--quiet"))?;
    let messages =
        output(command("cargo").args(words).args(["--quiet", "--message-format", "json"]))?;
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_program = message["target"]["kind"] == serde_json::json!(["bin"])
            && message["target"]["name"] == name
            && message["profile"]["test"] == false;
        message["executable"].as_str().filter(|_| is_program).map(PathBuf::from)
    });
    executable.ok_or_else(|| format!("cargo built no program {name}").into())
}

/// Returns a command that runs tests: cargo-nextest if it is installed, otherwise `cargo test`.
/// With all features, as `scripts/test` does, so that neither builds again what the other built.
/// Both take the same options for packages and targets, and names of tests after them.
pub(crate) fn tests() -> Command {
    let mut cargo = command("cargo");
    let nextest = output(command("cargo").args(["nextest", "--version"])).is_ok();
    if nextest {
        cargo.args(["nextest", "run", "--all-features", "--no-tests", "pass"]);
    } else {
        cargo.args(["test", "--all-features", "--no-fail-fast"]);
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_of_this_package_reaches_a_program_that_is_started() {
        let shown = output(command("env").arg("-u").arg("none")).unwrap();
        let names = shown.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        let left: Vec<&str> = names.filter(|name| is_of_package(name)).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo sets it for this test");
    }
}
