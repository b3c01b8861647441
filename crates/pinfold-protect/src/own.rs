//! What is pinfold's own, wherever it really lies. No session is ever granted any of it: a process
//! that writes there decides what the next session may do, and what runs on the host.
//!
//! The directories of the current environment count as well as the default ones, of the home in
//! force and of the account's. Links on the way are followed, since a dotfiles repository often holds
//! what they lead to. Files with several names are known by device and inode, and what is mounted a
//! second time by its place in its file system.

use std::collections::HashSet;

use pinfold_host::directories::{OWN_NAME, Places, absolute_variable, account_home, resolved};
use pinfold_host::io::AtPath as _;
use pinfold_host::mount_points::{self, Alias, Mount};

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::restrict::follow;

/// The default directories in a home (XDG Base Directory Specification 0.8).
const DEFAULTS: [(&str, Holds); 4] = [
    (".config", Holds::Settings),
    (".local/share", Holds::Settings),
    (".local/state", Holds::State),
    (".cache", Holds::Cache),
];
/// The variables that name others.
const VARIABLES: [(&str, Holds); 5] = [
    ("XDG_CONFIG_HOME", Holds::Settings),
    ("XDG_DATA_HOME", Holds::Settings),
    ("XDG_STATE_HOME", Holds::State),
    ("XDG_CACHE_HOME", Holds::Cache),
    ("XDG_RUNTIME_DIR", Holds::Cache),
];
/// The administrator's directory.
const SYSTEM: &str = "/etc/pinfold";
/// What holds nothing that decides about a session: extensions, which are only put into images and are
/// often linked to where they are developed, and of the state what belongs to single sessions.
const SKIPPED: [&str; 6] = ["extensions", "logs", "private", "review", "sessions", "empty"];
/// As many entries as are looked at. Directories of settings are small.
const MOST: usize = 20_000;

/// What a directory holds, which says how deep its files decide about sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Settings,
    State,
    Cache,
}

impl Holds {
    /// Returns how many levels are looked at for links and for files with several names.
    fn depth(self) -> usize {
        match self {
            Self::Settings => 8,
            Self::State => 2,
            Self::Cache => 1,
        }
    }
}

/// Device and number of an inode.
type Inode = (u64, u64);

/// pinfold's own directories and files.
#[derive(Debug, Default)]
pub struct Own {
    /// Directories and files without a link on the way. Some may be missing.
    places: Vec<PathBuf>,
    /// Of those that are missing, files.
    files: HashSet<PathBuf>,
    /// Links on the way to them.
    links: Vec<PathBuf>,
    /// What was found.
    known: HashSet<Inode>,
    /// Files with several names, also by the number of the inode alone, which a directory lists.
    several: HashSet<Inode>,
    numbers: HashSet<u64>,
    /// How many entries were looked at.
    looked_at: usize,
    mounts: Vec<Mount>,
}

impl Own {
    /// Finds what is pinfold's own for the caller.
    ///
    /// # Errors
    /// Returns an error for a directory of settings that cannot be looked at, or that holds more than
    /// `MOST` entries.
    pub fn find(places: &Places) -> io::Result<Self> {
        let homes = [Some(places.home.clone()), account_home()];
        let defaults = homes.into_iter().flatten().flat_map(|home| {
            DEFAULTS.map(|(relative, holds)| (home.join(relative).join(OWN_NAME), holds))
        });
        let named = VARIABLES.into_iter().filter_map(|(variable, holds)| {
            Some((absolute_variable(variable)?.join(OWN_NAME), holds))
        });
        let current = [
            (places.config.clone(), Holds::Settings),
            (places.state.clone(), Holds::State),
            (places.cache.clone(), Holds::Cache),
            (PathBuf::from(SYSTEM), Holds::Settings),
        ];
        Self::of(defaults.chain(named).chain(current), mount_points::all()?)
    }

