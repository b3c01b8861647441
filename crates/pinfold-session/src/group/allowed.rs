//! Which of a group's mounts the allowlist lets its sessions see.
//!
//! Links are resolved first, and what is decided on is the path that is mounted: the boundary opens it
//! without following a link, so one that somebody puts on the way after the decision ends the start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_host::owned;
use pinfold_policy::access::Access;
use pinfold_policy::allowlist::Allowlist;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::settings::GroupMount;

use super::home::Home;
use crate::RunError;

/// An allowlist with its directories as they are, without links.
#[derive(Debug)]
pub(super) struct Allowed {
    /// Where it lies, without links.
    file: PathBuf,
    list: Allowlist,
    /// Each directory that is there, and whether it may be written to.
    roots: Vec<(PathBuf, bool)>,
}

/// What a mount becomes: where it is without links, what may be done with it, and why less than asked.
type Decided = (HostPath, Access, Option<&'static str>);

impl Allowed {
    /// Returns where it lies.
    pub(super) fn file(places: &Places) -> PathBuf {
        places.config.join("mount-allowlist.toml")
    }

    /// Reads it, if it is there.
    pub(super) fn read(places: &Places) -> Result<Option<Self>, RunError> {
        let path = Self::file(places);
        let unreadable = |error: &io::Error| {
            RunError::refused(format!("cannot read {}: {error}", Escaped(&path)), None)
        };
        let read = owned::read(&path).map_err(|error| {
            let hint = error.hint();
            RunError::refused(error, hint)
        });
        let Some(bytes) = read? else { return Ok(None) };
        let real = fs::canonicalize(&path).map_err(|error| unreadable(&error))?;
        let home = HostPath::new(&places.home).map_err(RunError::path)?;
        let file = SettingsFile { path: &path, bytes: &bytes };
        let list =
            Allowlist::read(file, Some(&home)).map_err(|error| RunError::refused(error, None))?;
        let roots = list.roots.iter().filter_map(|root| {
            Some((fs::canonicalize(root.path.as_path()).ok()?, root.allow_read_write))
        });
        Ok(Some(Self { file: real, roots: roots.collect(), list }))
    }

    /// Refuses a list that a session of this group could write, or one of another's.
    pub(super) fn check_place<'p>(
        &self,
        own: &Home,
        mut writable: impl Iterator<Item = &'p Path>,
    ) -> Result<(), RunError> {
        let reaches = |place: &Path| self.file.starts_with(place) && !own.hides(&self.file, place);
        if !own.holds(&self.file) && !writable.any(reaches) {
            return Ok(());
        }
        let what = format!("{} is where a session could write it", Escaped(&self.file));
        Err(RunError::refused(what, Some("keep it outside every project".to_owned())))
    }

    /// Returns what a mount becomes, or why it is left out.
    pub(super) fn decide(
        &self,
        asked: &GroupMount,
        is_admin: bool,
        own: &Home,
    ) -> Result<Decided, String> {
        let shown = |path: &Path| Escaped(path).to_string();
        let real = fs::canonicalize(asked.host.as_path())
            .map_err(|error| format!("{}: {error}", asked.host))?;
        let host = HostPath::new(&real).map_err(|error| error.to_string())?;
        if let Some(pattern) = self.list.blocks(&host) {
            return Err(format!("{host} holds the blocked text {pattern:?}"));
        }
        if let Some(held) = own.shows(&real) {
            return Err(format!("it would show {}", shown(&held)));
        }
        // The first that holds it decides, as the format has it.
        let root = self.roots.iter().find(|(root, _)| real.starts_with(root));
        let (_, may_write) = root.ok_or_else(|| format!("{host} is not below an allowed root"))?;
        if asked.readonly {
            return Ok((host, Access::READ_ONLY, None));
        }
        let narrowed = if !is_admin && self.list.non_admin_read_only {
            Some("only groups of admins may write there")
        } else if !may_write {
            Some("its allowed root does not allow writing")
        } else {
            None
        };
        let access = if narrowed.is_some() { Access::READ_ONLY } else { Access::FULL };
        Ok((host, access, narrowed))
    }
}
