//! The program that root runs for users of the boundary `systemd`, and what its callers need to talk to it.
//!
//! [`serve::serve`] is the whole of it, top to bottom.

pub mod accounts;
mod asking;
pub mod caller;
pub mod grant;
pub mod installed;
mod mounts;
pub mod policy;
mod refusal;
pub mod request;
pub mod serve;
mod state;
mod turn;
pub mod unit;

pub use refusal::Refusal;
