//! `vfs.shadow`: paths of the workspace in whose place the sandbox has something of its own.
//!
//! With `tmpfs` it is private, writable, empty, and bounded with the other private directories;
//! with `deny` nobody may open it. A path is what its bytes are: neither case nor Unicode is
//! folded, and a link is not followed.

use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{Escaped, InsidePath};
use pinfold_policy::settings::{Settings, ShadowMode};
use pinfold_protect::restrict::{Protect, Substitute};
use pinfold_worktree::workspace::Workspace;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::GuardError;

/// Where private shadows lie inside, before they are put over what they shadow.
const STAGE: &str = "/run/pinfold/shadow";

/// What lies at a shadowed path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
    Missing,
}

/// A path that is shadowed.
#[derive(Debug)]
pub struct Shadow {
    /// Relative to the workspace.
    relative: PathBuf,
    host: PathBuf,
    kind: Kind,
    mode: ShadowMode,
    origin: Origin,
    number: usize,
}

/// Finds what is to be shadowed. An empty workspace has nothing to shadow.
///
/// # Errors
/// Returns an error for a path that leads through or to a link, or that is part of a git directory.
pub fn find(settings: &Settings, workspace: &Workspace) -> Result<Vec<Shadow>, GuardError> {
    if settings.shadow.is_empty() || workspace.is_scratch {
        return Ok(Vec::new());
    }
    let root = workspace.root.as_path();
    let mut wanted: Vec<_> = settings.shadow.iter().collect();
    wanted.sort_by_key(|shadow| shadow.value.as_path());
    let mut found: Vec<Shadow> = Vec::new();
    for shadow in wanted {
        let relative = shadow.value.as_path();
        // What lies in a shadow is gone with it.
        if found.last().is_some_and(|above| relative.starts_with(&above.relative)) {
            continue;
        }
        found.push(Shadow {
            relative: relative.to_owned(),
            host: root.join(relative),
            kind: kind(root, relative)?,
            mode: settings.shadow_mode.value,
            origin: shadow.origin.clone(),
            number: found.len(),
        });
    }
    Ok(found)
}

fn kind(root: &Path, relative: &Path) -> Result<Kind, GuardError> {
    let shown = Escaped(relative);
    if relative.iter().any(|part| part == ".git") {
        let what =
            format!("cannot shadow {shown}: git's own directories are protected as they are");
        return Err(GuardError::refused(what, Some("take it out of vfs.shadow".to_owned())));
    }
    let look = || {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let place = rustix::fs::openat2(top, relative, flags, Mode::empty(), how)?;
        Ok(FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode))
    };
    match look() {
        Ok(FileType::Directory) => Ok(Kind::Directory),
        Ok(FileType::RegularFile) => Ok(Kind::File),
        Err(Errno::NOENT) => Ok(Kind::Missing),
        Ok(FileType::Symlink) | Err(Errno::LOOP | Errno::XDEV) => {
            let what = format!("path escapes workspace: {shown}");
            let hint = "vfs.shadow follows no symbolic link: name what it leads to".to_owned();
            Err(GuardError::refused(what, Some(hint)))
        }
        Ok(_) => Err(GuardError::refused(
            format!("cannot shadow {shown}: it is not a file or directory"),
            None,
        )),
        Err(errno) => Err(GuardError::refused(format!("cannot shadow {shown}: {errno}"), None)),
    }
}

impl Shadow {
    fn stage(&self) -> PathBuf {
        Path::new(STAGE).join(self.number.to_string())
    }

    /// Returns what the boundary makes for it.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub fn entries(&self) -> Result<Vec<Entry>, GuardError> {
        if self.mode == ShadowMode::Deny {
            return Ok(Vec::new());
        }
        let path = InsidePath::new(self.stage()).map_err(GuardError::path)?;
        let mut entries = vec![Entry { path, place: Place::Private }];
        if self.kind == Kind::File {
            let path = InsidePath::new(self.stage().join("file")).map_err(GuardError::path)?;
            let place = Place::File { content: Vec::new(), mode: 0o644, keep: false };
            entries.push(Entry { path, place });
        }
        Ok(entries)
    }

    /// Puts it in the place of everything else that was found there.
    pub(crate) fn protect(&self, protect: &mut Protect) {
        let text = "the project shadows it (vfs.shadow)".into();
        let reason = Reason { why: Why::Denied, text, opt_in: None };
        // A directory may be another session's placeholder, which goes with that session.
        if self.kind != Kind::File {
            protect.place_missing(&self.host, None);
        }
        let (effect, substitute) = match (self.mode, self.kind) {
            (ShadowMode::Deny, _) => (Effect::Hide, None),
            (ShadowMode::Tmpfs, Kind::File) => (Effect::Private, Some(self.stage().join("file"))),
            (ShadowMode::Tmpfs, _) => (Effect::Private, Some(self.stage())),
        };
        if self.mode == ShadowMode::Deny {
            protect.closed.insert(self.host.clone());
        }
        let substitute = substitute.map(Substitute);
        protect.shadow(&self.host, effect, substitute, reason, self.origin.clone());
    }

    /// Returns the path on the host.
    pub(crate) fn host(&self) -> &Path {
        &self.host
    }

    /// Returns the path, relative to the workspace.
    pub(crate) fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns whether a directory has to be made so that it can be masked.
    pub(crate) fn is_missing(&self) -> bool {
        self.kind == Kind::Missing
    }
}
