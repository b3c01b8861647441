//! Files that pinfold makes for a session never land in a directory that a user granted: nothing
//! on the host is created or changed, and what the host has there stays the host's.
//!
//! Such a file is written to a private place instead, and that is mounted over the path. A path that is
//! missing gets a placeholder, as all other masks do (see `placeholder.rs`). Git configuration goes to
//! another of its configuration files instead.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_git::config::{Config, OF_THE_MACHINE, Setting, write};
use pinfold_policy::access::Access;
use pinfold_policy::authority::{Authority, Effect, Grant, Reason, RootKind, Why};
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_protect::restrict::{Protect, Substitute};
use pinfold_rootfs::chromium::is_settings as is_chromiums;
use pinfold_rootfs::userland::{HOME, PRIVATE};

use crate::GuardError;
use crate::grant_words::in_words;

/// Where the files lie in the sandbox before they are mounted over what they stand for.
const STAGE: &str = "/run/pinfold/generated";
/// pinfold's own directory in the sandbox.
const OWN: &str = "/run/pinfold";
/// Where git looks for patterns to ignore in every repository (gitignore(5)).
const IGNORE: &str = ".config/git/ignore";
/// The setting that names another place for them.
const EXCLUDES: &str = "core.excludesfile";
/// Where git looks for the user's own configuration, the last one winning.
const CONFIG: [&str; 2] = [".config/git/config", ".gitconfig"];

/// Files of a session that lie over what is granted.
#[derive(Debug, Default)]
pub struct Generated(Vec<Mask>);

/// A private file that stands for a path of the host.
#[derive(Debug, PartialEq, Eq)]
struct Mask {
    host: PathBuf,
    stage: PathBuf,
    is_missing: bool,
}

/// Refuses grants at which a session has something of its own that it cannot do without.
///
/// # Errors
/// Returns an error if there is one, with what to grant instead.
pub fn refuse(authority: &Authority) -> Result<(), GuardError> {
    authority.grants().filter(is_of_a_user).try_for_each(|grant| {
        let path = grant.root.inside.as_path();
        let own = || PRIVATE.iter().copied().chain([OWN, "/proc", "/dev"]);
        let is_above = |own: &&str| Path::new(own).starts_with(path) && Path::new(own) != path;
        let is_in = |own: &str| path.starts_with(own);
        if let Some(kind) = device(grant.root.host.as_path()) {
            let what = format!("cannot use {}: it is a {kind} device", in_words(grant).0);
            let hint =
                "a sandbox has only its own null, zero, full, random, urandom and tty".to_owned();
            return Err(GuardError::refused(what, Some(hint)));
        }
        let why = if grant.root.inside.is_root() {
            "that is everything on this machine".to_owned()
        } else if is_in(OWN) || is_in("/proc") || path == Path::new("/dev") {
            "sessions have their own there".to_owned()
        } else if let Some(own) = own().find(is_above) {
            format!("sessions have their own {own} in it")
        } else {
            return Ok(());
        };
        let what = format!("cannot use {}: {why}", in_words(grant).0);
        let hint = "grant the directories in it that are needed".to_owned();
        Err(GuardError::refused(what, Some(hint)))
    })
}

/// Returns the kind of a device. No sandbox can open one: devices of mounts are off (mount(8), `nodev`).
fn device(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    match (kind.is_char_device(), kind.is_block_device()) {
        (true, _) => Some("character"),
        (_, true) => Some("block"),
        (false, false) => None,
    }
}

impl Generated {
    /// Takes the generated files of a tree out of what users granted. `view` is the grant that the
    /// session has a copy-on-write view of, if it has one.
    ///
    /// # Errors
    /// Returns an error for a file that can neither lie there nor be mounted there, with the grant that
    /// is in its way.
    pub fn take_out(
        tree: &mut Vec<Entry>,
        authority: &Authority,
        view: Option<&HostPath>,
    ) -> Result<Self, GuardError> {
        move_git_settings(tree, authority)?;
        // A file that is to stay as it is stays the user's, and a directory of Chromium's settings that is granted has no other.
        tree.retain(|entry| {
            let Place::File { keep, .. } = &entry.place else { return true };
            let found = granted(authority, &entry.path);
            let is_there = |host: HostPath| fs::symlink_metadata(host.as_path()).is_ok();
            match found {
                Some(_) if is_chromiums(entry.path.as_path()) => false,
                Some((_, host)) => !(*keep && is_there(host)),
                None => true,
            }
        });
        let mut masks = Vec::new();
        for entry in tree {
            let Place::File { .. } = &entry.place else { continue };
            let Some((grant, host)) = granted(authority, &entry.path) else { continue };
            let is_missing = fs::symlink_metadata(host.as_path()).is_err();
            let is_view = view == Some(&grant.root.host);
            let can_be_made = grant.access.intersects(Access::CHANGING) && !is_view;
            check(grant, &entry.path, &host, is_missing && !can_be_made)?;
            let stage = Path::new(STAGE).join(masks.len().to_string());
            entry.path = InsidePath::new(&stage).map_err(GuardError::path)?;
            masks.push(Mask { host: host.into_path_buf(), stage, is_missing });
        }
        Ok(Self(masks))
    }

