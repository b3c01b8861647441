//! The door to the diary that the session's user keeps.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pinfold_boundary::Entry;
use pinfold_host::audit::Audit;
use pinfold_hostexec::{EntriesError, own_program};
use pinfold_mcp::{
    Agent, Call, HostExecTool, InsideProgram, Memory, MemoryDoor, PROGRAM, Placeholder, RunInside,
    TaskTools, Toolset, tools_of,
};
use pinfold_memory::Signer;
use pinfold_personal::identity::PrivateFiles;

use crate::control::{Exec, Session};
use crate::outcome::RunError;
use crate::request::Request;

/// Returns the program in the sandbox that uses the door.
///
/// # Errors
/// Returns an error for an executable of this program that is gone.
pub(crate) fn entry() -> Result<Entry, EntriesError> {
    own_program(PROGRAM)
}

/// Serves the door. Entries are signed by the session's identity, and must not hold the values of `variables`, which stand for secrets.
///
/// # Errors
/// Returns an error for a diary or a key that cannot be used.
pub(crate) fn serve(
    listener: OwnedFd,
    request: &Request,
    session: &str,
    audit: &Arc<Audit>,
    variables: &[Vec<u8>],
) -> Result<Option<MemoryDoor>, RunError> {
    let placeholder = |variable: &Vec<u8>| {
        let text = String::from_utf8_lossy(variable);
        let (name, value) = text.split_once('=')?;
        Some(Placeholder { name: name.to_owned(), value: value.to_owned() })
    };
    let placeholders = variables.iter().filter_map(placeholder).collect();
    // The key is read now, after init was cloned.
    let (private, host_exec) = (request.private.as_ref(), &request.settings.host_exec);
    let moltnet = private.map(PrivateFiles::moltnet).transpose()?;
    let signer = moltnet.as_ref().map(|file| Signer::of_identity(file)).transpose();
    let signer = signer.map_err(|error| RunError::refused(error, None))?.flatten();
    let diary = private.map(PrivateFiles::diary).transpose()?.flatten();
    let agent = Agent { placeholders, signer, diary, moltnet, task: request.task.clone() };
    let tools = tools_of(&request.settings, request.host(), agent).map_err(|error| {
        let hint = error.hint();
        RunError::refused(error, hint)
    })?;
    let door = tools.map(|tools| {
        let mut toolsets: Vec<Arc<dyn Toolset>> = Vec::new();
        if let Some(socket) = request.task.as_ref().and_then(|task| task.socket.clone()) {
            let (places, session) = (request.places.clone(), session.to_owned());
            let find = move || Session::find(&places, &session).map_err(io::Error::other);
            let of_program = find.clone();
            let files = move || find()?.tools().map_err(io::Error::other);
            let of_task = TaskTools::new(socket, Arc::clone(&tools), Arc::clone(audit), files);
            let run = move |program: InsideProgram, call: &Call| run(&of_program()?, program, call);
            let run = host_exec.enabled.value.then(|| Box::new(run) as Box<RunInside>);
            let of_host = HostExecTool::new(run, Arc::clone(&tools), Arc::clone(audit));
            toolsets.extend([Arc::new(of_task) as Arc<dyn Toolset>, Arc::new(of_host)]);
        }
        toolsets.push(Arc::new(Memory::new(tools, Arc::clone(audit))));
        MemoryDoor::serve(listener, toolsets)
    });
    door.transpose().map_err(RunError::System)
}

/// Runs a program in a session to its end, or until the call is taken back.
fn run(session: &Session, program: InsideProgram, call: &Call) -> io::Result<()> {
    let exec = Exec { argv: program.argv, ..Exec::default() };
    let running = Arc::new(session.start(exec, program.streams).map_err(io::Error::other)?);
    let taken_back = Arc::clone(&running);
    call.can_be_taken_back(move || taken_back.kill());
    running.wait().map(drop).map_err(io::Error::other)
}
