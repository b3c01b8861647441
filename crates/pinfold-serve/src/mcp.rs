//! The Model Context Protocol (modelcontextprotocol.io) on standard streams: the tools of a session
//! for any agent.
//!
//! The caller is a model, and does what it has read somewhere. So everything that decides about the
//! session was said by the user who started this server: a model chooses neither directories nor
//! options, and reaches no session but those of this server.

mod call;
mod definitions;
mod sessions;
mod text;

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use pinfold_client::LONGEST;
use pinfold_host::audit::Audit;
use pinfold_host::session_id::SessionId;
use pinfold_mcp::{Bounds, Memory, Server, Toolset};
use pinfold_memory::DiaryTools;

use sessions::Sessions;

/// The client is this user's own.
const BOUNDS: Bounds = Bounds { at_once: 64, longest: LONGEST };

const INSTRUCTIONS: &str = "These tools read, change and search files, and run commands, in a sandbox \
    around the workspace. Paths are those of the workspace on the host; what lies outside of it does not \
    exist for them.";

/// Serves the Model Context Protocol.
pub struct Mcp {
    directory: PathBuf,
    options: Vec<OsString>,
    memory: Option<Arc<dyn DiaryTools>>,
}

impl Mcp {
    /// Serves tools of sessions that work in this directory, with these options of `pinfold run`, and those of a diary.
    #[must_use]
    pub fn new(
        directory: PathBuf,
        options: Vec<OsString>,
        memory: Option<Arc<dyn DiaryTools>>,
    ) -> Self {
        Self { directory, options, memory }
    }

    /// Answers one client until it says nothing more. Then its sessions end.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn serve(
        self,
        places: pinfold_host::directories::Places,
        mut from: impl BufRead,
        to: impl Write + Send + 'static,
    ) -> io::Result<()> {
        let mut toolsets: Vec<Arc<dyn Toolset>> = Vec::new();
        if let Some(tools) = self.memory {
            // What calls of one server may fill of the log is bounded as for a session.
            let audit = Audit::open(&places.state, Some(SessionId::generate()?))?;
            toolsets.push(Arc::new(Memory::new(tools, Arc::new(audit))));
        }
        let sessions = Arc::new(Sessions::new(places, self.directory, self.options));
        toolsets.insert(0, Arc::clone(&sessions) as _);
        let read = Server::new(toolsets, BOUNDS, INSTRUCTIONS, to).serve(&mut from);
        sessions.end_all();
        read
    }
}
