//! The one place where programs are started on the host (requirement 8.1). What runs inside is
//! started by init; everything else goes through here, and a lint forbids any other way.

mod direct;
mod lease;
mod left_out;
mod own_program;
mod record;
mod together;
mod watched;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pinfold_policy::authority::Authority;
use pinfold_secrets::{CommandOutput, RunCommand, Secret};
use rustix::process::{Pid, Resource, Rlimit};

pub use self::direct::{
    become_program, run_here, run_own, start_for_inside, start_held, start_minded, start_own,
    start_reader, start_session, start_worker,
};
pub use self::lease::lend;
pub use self::left_out::{leave_out_in_children, left_out_by_parent};
pub use self::own_program::own_program;
pub use self::record::{record_exec, record_launch};
use self::together::Together;
use crate::Refusal;
use crate::audit::{Audit, Purpose};
use crate::directories::Places;
pub use crate::process::Bounds;
use crate::process::{ENVIRONMENT, Question, command, see_to_end, variable, whole_input};
use crate::search_path::SearchPath;
use crate::wrappers::{Launch, Wrappers};

/// What a program on the host may take where nothing else is said: git lists about a million changed files in 256 MiB.
const BOUNDS: Bounds = Bounds { patience: Duration::from_secs(60), most: 256 << 20 };
/// Bytes of memory of a program in [`Launcher::run_in`]: git holds all changes of a commit in it, some 600 bytes for each file.
pub const MOST_MEMORY: u64 = 1 << 30;

/// Starts programs on the host: no shell, an environment that is built, a time limit. Each launch goes
/// through the wrappers and is recorded. Clones share the wrappers and the log.
#[derive(Debug, Clone)]
pub struct Launcher {
    shared: Arc<Shared>,
    /// Where programs are looked for.
    path: Arc<SearchPath>,
    /// Readable once the user wants what waits for a program to end.
    interrupt: Option<Arc<OwnedFd>>,
    /// What programs in [`Self::run_in`] may take together.
    together: Option<Together>,
}

#[derive(Debug)]
struct Shared {
    wrappers: Wrappers,
    /// The session's log, once it has one; until then that of no session.
    audit: Mutex<Option<Arc<Audit>>>,
}

/// What launches on the host are shown as handled by, before the wrappers.
pub const HOST: &str = "host";

impl Launcher {
    /// Returns a launcher whose launches these wrappers handle.
    #[must_use]
    pub fn new(wrappers: Wrappers) -> Self {
        let shared = Arc::new(Shared { wrappers, audit: Mutex::new(None) });
        let path = Arc::new(SearchPath::without(Vec::new()));
        Self { shared, path, interrupt: None, together: None }
    }

    /// Records launches in this log from now on.
    pub fn record_in(&self, audit: &Arc<Audit>) {
        *self.shared.audit.lock() = Some(Arc::clone(audit));
    }

    /// Makes launches for a session of this authority from now on.
    pub fn act_for(&self, authority: &Authority) {
        self.shared.wrappers.act_for(authority);
    }

    /// Has the wrappers handle what is to be launched inside.
    ///
    /// # Errors
    /// Returns a refusal if a wrapper refuses or fails.
    pub fn wrapped(&self, boundary: &str, launch: Launch) -> Result<Launch, Refusal> {
        self.shared.wrappers.wrapped(boundary, launch, &self.path)
    }

    /// Finds the program of this name in the user's `PATH`, leaving out directories in which a sandbox may
    /// have written. What the program starts by name is not found in them either.
    ///
    /// # Errors
    /// Returns `NotFound` if it is not installed, and `PermissionDenied` if it is only where a sandbox may have written.
    pub fn find(&self, name: &str, not_in: &[PathBuf]) -> io::Result<HostProgram> {
        let launcher = self.leaving_out(not_in);
        Ok(HostProgram { path: launcher.path.find(name)?, launcher })
    }

    /// Returns a launcher for which these directories, in which a sandbox may have written, are not on `PATH`: neither
    /// for what it starts nor for what that starts.
    #[must_use]
    pub fn leaving_out(&self, directories: &[PathBuf]) -> Self {
        let more = self.path.more(directories).map(|all| Arc::new(SearchPath::without(all)));
        let path = more.unwrap_or_else(|| Arc::clone(&self.path));
        Self { path, ..self.clone() }
    }

