//! Becoming the command: everything between fork and exec.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use pinfold_wire::{FURTHER, Program, Step};
use rustix::io::Errno;

use crate::Failure;
use crate::stdio::{Streams, Terminal};
use crate::surroundings::Surroundings;

/// What to run.
#[derive(Debug)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Signals that it ignores from the beginning: bit n - 1 for signal n.
    pub ignored: u64,
}

/// The command in the form that execve(2) wants, made before the fork.
pub(crate) struct Prepared {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    ignored: u64,
    around: Arc<Surroundings>,
}

impl From<Program> for Command {
    fn from(program: Program) -> Self {
        Self {
            argv: program.argv.into_iter().map(OsString::from_vec).collect(),
            env: program.env.iter().map(|variable| pair(variable)).collect(),
            cwd: OsString::from_vec(program.cwd).into(),
            ignored: program.ignored,
        }
    }
}

/// Splits a variable into name and value.
fn pair(variable: &[u8]) -> (OsString, OsString) {
    let (name, value) = match variable.iter().position(|byte| *byte == b'=') {
        Some(at) => (&variable[..at], &variable[at + 1..]),
        None => (variable, &b""[..]),
    };
    (OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec()))
}

impl Command {
    /// Sets variables (`NAME=VALUE`), each in place of one of the same name.
    pub(crate) fn set(&mut self, variables: &[Vec<u8>]) {
        for variable in variables {
            let (name, value) = pair(variable);
            self.env.retain(|(other, _)| *other != name);
            self.env.push((name, value));
        }
    }

    /// Looks the program up along `PATH` of its own environment and converts every string.
    ///
    /// # Errors
    /// Returns `EINVAL` for a NUL byte, `ENOENT` for an empty command.
    pub(crate) fn prepare(self, around: &Arc<Surroundings>) -> Result<Prepared, Failure> {
        let bad = Failure::about(Step::Execute, b"a NUL byte in the command or its environment");
        self.placed(around).convert(around).map_err(bad)
    }

    /// Returns the same; none if there is nothing to run.
    ///
    /// # Errors
    /// Returns the errors of [`Self::prepare`].
    pub(crate) fn prepare_any(
        self,
        around: &Arc<Surroundings>,
    ) -> Result<Option<Prepared>, Failure> {
        if self.argv.is_empty() { Ok(None) } else { self.prepare(around).map(Some) }
    }

    /// Returns it with its paths as they lie.
    fn placed(self, around: &Surroundings) -> Self {
        let Self { argv, env, cwd, ignored } = self;
        let argument = |word: OsString| around.place(word.as_ref()).into_os_string();
        Self {
            argv: argv.into_iter().map(argument).collect(),
            env: env.into_iter().map(|(name, value)| (name, around.word(&value))).collect(),
            cwd: around.place(&cwd),
            ignored,
        }
    }

