//! The network door: the gateway that puts real credentials in, outside.
//!
//! [`NetworkDoor`] is where the sandbox's connections go out, by the name that was asked for.
//! [`Gateway`] stands between an agent, which holds only an [`EphemeralKey`], and the model
//! providers of its session. [`SshDoor`] signs commits and logins with a key that is never inside.
//! [`Downloader`] fetches files whose content is known beforehand. Other clients
//! connect by a [`Connector`]. The README says what is enforced
//! and what is not.

mod door;
mod download;
mod gateway;
mod held;
pub mod percent;
mod publish;
mod serve;
mod ssh;
mod upstream;

/// What the fuzz targets call.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::door::fuzzing::*;
    pub use crate::gateway::fuzzing::*;
}
pub use door::{
    DoorAnswer, DoorConfig, DoorSockets, Doorkeeper, LiveSecret, NetworkDoor, NoAuthority,
    PlacedSecret, PolicyHandle, SessionAuthority, TrustStores, placeholder_like, smallest_rule,
};
pub use download::{
    Answer, Download, DownloadError, Downloader, Integrity, InvalidIntegrity, Progress,
};
pub use gateway::{
    AccountHeader, Api, BodyForm, Budget, CloudPlace, ConfigError, Credential, CredentialKind,
    Current, EphemeralKey, Event, Gateway, GatewayConfig, Journal, KeyShape, Lack, LiveCredential,
    LoginTerms, Over, ProviderId, Renewal, Renewed, Route, Stop, StopHandle, Times, Upstream,
    is_loopback, stop_channel,
};
pub use http::HeaderName;
pub use publish::{Published, SocketStock, SocketSupply, socket_supply};
pub use serve::{Egress, Publishing};
#[cfg(fuzzing)]
pub use ssh::read_agent_message;
pub use ssh::{
    InvalidSshKey, SshConfig, SshDoor, SshHost, SshKeyError, SshPrivateKey, SshPublicKey,
    SshSigner, host_keys, host_label,
};
pub use upstream::{
    Connector, Failure, InvalidProxy, Offer, Proxies, TrustRoots, UnusableProxy, UpstreamProxy,
    WayOut, addresses_of,
};
