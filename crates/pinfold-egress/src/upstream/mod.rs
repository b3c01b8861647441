//! The way out: names, connections, TLS. Shared by the gateway and the downloads.

mod connect;
mod dns;
mod failure;
mod roots;

pub(crate) use connect::{Connector, Offer};
pub(crate) use dns::Dns;
pub(crate) use failure::Failure;
pub use roots::TrustRoots;
