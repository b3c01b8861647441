//! Programs that are started as they are: this very program, what the wrappers have handled, and, inside,
//! what a command asked for. The wrappers see none of them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use pinfold_secrets::CommandOutput;

use super::{BOUNDS, left_out, of_descriptor, to_end};
use crate::process::{command, whole_input};

/// Prepares this very program, in its own environment. What this process leaves out of `PATH`, that one does, too.
fn own() -> io::Result<Command> {
    let mut command = command(std::env::current_exe()?);
    left_out::give(&mut command);
    Ok(command)
}

/// Starts this very program with other arguments, in its own environment, with what it says on
/// both outputs going to one place.
///
/// # Errors
/// Returns the error of starting it.
pub fn start_own(arguments: &[&OsStr], output: OwnedFd) -> io::Result<Child> {
    own()?.args(arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()
}

/// Starts this very program in a directory, in its own environment, with pipes for all three
/// streams.
///
/// # Errors
/// Returns the error of starting it.
pub fn start_session(arguments: &[OsString], directory: &Path) -> io::Result<Child> {
    own()?
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Starts this very program in a directory, in its own environment and a process group of its own, with what it says
/// on both outputs going to one place. It is killed when the thread ends that starts it. It does not get the
/// variables
/// that `without` names.
///
/// # Errors
/// Returns the error of starting it.
pub fn start_held(
    arguments: &[OsString],
    directory: &Path,
    without: &[&str],
    output: OwnedFd,
) -> io::Result<Child> {
    held(arguments, directory, without)?
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
}

/// Starts this very program in a directory, in its own environment and a process group of its own, to be talked to by
/// its standard input and output. It is killed when the thread ends that starts it. It does not get the
/// variables that
/// `without` names, and gets those of `with`.
///
/// # Errors
/// Returns the error of starting it.
pub fn start_worker(
    arguments: &[OsString],
    directory: &Path,
    without: &[&str],
    with: &[(&str, &str)],
) -> io::Result<Child> {
    let mut command = held(arguments, directory, without)?;
    command.envs(with.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Prepares this very program in a directory, in a process group of its own, to be killed when this thread ends.
fn held(arguments: &[OsString], directory: &Path, without: &[&str]) -> io::Result<Command> {
    let mut command = own()?;
    for name in without {
        command.env_remove(name);
    }
    crate::sys::unblock_signals_of(&mut command);
    crate::sys::end_with_this_thread(&mut command);
    command.args(arguments).current_dir(directory).process_group(0);
    Ok(command)
}

/// Runs this very program in a directory, with all that this process has, its streams included, except the variables
/// that `without` names.
///
/// # Errors
/// Returns the error of starting it.
pub fn run_own(
    arguments: &[OsString],
    directory: &Path,
    without: &[&str],
) -> io::Result<ExitStatus> {
    let mut command = own()?;
    for name in without {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(directory).status()
}

/// Starts this very program with other arguments, without an environment, to be talked to by its
/// streams. Anything it writes apart from its answers is dropped.
///
/// # Errors
/// Returns the error of starting it.
pub fn start_reader(arguments: &[&OsStr]) -> io::Result<Child> {
    command(std::env::current_exe()?)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Starts this very program for a sandbox, in an environment that was built, in a directory that is
/// held open, with pipes for all three streams.
///
/// # Errors
/// Returns the error of starting it.
pub fn start_for_inside(
    arguments: &[OsString],
    env: Vec<(OsString, OsString)>,
    directory: BorrowedFd<'_>,
) -> io::Result<Child> {
    command(std::env::current_exe()?)
        .args(arguments)
        .env_clear()
        .envs(env)
        .current_dir(of_descriptor(directory))
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
/// Returns the error of starting it.
pub fn start_minded(program: &OsStr, name: &OsStr, args: &[OsString]) -> io::Result<Child> {
    let mut command = command(program);
    crate::sys::unblock_signals_of(&mut command);
    crate::sys::end_with_this_thread(&mut command);
    command.arg0(name).args(args).spawn()
}

/// Replaces this program, inside, by another, for which it stands. Returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "inside, and nothing of the host's")]
pub fn become_program(program: &Path, args: &[OsString]) -> io::Error {
    command(program).args(args).exec()
}

/// Runs a program, inside, to its end with this process's environment and directory.
///
/// # Errors
/// Returns the error of starting it; `TimedOut` after a minute; `FileTooLarge` for an output of more than 256 MiB.
pub fn run_here(argv: &[OsString], input: Option<&[u8]>) -> io::Result<CommandOutput> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let child = command(program)
        .args(arguments)
        .stdin(input.map_or_else(|| Ok(Stdio::null()), whole_input)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    to_end(child, BOUNDS, None)
}
