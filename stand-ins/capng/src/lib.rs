//! What the crate `virtiofsd` asks of the crate `capng`, for a process that has no capability and gains none.

use std::fmt;

/// The number of a capability.
pub type Capability = u32;
/// What a change of capabilities comes to.
pub type Result<T> = std::result::Result<T, Error>;

/// A change was asked for.
#[derive(Debug)]
pub struct Error;

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("this process has no capabilities and changes none")
    }
}

/// Which sets are changed.
pub enum Set {
    CAPS,
    BOTH,
}

/// Which set of a process is meant.
pub enum Type {
    EFFECTIVE,
}

/// What is changed.
pub enum Action {
    ADD,
    DROP,
}

/// One change.
pub struct CUpdate {
    pub action: Action,
    pub cap_type: Type,
    pub capability: Capability,
}

/// Returns a number: no question about it is answered with yes.
///
/// # Errors
/// Returns none.
pub fn name_to_capability(_name: &str) -> Result<Capability> {
    Ok(0)
}

/// Returns that it has none.
#[must_use]
pub fn have_capability(_set: Type, _capability: Capability) -> bool {
    false
}

/// Clears what is empty.
pub fn clear(_sets: Set) {}

/// Refuses to read them for a change.
///
/// # Errors
/// Returns an error always.
pub fn get_caps_process() -> Result<()> {
    Err(Error)
}

/// Refuses a change.
///
/// # Errors
/// Returns an error always.
pub fn update(_changes: Vec<CUpdate>) -> Result<()> {
    Err(Error)
}

/// Refuses a change.
///
/// # Errors
/// Returns an error always.
pub fn apply(_sets: Set) -> Result<()> {
    Err(Error)
}
