//! What in a granted directory must look different in the sandbox: found, restricted, masked, refreshed,
//! set aside.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod began;
pub mod built;
pub mod certificates;
pub mod commands;
pub mod directory_hook;
pub mod home_parts;
pub mod masks;
pub mod misleading;
pub mod mounts;
pub mod names_at_start;
pub mod newcomers;
pub mod own;
pub mod patience;
pub mod protect;
pub mod refresh;
pub mod restrict;
pub mod set_aside;
pub mod sockets;
pub mod stand_in;
pub mod survey;
pub mod tracked;
pub mod trusted;
