//! Outgoing connections: names, sockets, TLS. Shared by the gateway and the downloads.

mod again;
mod connect;
mod dns;
mod environment;
mod failure;
mod proxy;
mod roots;
mod tls;

pub(crate) use again::{copy_of, is_silence};
pub use connect::{Connector, Offer};
pub(crate) use dns::Dns;
pub use dns::addresses_of;
pub use environment::UnusableProxy;
pub use failure::Failure;
pub(crate) use proxy::WANTS_PASSWORD;
pub use proxy::{InvalidProxy, Proxies, UpstreamProxy, WayOut};
pub use roots::TrustRoots;
pub(crate) use tls::{H2, HTTP1, client_config};