    /// Returns a launcher for a start that the user may interrupt while signals are blocked: a program that runs then is
    /// killed if it does not end within two seconds, and the error is `Interrupted`.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub fn interruptible(&self) -> io::Result<Self> {
        let interrupt = Some(Arc::new(crate::sys::interrupts()?));
        Ok(Self { interrupt, ..self.clone() })
    }

    /// Sees a program to its end within the bounds for every program.
    fn to_end(&self, child: Child) -> io::Result<CommandOutput> {
        to_end(child, BOUNDS, self.interrupt.as_deref())
    }

    /// Returns the directories that are not on `PATH` for what is started.
    #[must_use]
    pub fn left_out(&self) -> &[PathBuf] {
        self.path.left_out()
    }

    /// Returns the path of the program of this name as it is started, which may be a link.
    ///
    /// # Errors
    /// Returns why it is not found.
    pub fn path_of(&self, name: &OsStr) -> io::Result<PathBuf> {
        self.path.path_of(name)
    }

    /// Asks a program of the user's, which is started unwrapped with this input.
    ///
    /// # Errors
    /// Returns the error of starting it; `TimedOut` and `FileTooLarge` for what goes beyond the bounds.
    pub fn ask(
        &self,
        file: &Path,
        arguments: &[String],
        input: &[u8],
        bounds: Bounds,
    ) -> io::Result<CommandOutput> {
        let interrupt = self.interrupt.as_deref();
        Question { file, name: file, arguments, input, path: &self.path, bounds, interrupt }.ask()
    }

    /// Returns what lets a program find its own configuration, and these variables.
    pub fn environment_with(&self, variables: Vec<(&str, OsString)>) -> Vec<(OsString, OsString)> {
        let is_given = |name: &&&str| variables.iter().any(|(given, _)| given == *name);
        let kept = ENVIRONMENT.iter().filter(|name| !is_given(name));
        let kept: Vec<(OsString, OsString)> =
            kept.filter_map(|name| Some((name.into(), self.variable(name)?))).collect();
        let given = variables.into_iter().map(|(name, value)| (name.into(), value));
        kept.into_iter().chain(given).collect()
    }

    /// Returns a variable of the caller's as what is started gets it.
    fn variable(&self, name: &str) -> Option<OsString> {
        if name == "PATH" { Some(self.path.value()) } else { variable(name) }
    }

    /// Returns a program whose file was found before.
    #[must_use]
    pub fn program(&self, path: PathBuf) -> HostProgram {
        HostProgram { path, launcher: self.clone() }
    }

    /// Returns the log, of no session where none exists yet.
    fn audit(&self) -> io::Result<Arc<Audit>> {
        let mut audit = self.shared.audit.lock();
        if let Some(audit) = &*audit {
            return Ok(Arc::clone(audit));
        }
        let places = Places::find().map_err(io::Error::other)?;
        let opened = Arc::new(Audit::open(&places.state, None)?);
        Ok(Arc::clone(audit.insert(opened)))
    }

    /// Has the wrappers handle a launch on the host, and records it. The environment is what lets a
    /// program find its own configuration, and `variables`.
    fn prepare<'v>(
        &self,
        argv: Vec<OsString>,
        kept: impl Iterator<Item = &'v &'v str>,
        variables: &[(&str, &str)],
        spot: Option<Spot<'_>>,
    ) -> io::Result<Command> {
        let given = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let mut env: Vec<(OsString, OsString)> = given.collect();
        for name in kept.filter(|name| variables.iter().all(|(given, _)| given != *name)) {
            let Some(value) = self.variable(name) else { continue };
            if !ENVIRONMENT.contains(name) {
                self.path.check_variable(name, &value)?;
            }
            env.push((name.into(), value));
        }
        let cwd = spot.map_or(Path::new("/"), |spot| spot.path);
        let launch = Launch { argv, env, cwd: cwd.to_owned(), handled_by: Vec::new() };
        let launch = self.shared.wrappers.wrap(HOST, launch, &self.path)?;
        record_launch(&*self.audit()?, Purpose::Host, &launch)?;
        let here = match spot {
            Some(spot) if launch.cwd == spot.path => of_descriptor(spot.opened.as_fd()),
            _ => launch.cwd,
        };
        let (program, arguments) = launch
            .argv
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = command(self.path.path_of(program)?);
        command.arg0(program).args(arguments).env_clear().envs(launch.env).current_dir(here);
        Ok(command)
    }

    fn spawn(
        &self,
        argv: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
        input: Option<&[u8]>,
        owner: Option<(u32, u32)>,
        spot: Option<Spot<'_>>,
    ) -> io::Result<Child> {
        let argv = argv.iter().map(|word| word.as_ref().to_owned()).collect();
        let mut command = self.prepare(argv, ENVIRONMENT.iter(), variables, spot)?;
        if let Some((uid, gid)) = owner {
            command.uid(uid).gid(gid);
        }
        if spot.is_some() {
            lease::give(&mut command);
        }
        command
            .stdin(input.map_or_else(|| Ok(Stdio::null()), whole_input)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Has the wrappers handle a command that a sandbox asks for, and records it. Its environment is
    /// what lets a program find its own configuration, and `variables`.
    ///
    /// # Errors
    /// Returns an error for a wrapper that refuses or fails, or a log that cannot be written: then
    /// nothing is started.
    pub fn for_inside(
        &self,
        argv: Vec<OsString>,
        cwd: &Path,
        variables: Vec<(&str, OsString)>,
    ) -> io::Result<Launch> {
        let env = self.environment_with(variables);
        let launch = Launch { argv, env, cwd: cwd.to_owned(), handled_by: Vec::new() };
        let launch = self.shared.wrappers.wrap(HOST, launch, &self.path)?;
        record_launch(&*self.audit()?, Purpose::Host, &launch)?;
        Ok(launch)
    }

    /// Checks that a program that gets more of the caller's variables, such as an engine, finds no settings that a sandbox may
    /// have written: they name programs.
    fn check_settings(&self, kept: &[&str]) -> io::Result<()> {
        let settings = "XDG_CONFIG_HOME";
        match self.variable(settings).filter(|_| !kept.is_empty()) {
            Some(value) => self.path.check_variable(settings, &value),
            None => Ok(()),
        }
    }

    /// Runs a program to its end in `/`, with these variables besides the few that let it find
    /// its configuration.
    ///
    /// # Errors
    /// Returns the error of starting it; `TimedOut` after a minute; `FileTooLarge` for an output of more than 256 MiB.
    pub fn run_to_end(
        &self,
        argv: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
        input: Option<&[u8]>,
    ) -> io::Result<CommandOutput> {
        let child = self.spawn(argv, variables, input, None, None)?;
        self.to_end(child)
    }

    /// Runs a program to its end in `/`, with these of the caller's variables besides the few that let
    /// it find its configuration.
    ///
    /// # Errors
    /// Returns the error of starting it; `TimedOut` after a minute; `FileTooLarge` for an output of more than 256 MiB.
    pub fn run_keeping(&self, argv: Vec<OsString>, kept: &[&str]) -> io::Result<CommandOutput> {
        self.check_settings(kept)?;
        let mut command = self.prepare(argv, ENVIRONMENT.iter().chain(kept), &[], None)?;
        if self.interrupt.is_some() {
            // Keys of the terminal reach this process, which gives the program time to end.
            command.process_group(0);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.to_end(command.spawn()?)
    }

    /// Runs a program to its end in `/`, in a process group of its own, with these variables and these of the caller's
    /// besides the few that let it find its configuration. Its input is whole from the start, and it is killed when this
    /// thread ends.
    ///
    /// # Errors
    /// Returns the error of starting it; `TimedOut` and `FileTooLarge` for what goes beyond the bounds.
    pub fn run_bounded(
        &self,
        argv: Vec<OsString>,
        variables: &[(&str, &str)],
        kept: &[&str],
        input: Option<&[u8]>,
        bounds: Bounds,
    ) -> io::Result<CommandOutput> {
        self.check_settings(kept)?;
        let mut command = self.prepare(argv, ENVIRONMENT.iter().chain(kept), variables, None)?;
        crate::sys::unblock_signals_of(&mut command);
        crate::sys::end_with_this_thread(&mut command);
        let stdin = input.map_or_else(|| Ok(Stdio::null()), whole_input)?;
        command.process_group(0).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        see_to_end(command.spawn()?, bounds, self.interrupt.as_deref())
    }

    /// Starts the user's pager, a line for a shell as environ(7) has it. It shows on the caller's
    /// terminal what is written to its input, and ends when that does. Keys are the pager's from here
    /// on: Ctrl-C ends a search in it, and would end this process as well.
    ///
    /// # Errors
    /// Returns the error of starting it.
    pub fn pager(&self, line: &OsStr) -> io::Result<Child> {
        /// What a pager asks for its terminal; what names programs for its input does not belong to it.
        const TERMINAL: [&str; 5] = ["TERM", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE"];
        // The shell lives as long as the pager, and the pager decides about its keys itself.
        let mut script = OsString::from("trap : INT QUIT\n");
        script.push(line);
        let argv = vec!["/bin/sh".into(), "-c".into(), script];
        let kept = ENVIRONMENT.iter().chain(&TERMINAL);
        let variables = [("LESSSECURE", "1")];
        let pager = self.prepare(argv, kept, &variables, None)?.stdin(Stdio::piped()).spawn()?;
        crate::sys::leave_keys_to_others();
        Ok(pager)
    }

    /// Runs a program to its end in a directory that is held open, for the owner of what it writes: a
    /// caller who is root becomes that user, so that the files stay theirs. It gets [`MOST_MEMORY`] bytes of memory, since it
    /// may read what a sandbox made.
    ///
    /// # Errors
    /// Returns the errors of [`Self::run_to_end`]; `TimedOut` once the time is over that it shares with others.
    pub fn run_in(
        &self,
        spot: Spot<'_>,
        owner: Option<(u32, u32)>,
        argv: &[OsString],
        variables: &[(&str, &str)],
        input: Option<&[u8]>,
    ) -> io::Result<CommandOutput> {
        let owner = owner.filter(|_| rustix::process::geteuid().is_root());
        // What is left of the time, if it is less than each program has.
        let together = self.together.filter(|it| it.left() < BOUNDS.patience);
        if let Some(together) = together.filter(|it| it.left().is_zero()) {
            return Err(together.over());
        }
        let mut child = self.spawn(argv, variables, input, owner, Some(spot))?;
        if let Err(error) = bound_memory(&child) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let Some(together) = together else { return self.to_end(child) };
        let bounds = Bounds { patience: together.left(), ..BOUNDS };
        to_end(child, bounds, self.interrupt.as_deref()).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => together.over(),
            _ => error,
        })
    }
}

/// Bounds the memory of a program that was just started. Files that it maps to read them do not count (getrlimit(2)).
///
/// # Errors
/// Returns the error of `prlimit(2)`.
fn bound_memory(child: &Child) -> io::Result<()> {
    let limit = Rlimit { current: Some(MOST_MEMORY), maximum: Some(MOST_MEMORY) };
    rustix::process::prlimit(Some(Pid::from_child(child)), Resource::Data, limit)?;
    Ok(())
}

/// Sees a program to its end within bounds.
///
/// # Errors
/// Returns `TimedOut` and `FileTooLarge`, each with words that name the bound.
fn to_end(child: Child, bounds: Bounds, interrupt: Option<&OwnedFd>) -> io::Result<CommandOutput> {
    let Bounds { patience, most } = bounds;
    see_to_end(child, bounds, interrupt).map_err(|error| {
        let kind = error.kind();
        let words = match kind {
            io::ErrorKind::TimedOut => format!("it took more than {} s", patience.as_secs()),
            io::ErrorKind::FileTooLarge => format!("it wrote more than {} MiB", most >> 20),
            _ => return error,
        };
        io::Error::new(kind, words)
    })
}

/// A program of the host's, with what starts it.
#[derive(Debug, Clone)]
pub struct HostProgram {
    path: PathBuf,
    launcher: Launcher,
}

impl HostProgram {
    /// Returns its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what starts it.
    #[must_use]
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// Returns it with this time for all that [`Launcher::run_in`] runs from now on, together. A time that it shares already
    /// stays if that ends before.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        let new = Together::new(time);
        self.until(Some(self.launcher.together.map_or(new, |its| its.or_earlier(new))))
    }

    /// Returns it with an equal share of what is left of the time that its programs share, for one of `count` uses.
    #[must_use]
    pub fn with_share_of(&self, count: usize) -> Self {
        self.until(self.launcher.together.map(|its| its.share(count)))
    }

    /// Returns what is left of the time that its programs share.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.launcher.together.map(Together::left)
    }

    /// Returns whether the time is over that its programs share.
    #[must_use]
    pub fn is_out_of_time(&self) -> bool {
        self.launcher.together.is_some_and(|its| its.left().is_zero())
    }

    fn until(&self, together: Option<Together>) -> Self {
        Self { path: self.path.clone(), launcher: Launcher { together, ..self.launcher.clone() } }
    }
}

/// A directory that a program is started in, whatever its path leads to since.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    /// As wrappers and the log see it.
    pub path: &'a Path,
    /// The directory itself.
    pub opened: &'a OwnedFd,
}

/// Returns the directory that is held open, for a child: it has the descriptor until it executes.
fn of_descriptor(directory: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

impl RunCommand for Launcher {
    fn run(&self, argv: &[String], stdin: Option<&Secret>) -> io::Result<CommandOutput> {
        self.run_to_end(argv, &[], stdin.map(|secret| secret.expose().as_bytes()))
    }
}
