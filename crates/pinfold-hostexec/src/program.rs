//! `pinfold-host`: the program inside that asks the host to run a command.
//!
//! It is this executable by another name, mounted inside where sessions can ask. By the name of a
//! command, such as `git`, it asks for that command.
//!
//! | code | meaning |
//! |---|---|
//! | the command's own | it ran; 128 + n if signal n ended it |
//! | 2 | the command line cannot be understood |
//! | 125 | the host cannot be asked |
//! | 126 | the command was refused, denied, or ended because its time was over |

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pinfold_host::launcher::{become_program, run_here};
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;
use pinfold_wire::{Call, Ended, Frames, HostCommand, MAX_DATA, Reply, framed};

use crate::{DIRECTORY, HostExecResult, PROGRAM, SOCKET};

const UNREACHABLE: u8 = 125;
const REFUSED: u8 = 126;
const USAGE: u8 = 2;
/// As a program that SIGPIPE ends (128 + 13).
const BROKEN_PIPE: u8 = 141;
/// Bytes of each output that a result in JSON holds.
const MOST: usize = 16 << 20;

const HELP: &str = "\
Ask the host to run a command; its user approves each, unless a rule allows it

Usage: pinfold-host [--json] [--directory DIRECTORY] [--] COMMAND [ARGUMENTS…]

Standard input, output and error, and the exit status, are the command's own.

Options:
      --json                 Print the result as JSON; the exit status of the command is in it
      --directory DIRECTORY  Run it in this directory
  -h, --help                 Print help
";

/// Returns the name by which this program was called inside, if it was.
#[must_use]
pub fn name() -> Option<OsString> {
    // The kernel names the file that is mounted there, whatever link led to it (proc_pid_exe(5)).
    let is_inside = std::fs::read_link("/proc/self/exe").is_ok_and(|exe| exe == Path::new(PROGRAM));
    let name = is_inside.then(|| std::env::args_os().next()).flatten()?;
    Path::new(&name).file_name().map(OsStr::to_owned)
}

/// Asks for what the arguments of this process say, and returns its exit status.
#[must_use]
pub fn ask(name: &OsStr) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if name != "pinfold-host" {
        if name == "git" && !needs_the_host(&args) {
            return own_git(&args);
        }
        return run(name, args, Shown::AsItComes);
    }
    let mut args = args.into_iter().peekable();
    let is_json = args.next_if(|arg| arg == "--json").is_some();
    let shown = if is_json { Shown::Json } else { Shown::AsItComes };
    if args.peek().is_some_and(|arg| arg == "--help" || arg == "-h") {
        // Nobody may read it.
        let _ = io::stdout().write_all(HELP.as_bytes());
        return ExitCode::SUCCESS;
    }
    let directory = args.next_if(|arg| arg == "--directory").and_then(|_| args.next());
    if let Some(directory) = directory.map(PathBuf::from)
        && let Err(error) = std::env::set_current_dir(&directory)
    {
        notify!("pinfold-host: cannot enter the directory {}: {error}", Escaped(&directory));
        return ExitCode::from(USAGE);
    }
    let is_name = args.next_if(|arg| arg == "--").is_some();
    let Some(executable) = args.next_if(|arg| is_name || !arg.as_bytes().starts_with(b"-")) else {
        notify::put(format_args!("{HELP}"));
        return ExitCode::from(USAGE);
    };
    run(&executable, args.collect(), shown)
}

/// Returns whether the host has to do it: of git only what a login is for; everything else the sandbox has itself.
fn needs_the_host(args: &[OsString]) -> bool {
    const TAKE_A_VALUE: [&str; 6] =
        ["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env"];
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if TAKE_A_VALUE.iter().any(|option| arg == option) {
            args.next();
        } else if !arg.as_bytes().starts_with(b"-") {
            return ["push", "fetch", "ls-remote"].iter().any(|command| arg == command);
        }
    }
    false
}

/// Finds the git that is inside, which the names in [`DIRECTORY`] stand before.
fn git_inside() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).filter(|directory| directory != Path::new(DIRECTORY));
    others.map(|directory| directory.join("git")).find(|git| git.is_file())
}

/// Becomes the git that is inside.
fn own_git(args: &[OsString]) -> ExitCode {
    let Some(git) = git_inside() else {
        notify!("pinfold-host: git is not installed in the sandbox");
        return ExitCode::from(127);
    };
    let error = become_program(&git, args);
    notify!("pinfold-host: {}: {error}", git.display());
    ExitCode::from(126)
}

/// How a result is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    AsItComes,
    Json,
}

fn run(executable: &OsStr, args: Vec<OsString>, shown: Shown) -> ExitCode {
    match converse(executable, args, shown) {
        Ok(code) => code,
        // Nobody reads any more; the command is ended with this process.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            notify!("pinfold-host: the host cannot be asked: {error}");
            ExitCode::from(UNREACHABLE)
        }
    }
}

fn converse(executable: &OsStr, args: Vec<OsString>, shown: Shown) -> io::Result<ExitCode> {
    let mut socket = UnixStream::connect(SOCKET)?;
    let cwd = std::env::current_dir()?;
    let command = HostCommand {
        executable: executable.as_bytes().to_vec(),
        args: args.into_iter().map(OsString::into_vec).collect(),
        cwd: cwd.as_os_str().as_bytes().to_vec(),
    };
    for call in Call::command(&command) {
        // One that is too long is refused before it was said: the answer says so.
        if socket.write_all(&framed(&call)).is_err() {
            break;
        }
    }
    let input = socket.try_clone()?;
    std::thread::spawn(move || feed(input));
    let result = HostExecResult {
        host_exec: true,
        executable: executable.to_string_lossy().into_owned(),
        args: command.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect(),
        cwd: cwd.to_string_lossy().into_owned(),
        stdout: String::new(),
        stderr: None,
        exit_code: None,
        refused: None,
        truncated: false,
    };
    Listening { result, stdout: Vec::new(), stderr: Vec::new(), pack: Vec::new(), shown }
        .until_end(socket)
}

