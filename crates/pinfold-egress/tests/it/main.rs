//! The gateway and the downloads against real servers on loopback.

mod admission;
mod credentials;
mod download;
mod streams;
mod support;
mod upstreams;
