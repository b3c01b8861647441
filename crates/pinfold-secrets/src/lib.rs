//! Where secrets come from and how they are kept.
//!
//! A [`Store`] answers three questions about a [`SecretId`]: is there one ([`Store::check`],
//! which never touches the value), what is it ([`Store::resolve`]), and where should it be
//! kept ([`Store::set`]). The README says what this protects against and what it does not.

mod env;
mod error;
mod fallback;
mod foreign;
mod id;
mod keyring;
mod login;
mod private_dir;
mod record;
mod report;
mod run_command;
mod secret;
mod store;

pub use env::{EnvName, InvalidEnvName, env_is_set};
pub use error::Error;
pub use fallback::{EnvFallback, FALLBACKS, fallbacks_for};
pub use foreign::{Client, Foreign, ForeignError, read_foreign};
pub use id::{InvalidSecretId, SecretId};
pub use login::{Login, LoginLock};
pub use record::AuthMode;
pub use report::{Found, Looked, Place, Report};
pub use run_command::{CommandOutput, RunCommand};
pub use secret::{InvalidSecret, Secret};
pub use store::{Entry, Resolved, Store, default_dir};
