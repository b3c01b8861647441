//! The tool by which an agent asks for commands on the host: MoltNet's name, parameters and result.
//!
//! It runs the sandbox's own program for that (`pinfold-host`), so the door for commands on the host decides, asks and
//! records as for any other request, and git in the sandbox learns what was fetched or pushed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use pinfold_client::Fault;
use pinfold_host::audit::Audit;
use pinfold_host::io::small_thread;
use pinfold_hostexec::{HostExecResult, PROGRAM};
use pinfold_memory::DiaryTools;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Call;
use crate::memory::record;
use crate::toolset::{Asked, Failure, Toolset, text_result};

const NAME: &str = "moltnet_host_exec";
/// Bytes of a result: what a model reads is far less, and the sandbox writes them.
const LONGEST: u64 = 16 << 20;

/// A program to run in the sandbox.
#[derive(Debug)]
pub struct InsideProgram {
    pub argv: Vec<OsString>,
    /// Its input, output and error output.
    pub streams: [OwnedFd; 3],
}

/// What runs a program in the sandbox to its end. It ends the program when the call is taken back.
pub type RunInside = dyn Fn(InsideProgram, &Call) -> io::Result<()> + Send + Sync;

/// The tool.
pub struct HostExecTool {
    /// None if the session may not ask for commands on the host.
    run: Option<Box<RunInside>>,
    /// Its calls are recorded with the diary's.
    diary: Arc<dyn DiaryTools>,
    audit: Arc<Audit>,
}

#[derive(Deserialize)]
struct Arguments {
    executable: String,
    args: Vec<String>,
    cwd: Option<String>,
}

impl HostExecTool {
    /// Offers the tool, and records its calls in this log. `run` runs a program in the sandbox; it is missing where the
    /// session may not ask for commands on the host, and each call is refused then.
    #[must_use]
    pub fn new(run: Option<Box<RunInside>>, diary: Arc<dyn DiaryTools>, audit: Arc<Audit>) -> Self {
        Self { run, diary, audit }
    }

    fn text(&self, arguments: Value, call: &Call) -> Result<String, String> {
        let Arguments { executable, args, cwd } = serde_json::from_value(arguments)
            .map_err(|error| format!("Validation Failed: {error}"))?;
        record(&self.audit, &*self.diary, NAME)?;
        let run = self
            .run
            .as_ref()
            .ok_or("commands on the host are off in this session (--host-exec)")?;
        let directory = cwd.map(|cwd| ["--directory".to_owned(), cwd]);
        let words = [PROGRAM, "--json"].map(str::to_owned).into_iter();
        let words = words.chain(directory.into_iter().flatten());
        let words = words.chain(["--".to_owned(), executable]).chain(args);
        let argv = words.map(OsString::from).collect();
        let result = result_of(run, argv, call)?;
        match &result.refused {
            Some(why) => Err(why.clone()),
            None => serde_json::to_string(&result).map_err(|error| error.to_string()),
        }
    }
}

/// Runs the program in the sandbox that asks the host, and returns the result that it prints.
///
/// # Errors
/// Returns what a program says that has no result, or why it cannot be run.
fn result_of(run: &RunInside, argv: Vec<OsString>, call: &Call) -> Result<HostExecResult, String> {
    let unavailable = |error: io::Error| format!("the host cannot be asked: {error}");
    let [stdout, stderr] = output(run, argv, call).map_err(unavailable)?;
    serde_json::from_slice(&stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        if said.is_empty() { unavailable(io::Error::other("it gave no result")) } else { said }
    })
}

/// Runs a program in the sandbox, and returns what it writes to its outputs until it ends. What it leaves running may keep
/// them open.
///
/// # Errors
/// Returns an error for a program that cannot be run, or writes too much.
fn output(run: &RunInside, argv: Vec<OsString>, call: &Call) -> io::Result<[Vec<u8>; 2]> {
    let (from, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (said, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let stdin = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (ended, running) = pipe_with(PipeFlags::CLOEXEC)?;
    let readers = [reader(from, ended.try_clone()?)?, reader(said, ended)?];
    let ran = run(InsideProgram { argv, streams: [stdin, stdout, stderr] }, call);
    drop(running);
    ran?;
    let [stdout, stderr] = readers.map(joined);
    let outputs = [stdout?, stderr?];
    if outputs.iter().any(|output| output.len() as u64 > LONGEST) {
        return Err(io::Error::other(format!("the result has more than {} MiB", LONGEST >> 20)));
    }
    Ok(outputs)
}

/// Reads a pipe to its end, to what is in it when the other end of `ended` is closed, or a little more than a result may have.
///
/// # Errors
/// Returns an error if no thread can be started.
fn reader(pipe: OwnedFd, ended: OwnedFd) -> io::Result<JoinHandle<io::Result<Vec<u8>>>> {
    small_thread("host-exec", move || {
        let (mut pipe, mut content, mut part) = (File::from(pipe), Vec::new(), [0; 16 << 10]);
        while content.len() as u64 <= LONGEST {
            let wanted = [pipe.as_fd(), ended.as_fd()];
            let mut wanted = wanted.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
            rustix::io::retry_on_intr(|| poll(&mut wanted, None))?;
            // The pipe comes first: what the program wrote before its end is in it.
            let is_ready = !wanted[0].revents().is_empty();
            match if is_ready { pipe.read(&mut part)? } else { 0 } {
                0 => break,
                count => content.extend_from_slice(&part[..count]),
            }
        }
        Ok(content)
    })
}

fn joined(reader: JoinHandle<io::Result<Vec<u8>>>) -> io::Result<Vec<u8>> {
    reader.join().map_err(|_| io::Error::other("reading its output failed"))?
}

impl std::fmt::Debug for HostExecTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_allowed = &self.run.is_some();
        f.debug_struct("HostExecTool").field("is_allowed", is_allowed).finish_non_exhaustive()
    }
}

impl Toolset for HostExecTool {
    fn definitions(&self) -> Vec<Value> {
        vec![json!({
            "name": NAME,
            "description": "Run git (push, fetch, ls-remote), gh, moltnet or a configured command on the user's machine, \
                with the user's login. The user is asked unless a rule allows it. No shell: arguments are passed as they are.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "executable": { "type": "string", "description": "git, gh, moltnet or a configured name" },
                    "args": { "type": "array", "items": { "type": "string" }, "description": "The arguments, one by one" },
                    "cwd": { "type": "string", "description": "The directory, in the workspace" },
                },
                "required": ["executable", "args"],
            },
        })]
    }

    fn has(&self, name: &str) -> bool {
        name == NAME
    }

    fn call(&self, asked: Asked<'_>) -> Result<Value, Fault> {
        let arguments = if asked.arguments.is_null() { json!({}) } else { asked.arguments };
        Ok(text_result(self.text(arguments, asked.call)))
    }

    // The diary's tools list failures of all tools.
    fn note(&self, _: &Failure<'_>) {}
}

#[cfg(test)]
mod tests;