    /// Puts the private files over what they stand for.
    pub(crate) fn protect(&self, protect: &mut Protect) {
        for Mask { host, stage, is_missing } in &self.0 {
            if *is_missing {
                protect.place_missing(host, Some(b""));
            }
            let text = "the session has one of its own, which pinfold makes".into();
            let reason = Reason { why: Why::Denied, text, opt_in: None };
            let substitute = Some(Substitute(stage.clone()));
            protect.shadow(host, Effect::Private, substitute, reason, Origin::Default);
        }
    }

    /// Returns whether one of the files lies in a directory, or is that path.
    pub(crate) fn lies_in(&self, directory: &Path) -> bool {
        self.0.iter().any(|mask| mask.host.starts_with(directory))
    }

    /// Makes sure that every file is visible.
    ///
    /// # Errors
    /// Returns an error if one lies in a directory that is hidden.
    pub(crate) fn check(&self, protect: &Protect) -> Result<(), GuardError> {
        let hidden = protect.hidden();
        let is_hidden = |mask: &&Mask| mask.host.ancestors().any(|above| hidden.contains(above));
        let Some(mask) = self.0.iter().find(is_hidden) else { return Ok(()) };
        let what = format!(
            "the session needs a file of its own at {}, in a directory that is hidden",
            mask.host.display()
        );
        let hint = "grant a directory that does not hold it".to_owned();
        Err(GuardError::refused(what, Some(hint)))
    }
}

fn is_of_a_user(grant: &&Grant) -> bool {
    !matches!(grant.root.kind, RootKind::System | RootKind::AgentState)
}

/// Returns the grant of a user's that a path lies in, and where that is on the host.
fn granted<'a>(authority: &'a Authority, path: &InsidePath) -> Option<(&'a Grant, HostPath)> {
    let grant = authority.governing(path).filter(is_of_a_user)?;
    Some((grant, grant.host_of(path)?))
}

fn check(
    grant: &Grant,
    path: &InsidePath,
    host: &HostPath,
    cannot_be_made: bool,
) -> Result<(), GuardError> {
    let above = host.as_path().ancestors().skip(1).find(|above| above.exists());
    let leads_elsewhere =
        above.is_some_and(|above| fs::canonicalize(above).map_or(true, |real| real != above));
    let why = if grant.root.inside == *path {
        "sessions have their own there, which pinfold makes"
    } else if host.as_path().is_dir() {
        "sessions need a file of their own there, and it is a directory"
    } else if leads_elsewhere {
        "sessions need a file of their own there, and a link is on the way"
    } else if cannot_be_made {
        "sessions need a file of their own there, and there is no file to mount it over"
    } else {
        return Ok(());
    };
    let (what, elsewhere) = in_words(grant);
    let what = format!("cannot use {what}: {why} ({path})");
    let hint = if path.as_path().starts_with(HOME) {
        format!("{elsewhere}: agents have their own settings, which `--state persistent` keeps")
    } else {
        format!("{elsewhere}, or grant a copy at another place")
    };
    Err(GuardError::refused(what, Some(hint)))
}

/// Moves git configuration that would lie in a grant to other files that git reads as well. A file
/// that the host has there stays in force.
fn move_git_settings(tree: &mut Vec<Entry>, authority: &Authority) -> Result<(), GuardError> {
    let mut settings = Vec::new();
    let mut ignored = None;
    let mut has_own_ignore = false;
    tree.retain(|entry| {
        let Place::File { content, keep, .. } = &entry.place else { return true };
        let Ok(relative) = entry.path.as_path().strip_prefix(HOME) else { return true };
        let is_ignore = relative == Path::new(IGNORE);
        let is_config = CONFIG.iter().any(|config| relative == Path::new(config));
        let Some((_, host)) = granted(authority, &entry.path) else { return true };
        if !is_ignore && !is_config {
            return true;
        }
        let is_there = *keep && fs::symlink_metadata(host.as_path()).is_ok();
        match (is_there, is_ignore) {
            (true, true) => has_own_ignore = true,
            (true, false) => has_own_ignore |= Config::of([host]).last(EXCLUDES).is_some(),
            (false, true) => ignored = Some(content.clone()),
            (false, false) => settings.extend_from_slice(content),
        }
        false
    });
    if let Some(content) = ignored.filter(|_| !has_own_ignore) {
        let place = Path::new(STAGE).join("gitignore");
        let value = Some(place.as_os_str().as_bytes().to_vec());
        settings.extend(write(&[Setting { key: EXCLUDES.to_owned(), value }]));
        tree.push(file(&place, content)?);
    }
    if settings.is_empty() {
        return Ok(());
    }
    for place in [Path::new(HOME).join(CONFIG[1]), PathBuf::from(OF_THE_MACHINE)] {
        let path = InsidePath::new(&place).map_err(GuardError::path)?;
        if granted(authority, &path).is_some() {
            continue;
        }
        let known = tree.iter_mut().find(|entry| entry.path == path);
        if let Some(Entry { place: Place::File { content, .. }, .. }) = known {
            // What comes later wins.
            content.splice(..0, settings);
        } else {
            tree.push(file(&place, settings)?);
        }
        return Ok(());
    }
    // Without it git only asks more questions: that is not worth a refusal.
    Ok(())
}

fn file(path: &Path, content: Vec<u8>) -> Result<Entry, GuardError> {
    let place = Place::File { content, mode: 0o644, keep: false };
    Ok(Entry { path: InsidePath::new(path).map_err(GuardError::path)?, place })
}

#[cfg(test)]
mod tests;
