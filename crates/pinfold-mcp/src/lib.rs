//! The Model Context Protocol (modelcontextprotocol.io): a server of tools on any stream, the tools of a diary, and the
//! door by which a sandbox reaches them.
//!
//! The caller is a model, or a hostile program in a sandbox. So a [`Server`] bounds its messages and the calls at
//! once, and a [`Toolset`] decides what a call may do.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod call;
mod diary;
mod door;
mod host_exec;
mod memory;
mod revision;
mod server;
mod task;
mod toolset;

pub use call::Call;
pub use diary::{Agent, DiaryError, Placeholder, Purpose, limits, served, tools_of};
pub use door::{MemoryDoor, PROGRAM, SOCKET, ask, door, pump};
pub use host_exec::{HostExecTool, InsideProgram, RunInside};
pub use memory::Memory;
pub use server::{Bounds, Server};
pub use task::TaskTools;
pub use toolset::{Asked, Failure, Toolset};
