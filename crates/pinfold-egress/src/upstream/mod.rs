//! The way out: names, connections, TLS. Shared by the gateway and the downloads.

mod connect;
mod dns;
mod failure;
mod roots;
mod tls;

pub(crate) use connect::{Connector, Offer};
pub(crate) use dns::Dns;
pub(crate) use failure::Failure;
pub use roots::TrustRoots;
pub(crate) use tls::{H2, HTTP1, client_config};
