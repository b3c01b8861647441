//! `pinfold ssh-config` and `pinfold ssh-proxy`: sessions as hosts of OpenSSH's programs.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_host::launcher::own_program;
use pinfold_host::owned;
use pinfold_session::control::{self, Exec, Running, Session};
use pinfold_ssh::{Command, HostKey, Program, Size, StartProgram, Started, What};
use rustix::pipe::PipeFlags;
use rustix::process::Signal;

use crate::completions;
use crate::exit::Failure;
use crate::print::say;

/// What a session's host name ends in.
const DOMAIN: &str = ".pinfold";
/// Where distributions have OpenSSH's server of SFTP: Debian, Fedora, Arch, SUSE and Alpine.
const SFTP: &str = "for p in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec/ssh; do \
    [ -x $p/sftp-server ] && exec $p/sftp-server; done; \
    echo 'pinfold: this sandbox has no sftp-server (package openssh-sftp-server)' >&2; exit 127";

#[derive(Debug, Args)]
pub(crate) struct SshConfigArgs {
    /// The session, by its name or the beginning of its id; all without it
    #[arg(add = completions::live())]
    session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SshProxyArgs {
    /// The session, by its name or the beginning of its id, with or without .pinfold behind it
    session: String,
}

/// Prints what OpenSSH's configuration needs.
pub(crate) fn config(args: &SshConfigArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    if let Some(session) = &args.session {
        Session::find(&places, session).map_err(Failure::of_session)?;
    }
    let key = host_key(&places).map_err(Failure::new)?;
    let known = directory(&places).join("known_hosts");
    let line = format!("*{DOMAIN} {}\n", key.known_as());
    Places::write_private(&known, line.as_bytes()).map_err(Failure::new)?;
    let program = own_program().map_err(Failure::new)?;
    let (program, known) = (quoted(&program)?, quoted(&known)?);
    let session = args.session.as_deref().unwrap_or("*");
    // A shell reads the command, and OpenSSH before 9.6 takes any name, which may come from a URL in a `.gitmodules`
    // (CVE-2023-51385). The name is in single quotes, so one that has such a quote is for no session.
    say!("Host {session}{DOMAIN} \"!*'*\"");
    say!("    ProxyCommand {program} ssh-proxy '%n'");
    say!("    UserKnownHostsFile {known}");
    say!("    StrictHostKeyChecking yes");
    say!("    ClearAllForwardings yes");
    say!("    ForwardAgent no");
    say!("    ForwardX11 no");
    Ok(ExitCode::SUCCESS)
}

/// Returns a path as a word of OpenSSH's configuration, which shells read in the same way.
///
/// # Errors
/// Returns an error for a path that one of them would read otherwise.
fn quoted(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(['"', '\\', '$', '`', '%', '\n']));
    let text = text.ok_or_else(|| Failure::new(format!("{}: no path for ssh", path.display())))?;
    Ok(if text.contains(' ') { format!("\"{text}\"") } else { text.to_owned() })
}

fn directory(places: &Places) -> PathBuf {
    places.state.join("ssh")
}

/// Returns the host key of this user's sessions, and makes it the first time.
///
/// # Errors
/// Returns an error for a key that others could have written, or the file system's error.
fn host_key(places: &Places) -> io::Result<HostKey> {
    let directory = directory(places);
    let path = directory.join("host_key");
    if let Some(document) = owned::read(&path)? {
        return HostKey::read(&document).map_err(io::Error::other);
    }
    Places::make_private(&directory)?;
    let document = HostKey::generate().map_err(io::Error::other)?;
    // Of two processes the second one gets the key of the first.
    let new = directory.join(format!("host_key.{}", std::process::id()));
    Places::write_private(&new, &document)?;
    let linked = std::fs::hard_link(&new, &path);
    std::fs::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => {
            let document = owned::read(&path)?.unwrap_or_default();
            HostKey::read(&document).map_err(io::Error::other)
        }
    }
}

