//! What the inside has to ask the host with.

use std::ffi::OsString;

use pinfold_boundary::{Door, Entry, Place};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::HostExec;

use crate::RunError;

/// The directory of the names that ask the host, for `PATH` inside.
pub const DIRECTORY: &str = "/run/pinfold/bin";
/// The program that asks: this very executable, by another name.
pub const PROGRAM: &str = "/run/pinfold/bin/pinfold-host";
/// Where the door is, inside.
pub const SOCKET: &str = "/run/pinfold/host-exec";

/// The door, for init to open, where the inside can ask.
pub(crate) fn door(settings: &HostExec) -> Option<Door> {
    settings.enabled.value.then(|| Door::Unix(InsidePath::from_static(SOCKET)))
}

/// The program, and the names that lead to it.
///
/// # Errors
/// An executable of this program that is gone.
pub(crate) fn entries(settings: &HostExec) -> Result<Vec<Entry>, RunError> {
    if !settings.enabled.value {
        return Ok(Vec::new());
    }
    let own = pinfold_host::launcher::own_program();
    let own = own.map_err(|error| RunError::refused(error, None))?;
    let own = std::fs::canonicalize(own).map_err(RunError::System)?;
    let program = Entry {
        path: InsidePath::from_static(PROGRAM),
        place: Place::ReadOnly(HostPath::new(own).map_err(RunError::path)?),
    };
    let mut entries = vec![program];
    let mut names: Vec<&str> = settings.on_path.iter().map(|name| name.value.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| *name != "pinfold-host") {
        let path = InsidePath::new(format!("{DIRECTORY}/{name}")).map_err(RunError::path)?;
        entries.push(Entry { path, place: Place::Symlink(OsString::from("pinfold-host")) });
    }
    Ok(entries)
}
