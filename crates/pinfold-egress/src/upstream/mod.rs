//! The way out: names, connections, TLS. Shared by the gateway and the downloads.

mod again;
mod connect;
mod dns;
mod failure;
mod roots;
mod tls;

pub(crate) use again::{copy_of, is_silence};
pub(crate) use connect::{Connector, Offer};
pub(crate) use dns::Dns;
pub(crate) use failure::Failure;
pub use roots::TrustRoots;
pub(crate) use tls::{H2, HTTP1, client_config};