/// Serves an SSH client on standard input and output.
pub(crate) fn proxy(args: &SshProxyArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    let name = args.session.strip_suffix(DOMAIN).unwrap_or(&args.session);
    let session = Session::find(&places, name).map_err(Failure::of_session)?;
    let key = host_key(&places).map_err(Failure::new)?;
    pinfold_ssh::serve(io::stdin().lock(), io::stdout(), &key, &Inside(session))
        .map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts programs in a session.
struct Inside(Session);

impl StartProgram for Inside {
    fn start(&self, command: Command) -> io::Result<Started> {
        let shell = |line: Vec<u8>| vec!["/bin/sh".into(), "-c".into(), OsString::from_vec(line)];
        let argv = match command.what {
            What::Shell => Vec::new(),
            What::Command(line) => shell(line),
            What::Sftp => shell(SFTP.as_bytes().to_vec()),
        };
        // As a server of SSH does it: what may not be set is left out.
        let variables = command.env.into_iter().filter_map(|(name, value)| {
            let (name, value) = (String::from_utf8(name).ok()?, String::from_utf8(value).ok()?);
            control::variable(&name, &value).ok()
        });
        let exec = Exec { argv, env: variables.collect(), ..Exec::default() };
        match command.terminal {
            Some(size) => self.start_in_terminal(exec, size),
            None => self.start_with_pipes(exec),
        }
    }
}

impl Inside {
    fn start_with_pipes(&self, exec: Exec) -> io::Result<Started> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let ((theirs, input), (output, out), (errors, err)) = (pipe()?, pipe()?, pipe()?);
        let running = self.0.start(exec, [theirs, out, err]).map_err(io::Error::other)?;
        let program = Arc::new(Inner(running));
        Ok(Started { input, output, errors: Some(errors), program })
    }

    fn start_in_terminal(&self, exec: Exec, size: Size) -> io::Result<Started> {
        let window = (size.rows, size.columns);
        let running = self.0.start_in_terminal(exec, window).map_err(io::Error::other)?;
        while running.terminal().is_none() {
            if running.hear().map_err(io::Error::other)?.is_some() {
                return Err(io::Error::other("it ended before it had a terminal"));
            }
        }
        let terminal = running.terminal().ok_or(io::ErrorKind::NotFound)?;
        // A thread that waits in write(2) for room is not always woken when the sandbox has gone.
        rustix::io::ioctl_fionbio(terminal, true)?;
        let copy = |fd: std::os::fd::BorrowedFd<'_>| -> io::Result<OwnedFd> {
            Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
        };
        let (input, output) = (copy(terminal)?, copy(terminal)?);
        Ok(Started { input, output, errors: None, program: Arc::new(Inner(running)) })
    }
}

/// A program in a session.
struct Inner(Running);

impl Program for Inner {
    fn wait(&self) -> u32 {
        /// What OpenSSH returns for its own failures.
        const FAILED: u32 = 255;
        self.0.wait().map_or(FAILED, |end| end.status.into())
    }

    fn resize(&self, size: Size) {
        // One that has ended has no terminal any more.
        let _ = self.0.resize((size.rows, size.columns));
    }

    fn signal(&self, name: &str) {
        let signal = match name {
            "ABRT" => Signal::ABORT,
            "ALRM" => Signal::ALARM,
            "FPE" => Signal::FPE,
            "HUP" => Signal::HUP,
            "ILL" => Signal::ILL,
            "INT" => Signal::INT,
            "KILL" => Signal::KILL,
            "PIPE" => Signal::PIPE,
            "QUIT" => Signal::QUIT,
            "SEGV" => Signal::SEGV,
            "TERM" => Signal::TERM,
            "USR1" => Signal::USR1,
            "USR2" => Signal::USR2,
            _ => return,
        };
        self.0.signal(signal.as_raw());
    }

    fn kill(&self) {
        self.0.signal(Signal::HUP.as_raw());
        self.0.kill();
    }
}
