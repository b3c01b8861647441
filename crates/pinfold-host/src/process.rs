//! How a program is started: what the launcher and the wrappers, which it asks, both stand on.

mod exchange;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pinfold_secrets::CommandOutput;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

pub(crate) use self::exchange::see_to_end;
use crate::search_path::SearchPath;

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

/// Returns a variable of the caller's, as a program gets it that is started elsewhere. A relative `XDG_…` is left out: it "should be
/// considered invalid and ignored" (XDG Base Directory Specification 0.8), and podman takes it from the directory in which it starts.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !is_invalid(name, value))
}

fn is_invalid(name: &str, value: &OsStr) -> bool {
    name.starts_with("XDG_") && Path::new(value).is_relative()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the launcher and the wrappers start programs through this"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// What a program may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long it may run.
    pub patience: Duration,
    /// The most bytes of each of its outputs.
    pub most: usize,
}

/// A question to a program of the user's, a wrapper or a plug-in, which is started unwrapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) file: &'a Path,
    /// What the program is shown as.
    pub(crate) name: &'a Path,
    pub(crate) arguments: &'a [String],
    pub(crate) input: &'a [u8],
    /// Where it finds what it starts by name, be it only the interpreter that `env` starts.
    pub(crate) path: &'a SearchPath,
    pub(crate) bounds: Bounds,
    /// Readable once the user does not want to wait for it any more.
    pub(crate) interrupt: Option<&'a OwnedFd>,
}

impl Question<'_> {
    /// Returns what the program answers.
    ///
    /// # Errors
    /// Returns the error of starting it; `TimedOut`; `FileTooLarge`; `Interrupted`.
    pub(crate) fn ask(self) -> io::Result<CommandOutput> {
        let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, variable(name)?)));
        let child = command(self.file)
            .arg0(self.name)
            .args(self.arguments)
            .env_clear()
            .envs(kept)
            .env("PATH", self.path.value())
            .current_dir("/")
            .process_group(0)
            .stdin(whole_input(self.input)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        see_to_end(child, self.bounds, self.interrupt)
    }
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

    /// Podman forgets a container that it is making when it is killed.
    #[test]
    fn interrupted_program_has_time_to_finish_what_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let done = dir.path().join("done");
        let (interrupt, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        let bounds = Bounds { patience: Duration::from_secs(60), most: 1 << 20 };
        let says = "set -e; sleep 0.3; seq 20000; seq 20000 >&2; : >\"$1\"";
        for (script, is_done) in
            [("sleep 0.5; : >\"$1\"", true), (says, true), ("exec sleep 60", false)]
        {
            let _ = std::fs::remove_file(&done);
            let mut program = command("sh");
            program.args(["-c", script, "sh"]).arg(&done);
            let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let began = std::time::Instant::now();
            let ended = see_to_end(child, bounds, Some(&interrupt)).map(drop);
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
            assert_eq!(done.exists(), is_done, "{script}");
            assert!(began.elapsed() < Duration::from_secs(30), "{script}");
        }
    }

    #[test]
    fn relative_directory_of_xdg_is_invalid() {
        for (name, value, expected) in [
            ("XDG_CONFIG_HOME", "cfg", true),
            ("XDG_DATA_HOME", "./data", true),
            ("XDG_CONFIG_HOME", "/cfg", false),
            ("DOCKER_CONFIG", "cfg", false),
        ] {
            assert_eq!(is_invalid(name, value.as_ref()), expected, "{name}={value}");
        }
    }
}
