//! What runs in the guests of tests: this program on this machine's system, or what `PINFOLD_TEST_AARCH64` names.

use std::path::PathBuf;

/// Returns where the system of guests is if they have another processor than this machine.
pub(crate) fn foreign_system() -> Option<PathBuf> {
    std::env::var_os("PINFOLD_TEST_AARCH64").map(PathBuf::from)
}

/// Returns the executable that is init in guests.
pub(crate) fn init() -> std::io::Result<PathBuf> {
    foreign_system().map_or_else(std::env::current_exe, |system| Ok(system.join("init")))
}
