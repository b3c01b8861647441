//! The servers of pinfold: the local API (`pinfold serve`) and the Model Context Protocol
//! (`pinfold mcp`). Both start sessions as processes of their own, which end with them, and do in
//! sessions what [`pinfold_session::control`] does.

mod api;
mod exec;
mod mcp;
mod start;

pub use api::{Api, listen};
pub use mcp::Mcp;
pub use start::{Started, start};

use std::io::{self, BufRead, BufReader};

use pinfold_tools::Incoming;

/// Returns what comes on standard input, which may be the socket on which is answered.
pub fn input() -> impl BufRead {
    BufReader::new(Incoming(io::stdin()))
}
