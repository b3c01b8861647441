//! How a program is started: what the launcher and the wrappers, which it asks, both stand on.

mod exchange;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_secrets::CommandOutput;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

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
    file: &Path,
    name: &Path,
    arguments: &[String],
    question: &[u8],
    patience: Duration,
    most: usize,
) -> io::Result<CommandOutput> {
    let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let child = command(file)
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(kept)
        .current_dir("/")
        .process_group(0)
        .stdin(whole_input(question)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    see_to_end(child, Instant::now() + patience, most)
}

/// Returns bytes as a standard input that is whole from the start. A pipe whose writer is killed ends early, and the
/// reader takes what came for all of it.
///
/// # Errors
/// Returns the error of `memfd_create(2)` or `write(2)`.
pub(crate) fn whole_input(bytes: &[u8]) -> io::Result<Stdio> {
    let make = |flags| rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC | flags);
    // A hardened system makes no other (`vm.memfd_noexec`); Linux before 6.3 knows no such flag.
    let made = make(MemfdFlags::NOEXEC_SEAL);
    let mut file = File::from(match made {
        Err(Errno::INVAL) => make(MemfdFlags::empty()),
        made => made,
    }?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_input_does_not_depend_on_its_writer() {
        let bytes = vec![b'a'; 1 << 20];
        let input = whole_input(&bytes).unwrap();
        // All of it is there before anything reads or writes any more.
        let mut program = command("sh");
        program.args(["-c", "stat -Lc %s /proc/self/fd/0; wc -c"]).stdin(input);
        assert_eq!(program.output().unwrap().stdout, b"1048576\n1048576\n");
    }
}
