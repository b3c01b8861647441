//! Which hosts may be reached: names decide, not addresses.
//!
//! A rule names a host (or an address), ports and a protocol; for hosts whose TLS pinfold ends it
//! may also name methods and paths. Nothing is reached that no rule names, and no name leads to an
//! address of the host's own networks unless a rule says that it may.

mod address;
mod authority;
mod github;
mod host;
mod pattern;
mod policy;
mod preset;
mod rule;
mod secret;
mod strangers;
mod this_machine;

pub use address::AddressClass;
pub use authority::{Endpoint, InvalidEndpoint};
pub use github::{Brokered, Repository};
pub use host::{Host, HostName, InvalidHost};
pub use pattern::{HostPattern, InvalidPattern};
pub use policy::{Hint, NetworkPolicy, Refused};
pub use preset::{Preset, UnknownPreset};
pub use rule::{InvalidRule, NetworkRule, PathPattern, Ports, Protocol};

pub use secret::{InvalidSpot, SecretRule, Spots};

#[cfg(test)]
mod tests;
