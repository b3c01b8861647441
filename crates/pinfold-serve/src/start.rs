//! Starting sessions that end with the process that started them.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pinfold_client::Fault;
use pinfold_host::launcher::start_session;
use pinfold_host::session_id::SessionId;

/// Bytes that are kept of what a session says.
const SAID: usize = 64 * 1024;

/// A session that was started here. Dropped, it ends, and is waited for.
#[derive(Debug)]
pub struct Started {
    session: String,
    /// What it said at its start.
    notes: Vec<String>,
    child: Child,
    /// Its end is the session's.
    input: Option<ChildStdin>,
}

impl Started {
    /// Returns its own name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns what it said at its start, a line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.input.take());
        // It cleans up before it ends. One that cannot be waited for was never there.
        let _ = self.child.wait();
    }
}

/// Starts a session that waits for what is run in it, with options of `pinfold run`, and waits until
/// it does.
///
/// # Errors
/// Returns the error of `pinfold run`.
pub fn start(directory: &Path, options: &[OsString]) -> Result<Started, Fault> {
    // With --held no option makes it go on after who started it has gone.
    let arguments = [&["run".into(), "--idle".into(), "--held".into()], options].concat();
    let system = |error: io::Error| {
        Fault::refused(format!("cannot start a session in {}: {error}", directory.display()), None)
    };
    let mut child = start_session(&arguments, directory).map_err(system)?;
    let (input, stdout) = (child.stdin.take(), child.stdout.take());
    let stderr = child.stderr.take();
    // From here on it ends, whatever fails.
    let mut started = Started { session: String::new(), notes: Vec::new(), child, input };
    let said = Arc::new(Mutex::new(Vec::new()));
    let of_listener = Arc::clone(&said);
    let listen = move || stderr.map(|stderr| listen(stderr, &of_listener));
    let listener = thread::Builder::new().spawn(listen).map_err(system)?;
    let mut name = String::new();
    if let Some(stdout) = stdout {
        BufReader::new(stdout).read_line(&mut name).map_err(system)?;
    }
    // What else it prints, as for --help, is no session.
    if SessionId::parse(name.trim()).is_none() {
        drop(started.input.take());
        let status = started.child.wait().map_err(system)?;
        // Its panic would have been reported by itself.
        let _ = listener.join();
        return Err(refusal(&lines(&said), status.code()));
    }
    (started.session, started.notes) = (name.trim().to_owned(), lines(&said));
    Ok(started)
}

/// Starts a session that nobody has to hold, and returns its name with what it said.
///
/// # Errors
/// Returns the error of `pinfold run`.
pub(crate) fn detached(
    directory: &Path,
    options: &[OsString],
) -> Result<(String, Vec<String>), Fault> {
    let arguments = [&["run".into(), "--idle".into(), "--detach".into()], options].concat();
    let system = |error: io::Error| {
        Fault::refused(format!("cannot start a session in {}: {error}", directory.display()), None)
    };
    let child = start_session(&arguments, directory).map_err(system)?;
    let output = child.wait_with_output().map_err(system)?;
    let notes = split(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(refusal(&notes, output.status.code()));
    }
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match SessionId::parse(&name) {
        Some(_) => Ok((name, notes)),
        None => Err(refusal(&notes, output.status.code())),
    }
}

/// Keeps the beginning of what a session says, and reads on, so that it never waits for a reader.
fn listen(mut stderr: impl io::Read, said: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    // Whatever read(2) says, then it is over.
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let room = SAID - said.len();
        said.extend_from_slice(&buffer[..count.min(room)]);
    }
}

fn lines(said: &Mutex<Vec<u8>>) -> Vec<String> {
    split(&String::from_utf8_lossy(&said.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn split(said: &str) -> Vec<String> {
    said.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// Returns what `pinfold run` said when it failed, as a fault.
fn refusal(said: &[String], code: Option<i32>) -> Fault {
    let after = |prefix: &str| said.iter().find_map(|line| line.strip_prefix(prefix));
    let message = match after("error: ") {
        Some(error) => error.to_owned(),
        None if code == Some(0) => "these options start no session".to_owned(),
        None if said.is_empty() => format!("the session could not be started ({code:?})"),
        None => said.join("\n"),
    };
    Fault::refused(message, after("hint: "))
}
