//! Where the changes of a session lie, from its start on.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use pinfold_host::boot::boot;
use pinfold_host::directories::Places;
use pinfold_host::mount_points;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions;
use pinfold_policy::authority::Subject;
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::settings::Settings;
use pinfold_protect::names_at_start::Names;
use pinfold_trees::tree::Tree;

use super::record::{Record, VERSION};
use crate::GuardError;
use crate::shadow::Shadow;

/// The changes of a session that runs.
#[derive(Debug)]
pub struct Layer {
    directory: PathBuf,
    /// By the clock of the file system: every change from here on has a later time.
    started: (i64, u64),
    /// Whether what lies there goes with this value.
    is_passing: bool,
}

impl Layer {
    /// Returns where the changes of this session lie.
    pub fn of(places: &Places, session: &SessionId) -> Self {
        let directory = reviews(places).join(session.as_str());
        Self { directory, started: (0, 0), is_passing: false }
    }

    /// Makes an empty layer, with directories for what is shadowed and missing.
    ///
    /// # Errors
    /// Returns the file system's error; a workspace with other file systems in it.
    pub fn make(&mut self, workspace: &HostPath, shadows: &[Shadow]) -> Result<(), GuardError> {
        refuse_mounts(workspace.as_path())?;
        let mut make = || -> io::Result<()> {
            self.directory.parent().map_or(Ok(()), Places::make_private)?;
            let make = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
            make(&self.directory)?;
            self.is_passing = true;
            Places::write_private(&self.directory.join(LOCK), b"")?;
            let layers = self.layers();
            let above = fs::metadata(workspace.as_path())?;
            for path in [layers.clone(), layers.join(UPPER), layers.join("work")] {
                make(&path)?;
                if rustix::process::geteuid().is_root() {
                    chown(&path, Some(above.uid()), Some(above.gid()))?;
                }
            }
            let mode = fs::Permissions::from_mode(above.mode() & 0o7777);
            fs::set_permissions(layers.join(UPPER), mode)?;
            self.make_places(workspace, shadows)
        };
        make().map_err(GuardError::System)
    }

    /// Notes when the session starts: call it before the scan the workspace.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub fn begin(&mut self) -> io::Result<()> {
        self.started = mark(&self.directory.join("start"))?;
        Ok(())
    }

    /// Returns what a user should know of a view of a workspace: in a view an ordinary user has one group.
    pub fn note(workspace: &HostPath) -> Option<String> {
        let (user, own) = (rustix::process::geteuid(), rustix::process::getegid());
        let group = fs::metadata(workspace.as_path()).ok()?.gid();
        (!user.is_root() && group != own.as_raw()).then(|| {
            format!(
                "{} is of group {group}, which is not the one that you have now: what is of that \
                 group cannot be changed in a view (`EOVERFLOW`); start pinfold by `sg` with that \
                 group, or work on the checkout itself",
                Escaped(workspace.as_path())
            )
        })
    }

    /// Returns what the boundary takes as layers.
    pub fn layers(&self) -> PathBuf {
        self.directory.join(LAYERS)
    }

    /// Returns where what the session has changed lies.
    pub fn upper(&self) -> PathBuf {
        self.layers().join(UPPER)
    }

    /// Returns where private copies of git directories lie, as long as the changes do.
    pub fn private(&self) -> &Path {
        &self.directory
    }

    /// Makes directories in the layer for shadowed paths that are missing, with those above them
    /// as they are in the workspace. Nothing runs yet that could make any of them a link.
    ///
    /// # Errors
    /// Returns the file system's error.
    fn make_places(&self, workspace: &HostPath, shadows: &[Shadow]) -> io::Result<()> {
        let upper = self.upper();
        for shadow in shadows.iter().filter(|shadow| shadow.is_missing()) {
            let mut above: Vec<&Path> = shadow.relative().ancestors().collect();
            // The last one is the layer itself.
            above.pop();
            for path in above.into_iter().rev() {
                let (made, known) = (upper.join(path), workspace.as_path().join(path));
                match fs::create_dir(&made) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    made => made?,
                }
                let like = fs::metadata(&known).or_else(|_| fs::metadata(&upper))?;
                if rustix::process::geteuid().is_root() {
                    chown(&made, Some(like.uid()), Some(like.gid()))?;
                }
                fs::set_permissions(&made, fs::Permissions::from_mode(like.mode() & 0o7777))?;
            }
        }
        Ok(())
    }

    /// Returns what the session is, apart from what the scan of its workspace found.
    pub fn describe(
        &self,
        workspace: &HostPath,
        subject: &Subject,
        argv: &[OsString],
        settings: &Settings,
    ) -> io::Result<Record> {
        let inode = Tree::open(workspace.as_path())?.node_of_root()?.inode;
        let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Record {
            version: VERSION,
            workspace: workspace.as_path().to_owned(),
            inode,
            started: self.started,
            boot: boot()?,
            subject: subject.to_string(),
            command: words.join(" "),
            opt_in: settings.files.opt_in.iter().map(|name| name.value.clone()).collect(),
            named: Vec::new(),
            repositories: Vec::new(),
            tops: Vec::new(),
            shadowed: Vec::new(),
            parts: Vec::new(),
            ahead: Vec::new(),
        })
    }

    /// Writes down what the session is, before anything inside runs.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub fn record(&mut self, record: &Record, names: &Names) -> io::Result<()> {
        names.write(&self.directory.join(NAMES))?;
        // Whole or not there, whatever kills this process. That it is on the disk is waited for at
        // the session's end: the start would take several times as long.
        let new = self.directory.join("record.new");
        Places::write_private(&new, &serde_json::to_vec(record)?)?;
        fs::rename(new, self.directory.join(RECORD))?;
        self.is_passing = false;
        Ok(())
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        if self.is_passing {
            remove(&self.directory);
        }
    }
}

/// Returns the present by the clock of the file system: whatever changes from now on has no earlier
/// time. The kernel's clock for files ticks every few milliseconds; a file whose time somebody has
/// looked at gets the exact one (Linux 6.13), and nothing an earlier one after it.
fn mark(path: &Path) -> io::Result<(i64, u64)> {
    let file = File::create_new(path)?;
    file.metadata()?;
    file.set_permissions(fs::Permissions::from_mode(0o400))?;
    let marked = file.metadata()?;
    Ok((marked.ctime(), marked.ctime_nsec() as u64))
}

/// Overlayfs takes no layer with other file systems mounted in it (`clone_private_mount`).
fn refuse_mounts(workspace: &Path) -> Result<(), GuardError> {
    match mount_points::within(workspace).map_err(GuardError::System)? {
        None => Ok(()),
        Some(point) => Err(GuardError::refused(
            format!(
                "a copy-on-write view of {} cannot be made: {} is mounted in it",
                Escaped(workspace),
                Escaped(&point)
            ),
            Some("unmount it, or work on the checkout itself".to_owned()),
        )),
    }
}

pub(super) const LAYERS: &str = "layers";
pub(super) const UPPER: &str = "upper";
pub(super) const RECORD: &str = "record";
pub(super) const NAMES: &str = "names";
pub(super) const LOCK: &str = "lock";

/// Returns the directory of all sessions' changes.
#[must_use]
pub fn reviews(places: &Places) -> PathBuf {
    places.state.join("review")
}

/// Removes the record first: without it there is nothing to look at, even if this process is killed here.
pub(super) fn remove(directory: &Path) {
    let _ = fs::remove_file(directory.join(RECORD));
    sessions::remove_private(directory);
}