    fn of(
        candidates: impl Iterator<Item = (PathBuf, Holds)>,
        mounts: Vec<Mount>,
    ) -> io::Result<Self> {
        let mut own = Self::default();
        let mut seen = HashSet::new();
        for (path, holds) in candidates {
            // What the environment names is the default, mostly.
            if seen.insert(path.clone()) {
                own.add(&path, holds.depth())?;
            }
        }
        for place in own.places.clone() {
            let there = inode_of(&place);
            let aliases = mount_points::aliases(&mounts, &place).into_iter();
            own.places.extend(aliases.filter_map(|alias| match alias {
                Alias::Whole(path) => (inode_of(&path) == there).then_some(path),
                Alias::Part(path) => path.exists().then_some(path),
            }));
        }
        for paths in [&mut own.places, &mut own.links] {
            paths.sort();
            paths.dedup();
        }
        own.mounts = mounts;
        Ok(own)
    }

    /// Adds a path, and what lies at it down to some levels.
    fn add(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        let end = match follow(path) {
            Some(followed) => {
                self.links.extend(followed.links);
                followed.end
            }
            // A home may be written with dots.
            None => resolved(path),
        };
        if self.places.contains(&end) {
            return Ok(());
        }
        self.places.push(end.clone());
        match fs::symlink_metadata(&end) {
            Ok(found) => self.look(&end, &found, depth),
            // What is missing may be made. What cannot be reached cannot be granted by the caller.
            Err(_) => {
                // Files of settings have an extension, and the directories have none.
                if path.extension().is_some() {
                    self.files.insert(end);
                }
                Ok(())
            }
        }
    }

    fn look(&mut self, path: &Path, found: &Metadata, depth: usize) -> io::Result<()> {
        self.looked_at += 1;
        if self.looked_at > MOST {
            let what = format!("{} holds more than {MOST} files of settings", path.display());
            return Err(io::Error::other(what));
        }
        let inode = (found.dev(), found.ino());
        if found.is_symlink() {
            return self.add(path, depth);
        }
        let is_new = self.known.insert(inode);
        if !found.is_dir() {
            if found.nlink() > 1 {
                self.several.insert(inode);
                self.numbers.insert(inode.1);
            }
            return Ok(());
        }
        if depth == 0 || !is_new {
            return Ok(());
        }
        for entry in fs::read_dir(path).at("look at", path)? {
            let entry = entry.at("look at", path)?;
            // One that is gone again decides nothing.
            let Ok(found) = entry.metadata() else { continue };
            if !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                self.look(&entry.path(), &found, depth - 1)?;
            }
        }
        Ok(())
    }

    /// Returns where a path without links lies in its file system: what is mounted a second time is
    /// the same there.
    pub fn place_of(&self, path: &Path) -> Option<PathBuf> {
        mount_points::place(&self.mounts, path)
    }

    /// Returns a path without links, and the others by which the same can be reached because it is mounted again.
    pub(crate) fn all_names(&self, path: &Path) -> Vec<PathBuf> {
        let there = inode_of(path);
        let others = mount_points::aliases(&self.mounts, path).into_iter();
        let others = others.filter_map(|alias| match alias {
            Alias::Whole(other) => (inode_of(&other) == there).then_some(other),
            Alias::Part(_) => None,
        });
        [path.to_owned()].into_iter().chain(others).collect()
    }

    /// Directories and files, each without a link on the way; some may be missing.
    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// Returns whether a place that is missing is one of a file.
    pub fn is_file(&self, place: &Path) -> bool {
        self.files.contains(place)
    }

    /// Links that lead to them.
    pub fn links(&self) -> &[PathBuf] {
        &self.links
    }

    /// Returns what of pinfold's own a path without links is or lies in.
    pub fn holding(&self, path: &Path) -> Option<PathBuf> {
        let by_path = self.places.iter().find(|place| path.starts_with(place)).cloned();
        // A file system may have several names for one directory.
        by_path.or_else(|| {
            let is_known =
                |above: &&Path| inode_of(above).is_some_and(|it| self.known.contains(&it));
            path.ancestors().find(is_known).map(Path::to_owned)
        })
    }

    /// Returns whether one of pinfold's own files has a further name anywhere.
    pub(crate) fn has_linked(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Returns whether a file of this inode number may be a further name of one of pinfold's own files.
    pub(crate) fn may_hold(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// Returns whether what lies at a path is a further name of one of pinfold's own files.
    pub(crate) fn has_several(&self, path: &Path) -> bool {
        inode_of(path).is_some_and(|inode| self.several.contains(&inode))
    }
}

/// Returns what lies at a path; a link is a link.
fn inode_of(path: &Path) -> Option<Inode> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests;
