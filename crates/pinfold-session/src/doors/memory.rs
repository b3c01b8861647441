//! The door to the diary that the session's user keeps.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pinfold_boundary::{Door, Entry};
use pinfold_host::audit::Audit;
use pinfold_hostexec::{EntriesError, own_program};
use pinfold_mcp::{Agent, Memory, MemoryDoor, PROGRAM, Placeholder, TaskTools, Toolset, tools_of};
use pinfold_memory::Signer;
use pinfold_personal::identity::PrivateFiles;
use pinfold_policy::settings::Settings;

use crate::control::Session;
use crate::outcome::RunError;
use crate::request::Request;

/// Returns the door, where the settings let the sandbox use a diary.
pub(crate) fn door(settings: &Settings) -> Option<Door> {
    pinfold_mcp::door(settings.scalars.memory.value)
}

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
    let moltnet = request.private.as_ref().map(PrivateFiles::moltnet).transpose()?;
    let signer = moltnet.as_ref().map(|file| Signer::of_identity(file)).transpose();
    let signer = signer.map_err(|error| RunError::refused(error, None))?.flatten();
    let diary = request.private.as_ref().map(PrivateFiles::diary).transpose()?.flatten();
    let agent = Agent { placeholders, signer, diary, moltnet, task: request.task.clone() };
    let tools = tools_of(&request.settings, request.host(), agent).map_err(|error| {
        let hint = error.hint();
        RunError::refused(error, hint)
    })?;
    let door = tools.map(|tools| {
        let mut toolsets: Vec<Arc<dyn Toolset>> = Vec::new();
        if let Some(socket) = request.task.as_ref().and_then(|task| task.socket.clone()) {
            let (places, session) = (request.places.clone(), session.to_owned());
            let files = move || {
                let session = Session::find(&places, &session).map_err(io::Error::other)?;
                session.tools().map_err(io::Error::other)
            };
            let tools = TaskTools::new(socket, Arc::clone(&tools), Arc::clone(audit), files);
            toolsets.push(Arc::new(tools));
        }
        toolsets.push(Arc::new(Memory::new(tools, Arc::clone(audit))));
        MemoryDoor::serve(listener, toolsets)
    });
    door.transpose().map_err(RunError::System)
}
