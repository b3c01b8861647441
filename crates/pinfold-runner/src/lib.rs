//! The program that root runs for users of the boundary `systemd`.
//!
//! [`listen::listen`] starts it once more for each connection, and [`serve::serve`] is the whole of a request, top to bottom.

pub mod accounts;
pub mod caller;
pub mod grant;
pub mod installed;
pub mod listen;
mod mounts;
pub mod policy;
mod refusal;
pub mod request;
pub mod serve;
mod state;
pub mod unit;

pub use refusal::Refusal;