    fn convert(self, around: &Arc<Surroundings>) -> Result<Prepared, Errno> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::INVAL);
        let program = self.argv.first().ok_or(Errno::NOENT)?.as_bytes();
        let candidates = if program.contains(&b'/') {
            vec![text(program)?]
        } else {
            let path = self
                .env
                .iter()
                .find(|(name, _)| name == "PATH")
                .map_or(&b""[..], |(_, value)| value.as_bytes());
            path.split(|byte| *byte == b':')
                .filter(|directory| directory.first() == Some(&b'/'))
                .map(|directory| text(&[directory, b"/", program].concat()))
                .collect::<Result<_, _>>()?
        };
        let argv = self.argv.iter().map(|word| text(word.as_bytes())).collect::<Result<_, _>>()?;
        let pair = |(name, value): &(OsString, OsString)| {
            text(&[name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let env = self.env.iter().map(pair).collect::<Result<_, _>>()?;
        let cwd = text(self.cwd.as_os_str().as_bytes())?;
        let (ignored, around) = (self.ignored, Arc::clone(around));
        Ok(Prepared { candidates, argv, env, cwd, ignored, around })
    }
}

impl Prepared {
    /// Adds variables (`NAME=VALUE`), each in place of one of the same name.
    ///
    /// # Errors
    /// Returns `EINVAL` for a NUL byte.
    pub(crate) fn add_variables(&mut self, variables: Vec<Vec<u8>>) -> Result<(), Failure> {
        let name =
            |variable: &[u8]| variable.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        for variable in variables {
            self.env.retain(|other| name(other.as_bytes()) != name(&variable));
            let bad = Failure::about(Step::Execute, b"a NUL byte in a variable");
            let (name, value) = pair(&variable);
            let placed = [name.as_bytes(), b"=", self.around.word(&value).as_bytes()].concat();
            self.env.push(CString::new(placed).map_err(|_| bad(Errno::INVAL))?);
        }
        Ok(())
    }

    /// Returns the wall that this process has to hold until it becomes the command.
    pub(crate) fn wall(&self) -> Option<BorrowedFd<'_>> {
        self.around.wall.as_ref().map(|wall| wall.as_fd())
    }

    /// Turns this process into the command; comes back only with the reason why not.
    pub(crate) fn become_command(&self, streams: &Streams, terminal: Option<&Terminal>) -> Failure {
        if let Err(failure) = self.take_streams(streams, terminal) {
            return failure;
        }
        if let Err(errno) = rustix::process::chdir(&self.cwd) {
            return Failure::about(Step::Directory, self.cwd.as_bytes())(errno);
        }
        if let Err(errno) = self.around.enter() {
            return Failure::at(Step::Landlock)(errno);
        }
        reset_signals(self.ignored);
        self.execute()
    }

    /// Enters an own process group (in the foreground of the terminal, if there is one), and streams
    /// 0, 1 and 2, and what comes besides. Sources lie above 2, so no copy overwrites one that is still needed.
    fn take_streams(&self, streams: &Streams, terminal: Option<&Terminal>) -> Result<(), Failure> {
        rustix::process::setpgid(None, None).map_err(Failure::at(Step::Execute))?;
        if let Some(terminal) = terminal {
            // SIGTTOU is blocked here, as every signal is.
            rustix::termios::tcsetpgrp(&terminal.user, rustix::process::getpid())
                .map_err(Failure::at(Step::Terminal))?;
        }
        for index in 0..3 {
            let source = streams.descriptor(index, terminal).map_err(Failure::at(Step::Execute))?;
            // SAFETY: dup2 replaces one of the three standard descriptors, which no value in
            // this process owns; exec follows.
            if unsafe { libc::dup2(source.as_raw_fd(), index as i32) } < 0 {
                return Err(Failure::at(Step::Execute)(last_errno()));
            }
        }
        if let Some(source) = streams.further() {
            // SAFETY: dup2 replaces a number above all that this process has open; exec follows.
            if unsafe { libc::dup2(source.as_raw_fd(), FURTHER) } < 0 {
                return Err(Failure::at(Step::Execute)(last_errno()));
            }
        }
        Ok(())
    }

    /// Tries each candidate as execvp(3) does: one that is there but not executable decides
    /// the error, and a file without a known format is a shell script.
    fn execute(&self) -> Failure {
        let mut error = Errno::NOENT;
        for candidate in &self.candidates {
            match exec(candidate, &self.argv, &self.env) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::NOEXEC => {
                    let mut argv = vec![c"sh".to_owned(), candidate.clone()];
                    argv.extend(self.argv.iter().skip(1).cloned());
                    error = exec(c"/bin/sh", &argv, &self.env);
                    break;
                }
                errno => error = errno,
            }
        }
        let name = self.argv.first().map_or(&b""[..], |name| name.as_bytes());
        Failure::about(Step::Execute, name)(error)
    }
}

fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}

#[expect(clippy::disallowed_methods, reason = "init starts what runs inside")]
fn exec(path: &std::ffi::CStr, argv: &[CString], env: &[CString]) -> Errno {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: path and both null-ended lists point to NUL-ended strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    last_errno()
}

/// Sets every signal to its default, except those that are to be ignored, and none blocked: exec(2) would
/// carry an ignored SIGPIPE (which the Rust runtime sets) and init's blocked set into the command.
fn reset_signals(ignored: u64) {
    // SAFETY: both dispositions are valid for every signal; the kernel refuses the two that
    // cannot be changed, which is right. The empty set is initialised before it is used.
    unsafe {
        for signal in 1..=64 {
            let is_ignored = ignored >> (signal - 1) & 1 == 1;
            libc::signal(signal, if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
