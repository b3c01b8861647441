//! How a program is started: what the launcher and the wrappers, which it asks, both stand on.

mod exchange;

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_secrets::CommandOutput;

pub(crate) use self::exchange::see_to_end;

/// Variables that a program of the user needs to find its own configuration.
pub(crate) const ENVIRONMENT: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

#[expect(
    clippy::disallowed_methods,
    reason = "the launcher and the wrappers start programs through this"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Asks a wrapper's program, which is started unwrapped. It is given: its file and display name,
/// its arguments, its input, the time it may take and the bytes it may write.
///
/// # Errors
/// Returns the error of starting it; `TimedOut`; `FileTooLarge`.
pub fn ask(
    (file, name): (&Path, &Path),
    arguments: &[String],
    question: &[u8],
    (patience, most): (Duration, usize),
) -> io::Result<CommandOutput> {
    let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let child = command(file)
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(kept)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    see_to_end(child, Some(question), Instant::now() + patience, most)
}