/// Hands standard input on until it ends or nobody takes it.
fn feed(mut socket: UnixStream) {
    let mut buffer = vec![0; MAX_DATA];
    let mut input = io::stdin().lock();
    loop {
        let call = match input.read(&mut buffer) {
            Ok(0) => Call::InputEnd,
            Ok(count) => Call::Input(buffer[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => Call::InputEnd,
        };
        if socket.write_all(&framed(&call)).is_err() || call == Call::InputEnd {
            return;
        }
    }
}

struct Listening {
    result: HostExecResult,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Objects that the repository is to take up.
    pack: Vec<u8>,
    shown: Shown,
}

impl Listening {
    fn until_end(mut self, mut socket: UnixStream) -> io::Result<ExitCode> {
        let (mut frames, mut buffer) = (Frames::default(), vec![0; 2 * MAX_DATA]);
        loop {
            while let Some(reply) = frames.take::<Reply>().map_err(io::Error::other)? {
                if let Some(code) = self.hear(reply)? {
                    return Ok(code);
                }
            }
            match socket.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => frames.add(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes one reply; gives the exit status if it is the last.
    fn hear(&mut self, reply: Reply) -> io::Result<Option<ExitCode>> {
        match (reply, self.shown) {
            (Reply::Waiting, Shown::AsItComes) => {
                use std::io::IsTerminal as _;
                if io::stderr().is_terminal() {
                    notify!("pinfold-host: waiting for its user's approval");
                }
            }
            (Reply::Waiting, Shown::Json) => {}
            (Reply::Output(data), Shown::AsItComes) => io::stdout().write_all(&data)?,
            (Reply::Errors(data), Shown::AsItComes) => io::stderr().write_all(&data)?,
            (Reply::Output(data), Shown::Json) => {
                self.result.truncated |= keep(&mut self.stdout, &data);
            }
            (Reply::Errors(data), Shown::Json) => {
                self.result.truncated |= keep(&mut self.stderr, &data);
            }
            (Reply::Pack(data), _) => self.pack.extend(data),
            (Reply::Tracking { reference, object }, _) => self.take_up(&reference, &object),
            (Reply::Upstream { branch, remote, merge }, _) => {
                self.git(&["config", &format!("branch.{branch}.remote"), &remote], None);
                self.git(&["config", &format!("branch.{branch}.merge"), &merge], None);
            }
            (Reply::Refused { why, hint }, Shown::AsItComes) => {
                io::stdout().flush()?;
                notify!("pinfold-host: {why}");
                if !hint.is_empty() {
                    notify!("hint: {hint}");
                }
                return Ok(Some(ExitCode::from(REFUSED)));
            }
            (Reply::Refused { why, hint }, Shown::Json) => {
                let hint = if hint.is_empty() { hint } else { format!(" ({hint})") };
                self.result.refused = Some(format!("{why}{hint}"));
                return self.print(ExitCode::from(REFUSED)).map(Some);
            }
            (Reply::Ended(ended), shown) => {
                let code = match ended {
                    Ended::Code(code) => code,
                    Ended::Signal(signal) => 128_u8.saturating_add(signal),
                };
                if shown == Shown::Json {
                    self.result.exit_code = Some(code);
                    return self.print(ExitCode::SUCCESS).map(Some);
                }
                io::stdout().flush()?;
                return Ok(Some(ExitCode::from(code)));
            }
        }
        Ok(None)
    }

    fn print(&mut self, code: ExitCode) -> io::Result<ExitCode> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.result.stdout = text(&self.stdout);
        self.result.stderr = (!self.stderr.is_empty()).then(|| text(&self.stderr));
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &self.result)?;
        writeln!(out)?;
        Ok(code)
    }

    /// Has the sandbox's own git know what the host's has done: the objects that came, and where a
    /// remote's reference is now. It is the sandbox's repository, and its to change.
    fn take_up(&mut self, reference: &str, object: &str) {
        let is_remote =
            ["refs/remotes/", "refs/tags/"].iter().any(|kind| reference.starts_with(kind));
        let pack = std::mem::take(&mut self.pack);
        if !pack.is_empty() {
            self.git(&["index-pack", "--stdin", "--fix-thin"], Some(&pack));
        }
        if is_remote {
            self.git(&["update-ref", reference, object], None);
        }
    }

    fn git(&self, args: &[&str], input: Option<&[u8]>) {
        let Some(git) = git_inside() else { return };
        let mut argv = vec![git.into_os_string()];
        argv.push("-C".into());
        argv.push(self.result.cwd.clone().into());
        argv.extend(args.iter().map(Into::into));
        match run_here(&argv, input) {
            Ok(output) if output.code == Some(0) => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                notify!("pinfold-host: the repository does not know it yet: {said}");
            }
            Err(error) => notify!("pinfold-host: the repository does not know it yet: {error}"),
        }
    }
}

/// Keeps what there is room for; whether something is left out.
fn keep(kept: &mut Vec<u8>, data: &[u8]) -> bool {
    let room = MOST - kept.len().min(MOST);
    kept.extend_from_slice(&data[..data.len().min(room)]);
    data.len() > room
}
