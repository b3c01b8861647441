//! The one place where programs are started on the host (requirement 8.1). What runs inside is
//! started by init; everything else goes through here, and a lint forbids any other way.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_secrets::{CommandOutput, RunCommand, Secret};
use zeroize::Zeroizing;

/// How long a program on the host may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Variables that a program of the user needs to find its own configuration.
const ENVIRONMENT: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Starts programs on the host: no shell, an environment that is built, a time limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Launcher;

impl Launcher {
    #[expect(clippy::disallowed_methods, reason = "this is the launcher")]
    fn spawn(
        argv: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
        input: bool,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Child> {
        let (program, arguments) =
            argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = std::process::Command::new(program);
        if let Some((uid, gid)) = owner {
            command.uid(uid).gid(gid);
        }
        command
            .args(arguments)
            .env_clear()
            .envs(kept)
            .envs(variables.iter().copied())
            .current_dir("/")
            .stdin(if input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Starts this very program with other arguments, in its own environment, with what it says on
    /// both outputs going to one place.
    ///
    /// # Errors
    /// What starting it says.
    #[expect(clippy::disallowed_methods, reason = "this is the launcher")]
    pub(crate) fn start_own(self, arguments: &[&OsStr], output: OwnedFd) -> io::Result<Child> {
        std::process::Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
    }

    /// Runs a program to its end in `/`, with these variables besides the few that let it find
    /// its configuration.
    ///
    /// # Errors
    /// What starting it says; `TimedOut` after a minute.
    pub fn run_to_end(
        self,
        argv: &[String],
        variables: &[(&str, &str)],
        input: Option<&[u8]>,
    ) -> io::Result<CommandOutput> {
        Self::finish(Self::spawn(argv, variables, input.is_some(), None)?, input)
    }

    /// Starts the person's pager, a line for a shell as environ(7) has it. It shows on the caller's
    /// terminal what is written to its input, and ends when that does.
    ///
    /// # Errors
    /// What starting it says.
    #[expect(clippy::disallowed_methods, reason = "this is the launcher")]
    pub fn pager(self, line: &OsStr) -> io::Result<Child> {
        /// What a pager asks for its terminal; what names programs for its input is none of it.
        const TERMINAL: [&str; 5] = ["TERM", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE"];
        let kept = ENVIRONMENT.iter().chain(&TERMINAL);
        let kept = kept.filter_map(|name| Some((name, std::env::var_os(name)?)));
        std::process::Command::new("/bin/sh")
            .args([OsStr::new("-c"), line])
            .env_clear()
            .env("LESSSECURE", "1")
            .envs(kept)
            .stdin(Stdio::piped())
            .spawn()
    }

    /// Runs a program to its end for the owner of what it writes: a caller who is root becomes
    /// that user, so that the files stay theirs.
    ///
    /// # Errors
    /// As [`Self::run_to_end`].
    pub(crate) fn run_as(
        self,
        owner: Option<(u32, u32)>,
        argv: &[OsString],
        variables: &[(&str, &str)],
        input: Option<&[u8]>,
    ) -> io::Result<CommandOutput> {
        let owner = owner.filter(|_| rustix::process::geteuid().is_root());
        Self::finish(Self::spawn(argv, variables, input.is_some(), owner)?, input)
    }

    fn finish(mut child: Child, input: Option<&[u8]>) -> io::Result<CommandOutput> {
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // A program that does not read its input may still do its work.
            let _ = stdin.write_all(input);
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let reader = std::thread::spawn(move || read_all(stderr));
        let watcher = Watcher::start(&child);
        let stdout = Zeroizing::new(read_all(stdout));
        let status = child.wait()?;
        if watcher.finish() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let stderr = reader.join().unwrap_or_default();
        Ok(CommandOutput { code: status.code(), stdout, stderr })
    }
}

/// The program of this name that the user's `PATH` finds, but for directories in which an inside
/// may have written: an activated environment in a workspace puts such a directory first.
pub(crate) fn find(name: &str, not_in: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let real = candidates.filter_map(|directory| fs::canonicalize(directory.join(name)).ok());
    let mut safe = real.filter(|file| !not_in.iter().any(|root| file.starts_with(root)));
    safe.find(|file| file.is_file())
}

fn read_all(stream: Option<impl io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // What was read before an error is what there is.
        let _ = stream.read_to_end(&mut bytes);
    }
    bytes
}

/// Kills a program that takes too long.
struct Watcher {
    done: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Watcher {
    fn start(child: &Child) -> Self {
        let (done, wait) = std::sync::mpsc::channel();
        let pid = rustix::process::Pid::from_child(child);
        let until = Instant::now() + PATIENCE;
        let thread = std::thread::spawn(move || {
            let left = until.saturating_duration_since(Instant::now());
            let late = wait.recv_timeout(left) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if late {
                // The child is not reaped before this thread has ended, so the id is its own.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            late
        });
        Self { done, thread }
    }

    /// Whether the program was killed.
    fn finish(self) -> bool {
        drop(self.done);
        self.thread.join().unwrap_or(true)
    }
}

impl RunCommand for Launcher {
    fn run(&self, argv: &[String], stdin: Option<&Secret>) -> io::Result<CommandOutput> {
        self.run_to_end(argv, &[], stdin.map(|secret| secret.expose().as_bytes()))
    }
}
