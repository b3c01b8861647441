//! Starts cargo and the other programs that the tasks run.

use std::path::Path;
use std::process::Command;

use crate::Outcome;

/// Returns a command that starts `program`.
#[expect(clippy::disallowed_methods, reason = "a developer's tool, not part of pinfold")]
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    Command::new(program.as_ref())
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
