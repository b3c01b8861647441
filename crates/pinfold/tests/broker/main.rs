//! The host's commands and SSH keys, as the sandbox uses them through the broker and the SSH agent.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod broker;
mod ssh;
