//! The one place where programs are started on the host (requirement 8.1). What runs inside is
//! started by init; everything else goes through here, and a lint forbids any other way.

mod watched;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pinfold_secrets::{CommandOutput, RunCommand, Secret};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal};
use zeroize::Zeroizing;

use crate::audit::{Audit, Purpose};
use crate::places::Places;
use crate::run::record_launch;
use crate::wrappers::{self, Launch};

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

/// What launches on the host are shown as handled by, before the wrappers.
pub const HOST: &str = "host";

/// Where launches on the host are recorded, once the session has its log.
static RECORD: Mutex<Option<Arc<Audit>>> = Mutex::new(None);

/// Launches are recorded in this log from now on.
pub(crate) fn record_in(audit: &Arc<Audit>) {
    *RECORD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(audit));
}

/// The log, of no session where there is none yet.
fn record() -> io::Result<Arc<Audit>> {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(audit) = &*record {
        return Ok(Arc::clone(audit));
    }
    let places = Places::find().map_err(io::Error::other)?;
    let audit = Arc::new(Audit::open(&places.state, None)?);
    Ok(Arc::clone(record.insert(audit)))
}

impl Launcher {
    /// Has the wrappers handle a launch on the host, and records it. The environment is what lets a
    /// program find its own configuration, and `variables`.
    fn prepare<'v>(
        argv: Vec<OsString>,
        kept: impl Iterator<Item = &'v &'v str>,
        variables: &[(&str, &str)],
    ) -> io::Result<Command> {
        let given = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let mut env: Vec<(OsString, OsString)> = given.collect();
        for name in kept.filter(|name| variables.iter().all(|(given, _)| given != *name)) {
            env.extend(std::env::var_os(name).map(|value| (name.into(), value)));
        }
        let launch = Launch { argv, env, cwd: PathBuf::from("/"), handled_by: Vec::new() };
        let launch = wrappers::wrap(HOST, launch)?;
        record_launch(&*record()?, Purpose::Host, &launch)?;
        let (program, arguments) = launch
            .argv
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = Self::command(program);
        command.args(arguments).env_clear().envs(launch.env).current_dir(launch.cwd);
        Ok(command)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the launcher")]
    fn command(program: impl AsRef<OsStr>) -> Command {
        Command::new(program)
    }

    fn spawn(
        argv: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
        input: bool,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Child> {
        let argv = argv.iter().map(|word| word.as_ref().to_owned()).collect();
        let mut command = Self::prepare(argv, ENVIRONMENT.iter(), variables)?;
        if let Some((uid, gid)) = owner {
            command.uid(uid).gid(gid);
        }
        command
            .stdin(if input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Asks a wrapper's program, which is started unwrapped: its file and what it is called, its
    /// arguments, what it is told, how long it may take and how many bytes it may say.
    ///
    /// # Errors
    /// What starting it says; `TimedOut`; `FileTooLarge`.
    pub(crate) fn ask(
        (file, name): (&Path, &Path),
        arguments: &[String],
        question: &[u8],
        (patience, most): (Duration, usize),
    ) -> io::Result<CommandOutput> {
        let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let child = Self::command(file)
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
        Self::finish(child, Some(question), Instant::now() + patience, most)
    }

    /// Starts this very program with other arguments, in its own environment, with what it says on
    /// both outputs going to one place.
    ///
    /// # Errors
    /// What starting it says.
    pub(crate) fn start_own(self, arguments: &[&OsStr], output: OwnedFd) -> io::Result<Child> {
        Self::command(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
    }

    /// Starts this very program in a directory, in its own environment, with pipes for all three
    /// streams.
    ///
    /// # Errors
    /// What starting it says.
    pub fn start_session(self, arguments: &[OsString], directory: &Path) -> io::Result<Child> {
        Self::command(std::env::current_exe()?)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Starts this very program with other arguments, without an environment, to be talked to by its
    /// streams. What it says beside its answers is nobody's.
    ///
    /// # Errors
    /// What starting it says.
    pub(crate) fn start_reader(self, arguments: &[&OsStr]) -> io::Result<Child> {
        Self::command(std::env::current_exe()?)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Has the wrappers handle a command that an inside asks for, and records it. Its environment is
    /// what lets a program find its own configuration, and `variables`.
    ///
    /// # Errors
    /// A wrapper that refuses or fails, or a log that cannot be written: then nothing is started.
    pub(crate) fn for_inside(
        self,
        argv: Vec<OsString>,
        cwd: &Path,
        variables: Vec<(&str, OsString)>,
    ) -> io::Result<Launch> {
        let env = Self::environment_with(variables);
        let launch = Launch { argv, env, cwd: cwd.to_owned(), handled_by: Vec::new() };
        let launch = wrappers::wrap(HOST, launch)?;
        record_launch(&*record()?, Purpose::Host, &launch)?;
        Ok(launch)
    }

    /// What lets a program find its own configuration, and these variables.
    pub(crate) fn environment_with(variables: Vec<(&str, OsString)>) -> Vec<(OsString, OsString)> {
        let is_given = |name: &&str| variables.iter().any(|(given, _)| given == name);
        let kept = ENVIRONMENT.iter().filter(|name| !is_given(name));
        let kept = kept.filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        let kept: Vec<(OsString, OsString)> = kept.collect();
        kept.into_iter()
            .chain(variables.into_iter().map(|(name, value)| (name.into(), value)))
            .collect()
    }

    /// Starts this very program for an inside, in an environment that was built, in a directory that is
    /// held open, with pipes for all three streams.
    ///
    /// # Errors
    /// What starting it says.
    pub(crate) fn start_for_inside(
        self,
        arguments: &[OsString],
        env: Vec<(OsString, OsString)>,
        directory: BorrowedFd<'_>,
    ) -> io::Result<Child> {
        Self::command(std::env::current_exe()?)
            .args(arguments)
            .env_clear()
            .envs(env)
            // The child has the descriptor until it executes.
            .current_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Starts a program that the wrappers have handled, with all that this process has, its streams
    /// included, under a name of its own.
    ///
    /// # Errors
    /// What starting it says.
    pub(crate) fn start_minded(
        self,
        program: &OsStr,
        name: &OsStr,
        args: &[OsString],
    ) -> io::Result<Child> {
        let mut command = Self::command(program);
        crate::sys::unblock_signals_of(&mut command);
        command.arg0(name).args(args).spawn()
    }

    /// Inside: replaces this program by another, for which it stands. Returns only if that fails.
    #[expect(clippy::disallowed_methods, reason = "inside, and nothing of the host's")]
    pub fn become_program(self, program: &Path, args: &[OsString]) -> io::Error {
        Self::command(program).args(args).exec()
    }

    /// Inside: runs a program to its end with this process's environment and directory.
    ///
    /// # Errors
    /// What starting it says; `TimedOut` after a minute.
    pub fn run_here(self, argv: &[OsString], input: Option<&[u8]>) -> io::Result<CommandOutput> {
        let (program, arguments) =
            argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let child = Self::command(program)
            .args(arguments)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Self::finish(child, input, Instant::now() + PATIENCE, usize::MAX)
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
        let child = Self::spawn(argv, variables, input.is_some(), None)?;
        Self::finish(child, input, Instant::now() + PATIENCE, usize::MAX)
    }

    /// Runs a program to its end in `/`, with these of the caller's variables besides the few that let
    /// it find its configuration.
    ///
    /// # Errors
    /// What starting it says; `TimedOut` after a minute.
    pub(crate) fn run_keeping(
        self,
        argv: Vec<OsString>,
        kept: &[&str],
    ) -> io::Result<CommandOutput> {
        let mut command = Self::prepare(argv, ENVIRONMENT.iter().chain(kept), &[])?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::finish(command.spawn()?, None, Instant::now() + PATIENCE, usize::MAX)
    }

    /// Starts the person's pager, a line for a shell as environ(7) has it. It shows on the caller's
    /// terminal what is written to its input, and ends when that does. Keys are the pager's from here
    /// on: Ctrl-C ends a search in it, and would end this process beside it.
    ///
    /// # Errors
    /// What starting it says.
    pub fn pager(self, line: &OsStr) -> io::Result<Child> {
        /// What a pager asks for its terminal; what names programs for its input is none of it.
        const TERMINAL: [&str; 5] = ["TERM", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE"];
        // The shell lives as long as the pager, and the pager decides about its keys itself.
        let mut script = OsString::from("trap : INT QUIT\n");
        script.push(line);
        let argv = vec!["/bin/sh".into(), "-c".into(), script];
        let kept = ENVIRONMENT.iter().chain(&TERMINAL);
        let variables = [("LESSSECURE", "1")];
        let pager = Self::prepare(argv, kept, &variables)?.stdin(Stdio::piped()).spawn()?;
        crate::sys::leave_keys_to_others();
        Ok(pager)
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
        let child = Self::spawn(argv, variables, input.is_some(), owner)?;
        Self::finish(child, input, Instant::now() + PATIENCE, usize::MAX)
    }

    /// Sees a program to its end, without a thread: a boundary may be started right after.
    fn finish(
        mut child: Child,
        input: Option<&[u8]>,
        deadline: Instant,
        most: usize,
    ) -> io::Result<CommandOutput> {
        let exchanged = exchange(&mut child, input.unwrap_or_default(), deadline, most);
        let ended = exchanged.and_then(|read| wait_for_end(&child, deadline).map(|()| read));
        if ended.is_err() {
            // It has not been waited for, so the id is its own, and its group's if it leads one.
            let id = rustix::process::Pid::from_child(&child);
            let _ = match rustix::process::getpgid(Some(id)) {
                Ok(group) if group == id => {
                    rustix::process::kill_process_group(id, Signal::KILL).map_err(io::Error::from)
                }
                _ => child.kill(),
            };
        }
        let status = child.wait()?;
        let [stdout, mut stderr] = ended?;
        Ok(CommandOutput { code: status.code(), stdout, stderr: std::mem::take(&mut *stderr) })
    }
}

/// Writes a program's input and reads its two outputs until they are closed.
///
/// # Errors
/// `TimedOut` at the deadline; `FileTooLarge` when one of them has more than the most bytes.
fn exchange(
    child: &mut Child,
    mut input: &[u8],
    deadline: Instant,
    most: usize,
) -> io::Result<[Zeroizing<Vec<u8>>; 2]> {
    let mut stdin = child.stdin.take().map(OwnedFd::from).filter(|_| !input.is_empty());
    if let Some(stdin) = &stdin {
        rustix::io::ioctl_fionbio(stdin, true)?;
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut streams = [stdout.map(OwnedFd::from), stderr.map(OwnedFd::from)];
    let mut read = [Zeroizing::new(Vec::new()), Zeroizing::new(Vec::new())];
    while streams.iter().any(Option::is_some) {
        let outputs = streams.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN));
        let inputs = stdin.iter().map(|stream| PollFd::new(stream, PollFlags::OUT));
        wait_until(deadline, &mut outputs.chain(inputs).collect::<Vec<_>>())?;
        for (stream, read) in streams.iter_mut().zip(&mut read) {
            if stream.as_ref().is_some_and(|stream| !read_some(stream, read)) {
                *stream = None;
            }
            if read.len() > most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        if let Some(stream) = &stdin {
            match rustix::io::write(stream, input) {
                Ok(count) => input = &input[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                // A program that does not read its input may still do its work.
                Err(_) => input = &[],
            }
        }
        stdin = stdin.filter(|_| !input.is_empty());
    }
    Ok(read)
}

/// Reads what is there; whether more may come. What was read before an error is what there is.
fn read_some(stream: &OwnedFd, into: &mut Vec<u8>) -> bool {
    let mut buffer = Zeroizing::new([0; 16 << 10]);
    let now = Timespec::default();
    let is_ready = rustix::event::poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&now));
    if is_ready == Ok(0) {
        return true;
    }
    match rustix::io::retry_on_intr(|| rustix::io::read(stream, &mut buffer[..])) {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            into.extend_from_slice(&buffer[..count]);
            true
        }
    }
}

fn wait_for_end(child: &Child, deadline: Instant) -> io::Result<()> {
    let process = rustix::process::Pid::from_child(child);
    let process = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    wait_until(deadline, &mut [PollFd::new(&process, PollFlags::IN)])
}

/// Waits for one of these.
///
/// # Errors
/// `TimedOut` at the deadline.
fn wait_until(deadline: Instant, wanted: &mut [PollFd<'_>]) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match rustix::event::poll(wanted, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
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

impl RunCommand for Launcher {
    fn run(&self, argv: &[String], stdin: Option<&Secret>) -> io::Result<CommandOutput> {
        self.run_to_end(argv, &[], stdin.map(|secret| secret.expose().as_bytes()))
    }
}
