//! The LLM gateway: an HTTP server for the sandbox, a client with real credentials outside.

mod admit;
mod answer;
mod body;
mod budget;
mod charge;
mod cloud;
mod config;
mod credential;
mod event_stream;
mod form;
mod forward;
#[cfg(fuzzing)]
pub mod fuzzing;
mod headers;
mod journal;
mod json;
mod judge;
mod key;
mod live;
mod login;
mod meter;
mod model;
mod outgoing;
mod path;
mod pool;
mod refusal;
mod rejected;
mod request;
mod serve;
mod sigv4;
mod stop;
mod token;
mod tunnel;
mod usage;

pub use budget::{Budget, Over};
pub use cloud::CloudPlace;
pub use config::is_loopback;
pub use config::{
    AccountHeader, Api, ConfigError, Credential, CredentialKind, GatewayConfig, ProviderId, Route,
    Upstream,
};
pub(crate) use headers::{strip_hop_by_hop, strip_overrides};
pub(crate) use journal::shortened;
pub use journal::{Event, Journal};
pub use key::{EphemeralKey, KeyShape};
pub use live::{Current, Lack, LiveCredential, Renewed, Times};
pub use login::Renewal;
pub use serve::Gateway;
pub use stop::{Stop, StopHandle, stop_channel};
pub use token::{BodyForm, LoginTerms};
pub(crate) use tunnel::wanted as is_websocket;
