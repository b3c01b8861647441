//! Container engines by their command lines: Docker, Podman, Apple's `container` and plug-ins.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod image;
pub mod managed;
