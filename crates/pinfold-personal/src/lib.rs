//! What of the user's own a session gets: the identity that it commits and signs as, the user's own setup of
//! the agent, as checked copies, and the certificate authorities that the caller trusts.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use pinfold_host::Refusal;

pub mod caller_trust;
pub mod identity;
mod my_config;
mod synced;

pub use my_config::{MountPoint, MyConfig};
pub use synced::configuration;

fn refusal(what: impl ToString, hint: Option<String>) -> Refusal {
    Refusal::new(what).with_hint(hint)
}
