//! The program that root runs for users of the boundary `systemd`.
//!
//! [`serve::serve`] is the whole of it, top to bottom.

pub mod accounts;
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
