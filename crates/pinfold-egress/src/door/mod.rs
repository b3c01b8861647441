//! The network door: every connection of the sandbox, by the name it was asked for.
//!
//! Programs inside connect as they always do. Names are answered here with synthetic addresses,
//! connections come to a listener of the sandbox's own that is served here, and so each is known by
//! its name; what the policy allows is opened from here, and nothing else is.

mod ask;
mod carry;
mod dial;
mod dns;
mod explain;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http;
mod intercept;
mod join;
mod line;
mod loopback;
mod message;
mod mint;
mod names;
mod outward;
mod own_addresses;
mod patterns;
mod peek;
mod place;
mod placeholder;
mod policy_handle;
mod refusal;
mod scrub;
mod sender;
mod serve;
mod shared;

mod spelling;
mod stores;
mod vault;

pub use ask::{DoorAnswer, Doorkeeper, smallest_rule};
pub(crate) use join::join;
pub use mint::{NoAuthority, SessionAuthority};
pub use placeholder::placeholder_like;
pub use policy_handle::PolicyHandle;
pub use serve::{DoorConfig, DoorSockets, NetworkDoor};
pub use stores::TrustStores;
pub use vault::{LiveSecret, PlacedSecret};
