//! Sessions in machines of their own (`--boundary vm`). They need QEMU and a kernel, and skip without.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod accelerator;
mod kernel;
mod nested;
mod session;
