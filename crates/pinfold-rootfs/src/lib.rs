//! What lies in a sandbox's root apart from the workspace, and scratch sandboxes that unpack or read
//! it.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod chromium;
pub mod etc_files;
pub mod extra;
pub mod failing_tools;
pub mod interpreter;
pub mod linked;
pub mod node_tools;
pub mod own;
pub mod podman;
pub mod scratch;
pub mod search_path;
pub mod system;
pub mod toolchains;
pub mod unpack;
pub mod userland;
