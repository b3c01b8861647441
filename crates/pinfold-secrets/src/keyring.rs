//! The keyring of the desktop session, through libsecret's `secret-tool`: that keeps D-Bus out
//! of this program.

use std::io;

use crate::{CommandOutput, Error, Place, RunCommand, Secret, SecretId};

const TOOL: &str = "secret-tool";

/// Puts a value into the keyring.
pub(crate) fn store(id: &SecretId, value: &Secret, runner: &dyn RunCommand) -> Result<(), Error> {
    let mut argv = vec![TOOL.to_owned(), "store".to_owned(), format!("--label=pinfold {id}")];
    argv.extend(attributes(id));
    let output = call(id, &argv, Some(value), runner)?;
    succeeded(&argv, &output)
}

/// Reads a value from the keyring.
pub(crate) fn lookup(id: &SecretId, runner: &dyn RunCommand) -> Result<Secret, Error> {
    let mut argv = vec![TOOL.to_owned(), "lookup".to_owned()];
    argv.extend(attributes(id));
    let output = call(id, &argv, None, runner)?;
    // secret-tool says nothing and exits 1 when there is no such entry.
    if output.code == Some(1) && output.stdout.is_empty() && output.stderr.is_empty() {
        return Err(Error::Missing { id: id.clone(), looked: vec![Place::Keyring] });
    }
    succeeded(&argv, &output)?;
    Secret::from_bytes(output.stdout.to_vec())
        .map_err(|cause| Error::Unusable { place: Place::Keyring, cause })
}

/// Removes a value from the keyring.
pub(crate) fn clear(id: &SecretId, runner: &dyn RunCommand) -> Result<(), Error> {
    let mut argv = vec![TOOL.to_owned(), "clear".to_owned()];
    argv.extend(attributes(id));
    let output = call(id, &argv, None, runner)?;
    succeeded(&argv, &output)
}

fn attributes(id: &SecretId) -> [String; 4] {
    ["service", "pinfold", "id", id.as_str()].map(str::to_owned)
}

fn call(
    id: &SecretId,
    argv: &[String],
    stdin: Option<&Secret>,
    runner: &dyn RunCommand,
) -> Result<CommandOutput, Error> {
    runner.run(argv, stdin).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Error::NoKeyring { id: id.clone() },
        _ => Error::CommandStart { command: argv.join(" "), cause },
    })
}

/// Turns a failed run into the error that shows what the program said.
pub(crate) fn succeeded(argv: &[String], output: &CommandOutput) -> Result<(), Error> {
    /// Enough for the reason, not for a log.
    const SHOWN: usize = 400;
    let ended = match output.code {
        Some(0) => return Ok(()),
        Some(code) => format!("exited with {code}"),
        None => "was killed by a signal".to_owned(),
    };
    let stderr: String =
        String::from_utf8_lossy(&output.stderr).trim().chars().take(SHOWN).collect();
    Err(Error::CommandFailed { command: argv.join(" "), ended, stderr })
}
