//! What a sandbox has to ask the host with.

use std::ffi::OsString;
use std::io;

use pinfold_boundary::{Door, Entry, Place};
use pinfold_policy::path::{HostPath, InsidePath, PathError};
use pinfold_policy::settings::HostExec;
use thiserror::Error;

/// The directory of the names that ask the host, for `PATH` inside.
pub const DIRECTORY: &str = "/run/pinfold/bin";
/// The program that asks: this very executable, by another name.
pub const PROGRAM: &str = "/run/pinfold/bin/pinfold-host";
/// Where the door is, inside.
pub const SOCKET: &str = "/run/pinfold/host-exec";

/// Returns the door, for init to open, where the sandbox can ask.
pub fn door(settings: &HostExec) -> Option<Door> {
    settings.enabled.value.then(|| Door::Unix(InsidePath::from_static(SOCKET)))
}

/// Why the program that asks cannot be shown to a sandbox.
#[derive(Debug, Error)]
pub enum EntriesError {
    /// This program's own file was replaced since it started.
    #[error(transparent)]
    OwnProgram(io::Error),
    /// A path that no sandbox can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The system refused to resolve this program's path.
    #[error(transparent)]
    System(io::Error),
}

/// Returns the entry of this very executable by another name.
///
/// # Errors
/// Returns an error for an executable of this program that is gone.
pub fn own_program(path: &'static str) -> Result<Entry, EntriesError> {
    let own = pinfold_host::launcher::own_program().map_err(EntriesError::OwnProgram)?;
    let own = std::fs::canonicalize(own).map_err(EntriesError::System)?;
    let place = Place::ReadOnly(HostPath::new(own)?);
    Ok(Entry { path: InsidePath::from_static(path), place })
}

/// Returns the entries of the program and of the names that lead to it.
///
/// # Errors
/// Returns an error for an executable of this program that is gone.
pub fn entries(settings: &HostExec) -> Result<Vec<Entry>, EntriesError> {
    if !settings.enabled.value {
        return Ok(Vec::new());
    }
    let mut entries = vec![own_program(PROGRAM)?];
    let mut names: Vec<&str> = settings.on_path.iter().map(|name| name.value.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| *name != "pinfold-host") {
        let path = InsidePath::new(format!("{DIRECTORY}/{name}"))?;
        entries.push(Entry { path, place: Place::Symlink(OsString::from("pinfold-host")) });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use pinfold_policy::origin::{Origin, Valued};

    use super::*;

    #[test]
    fn sandbox_that_may_not_ask_has_neither_door_nor_programs() {
        assert!(door(&HostExec::default()).is_none());
        assert!(entries(&HostExec::default()).unwrap().is_empty());
    }

    #[test]
    fn each_name_leads_to_the_one_program_once() {
        let by_flag = Origin::Flag { name: "--host-exec" };
        let name = |name: &str| Valued::new(name.to_owned(), by_flag.clone());
        let settings = HostExec {
            enabled: Valued::new(true, by_flag.clone()),
            on_path: ["git", "gh", "git", "pinfold-host"].map(name).into(),
            ..HostExec::default()
        };
        assert!(door(&settings).is_some());
        let entries = entries(&settings).unwrap();
        let shown: Vec<String> = entries.iter().map(|entry| entry.path.to_string()).collect();
        assert_eq!(shown, [PROGRAM, "/run/pinfold/bin/gh", "/run/pinfold/bin/git"]);
        let is_link =
            |entry: &Entry| matches!(&entry.place, Place::Symlink(to) if to == "pinfold-host");
        assert!(entries[1..].iter().all(is_link));
    }
}
