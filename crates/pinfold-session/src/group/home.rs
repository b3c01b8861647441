//! The directories of a group, each found without a link on the way.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::settings::{GroupHome, Settings};
use pinfold_worktree::workspace::Workspace;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{CONFIG, Missing};
use crate::RunError;

/// What holds groups' directories, and what only admins see, below the root.
const HELD: [&str; 5] = ["groups", "data/sessions", "data/ipc", "data/env", CONFIG];
/// The largest env file, in bytes.
const LARGEST: u64 = 1 << 20;

/// A group's part of the directory that groups share.
#[derive(Debug)]
pub(super) struct Home {
    /// Without links.
    root: PathBuf,
    folder: String,
    missing: Missing,
    /// pinfold's own directories, without links.
    places: Vec<PathBuf>,
    /// Who named the root.
    pub(super) origin: Origin,
}

impl Home {
    pub(super) fn open(
        home: &GroupHome,
        folder: &str,
        missing: Missing,
        places: &Places,
    ) -> Result<Self, RunError> {
        let root = fs::canonicalize(home.root.value.as_path()).map_err(|error| {
            let what = format!("cannot use group_home.root {}: {error}", home.root);
            RunError::refused(what, Some("make the directory, or name another".to_owned()))
        })?;
        let places: Vec<PathBuf> = [&places.config, &places.state, &places.cache]
            .into_iter()
            .filter_map(|place| fs::canonicalize(place).ok())
            .collect();
        if places.iter().any(|place| root.starts_with(place)) {
            let what = format!("group_home.root {} is among pinfold's own files", Escaped(&root));
            return Err(RunError::refused(what, Some("name a directory of its own".to_owned())));
        }
        let (folder, origin) = (folder.to_owned(), home.root.origin.clone());
        Ok(Self { root, folder, missing, places, origin })
    }

    /// Returns a directory of the group's in one that holds every group's. A process that could put a
    /// link there would have another group's shown.
    pub(super) fn directory(
        &self,
        holds: &str,
        below: &Path,
    ) -> Result<Option<HostPath>, RunError> {
        let mut path = self.root.clone();
        for part in Path::new(holds).join(&self.folder).join(below).components() {
            path.push(part);
            if self.missing == Missing::Make {
                match DirBuilder::new().mode(0o700).create(&path) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(unusable(&path, &error));
                    }
                    _ => {}
                }
            }
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(unusable(&path, &error)),
                Ok(_) => {
                    let what = format!("{} is not a directory of the group's own", Escaped(&path));
                    let hint = "a link there could show another group's: put a directory there";
                    return Err(RunError::refused(what, Some(hint.to_owned())));
                }
            }
        }
        HostPath::new(path).map(Some).map_err(RunError::path)
    }

    /// Returns the file that admins' sessions change, if it is there; no link.
    pub(super) fn config(&self) -> Result<Option<HostPath>, RunError> {
        let path = self.root.join(CONFIG);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => HostPath::new(path).map(Some).map_err(RunError::path),
            Ok(_) => Err(unusable(&path, &io::Error::other("it is not a regular file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// Returns the group's env file with what to call it, if it is there.
    pub(super) fn env(&self) -> Result<Option<(String, Vec<u8>)>, RunError> {
        let relative = Path::new("data/env").join(&self.folder).join("env");
        let path = self.root.join(&relative);
        let opened = File::open(&self.root).map_err(|error| unusable(&self.root, &error))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = match rustix::fs::openat2(opened, &relative, flags, Mode::empty(), how) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(unusable(&path, &errno.into())),
        };
        let mut bytes = Vec::new();
        let is_file = file.metadata().is_ok_and(|found| found.is_file());
        let read = if is_file {
            file.take(LARGEST + 1).read_to_end(&mut bytes).map(drop)
        } else {
            Err(io::Error::other("it is not a regular file"))
        };
        read.map_err(|error| unusable(&path, &error))?;
        if bytes.len() as u64 > LARGEST {
            Err(unusable(&path, &io::ErrorKind::FileTooLarge.into()))
        } else {
            Ok(Some((Escaped(&path).to_string(), bytes)))
        }
    }

    /// Returns something that the user shows to groups.
    pub(super) fn shared(&self, place: &Valued<HostPath>) -> Result<HostPath, RunError> {
        let found = fs::canonicalize(place.value.as_path())
            .map_err(|error| unusable(place.value.as_path(), &error))?;
        let host = HostPath::new(found).map_err(RunError::path)?;
        self.check(&host, &place.origin)?;
        Ok(host)
    }

    /// Refuses what would show the files of other groups, or pinfold's.
    pub(super) fn check(&self, path: &HostPath, origin: &Origin) -> Result<(), RunError> {
        let Some(held) = self.shows(path.as_path()) else { return Ok(()) };
        let what = format!(
            "{path} (by {origin}) would show {}, which groups do not share",
            Escaped(&held)
        );
        let hint = "name what lies neither in nor above it; a group's own files are shown anyway";
        Err(RunError::refused(what, Some(hint.to_owned())))
    }

    /// Returns what a path without links would show that is not the group's: files of other groups, or of pinfold.
    pub(super) fn shows(&self, path: &Path) -> Option<PathBuf> {
        // What lies below a path is pinfold's to hide.
        let of_pinfold = self.places.iter().find(|place| path.starts_with(place)).cloned();
        let own = self.root.join("groups").join(&self.folder);
        let mut held = self.held().filter(|held| path.starts_with(held) || held.starts_with(path));
        of_pinfold.or_else(|| held.find(|_| !path.starts_with(&own)))
    }

    /// Returns whether a path without links lies where groups have their files.
    pub(super) fn holds(&self, path: &Path) -> bool {
        self.held().any(|held| path.starts_with(held))
    }

    fn held(&self) -> impl Iterator<Item = PathBuf> {
        HELD.iter().map(|held| self.root.join(held))
    }

    /// Returns whether a path without links is hidden in a grant of what is above it, with pinfold's
    /// other files.
    pub(super) fn hides(&self, path: &Path, grant: &Path) -> bool {
        let above = |place: &&PathBuf| place.starts_with(grant) && place.as_path() != grant;
        self.places.iter().filter(above).any(|place| path.starts_with(place))
    }

    /// Refuses other grants of a session that would show the files of other groups, or pinfold's; says
    /// which of them it may write to, without links.
    pub(super) fn check_others(
        &self,
        settings: &Settings,
        workspace: &Workspace,
    ) -> Result<Vec<HostPath>, RunError> {
        let checked = |path: &Valued<HostPath>| {
            let found = fs::canonicalize(path.value.as_path())
                .map_err(|error| unusable(path.value.as_path(), &error))?;
            let found = HostPath::new(found).map_err(RunError::path)?;
            self.check(&found, &path.origin).map(|()| found)
        };
        let files = &settings.files;
        files.read.iter().try_for_each(|path| checked(path).map(drop))?;
        let mut writable: Vec<HostPath> =
            files.write.iter().map(checked).collect::<Result<_, _>>()?;
        if !workspace.is_scratch {
            for path in
                [Some(&workspace.root), workspace.git_outside.as_ref()].into_iter().flatten()
            {
                self.check(path, &Origin::Default)?;
                writable.push(path.clone());
            }
        }
        Ok(writable)
    }
}

fn unusable(path: &Path, error: &io::Error) -> RunError {
    RunError::refused(format!("cannot use {} for a group: {error}", Escaped(path)), None)
}
