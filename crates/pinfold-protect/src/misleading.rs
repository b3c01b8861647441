//! What a session made that misleads or exhausts programs on the host: links that lead out of what it
//! was granted, names with control characters, sparse files that claim to be huge, and device nodes.
//!
//! Only the text of a link says where it leads, so that nothing on the host is opened for it. A new
//! link is recognised by its change time, which the kernel sets itself, and by its directory: an old
//! link in a directory that was moved leads elsewhere.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::file_id::FileId;
use pinfold_names::misleading::{
    DEVICES, LARGEST_HOLES, ODD_NAMES, OUTWARD_LINKS, PROGRAMS, SPARSE_FILES, Target, has_controls,
};
use pinfold_names::{Folded, Protection, Site};
use pinfold_policy::path::Brief;
use rustix::fs::{Access, AtFlags, CWD, FileType, Statx, StatxFlags, accessat};
use rustix::io::Errno;

use crate::began::Began;
use crate::own::Own;
use crate::patience::Patience;
use crate::protect::{INSTALLED, Zone};
use crate::survey::Visited;

/// What is known from before the session.
#[derive(Debug, Default)]
pub struct Before {
    /// When it began.
    pub began: Began,
    /// What had a name with control characters already.
    pub odd: HashSet<(PathBuf, FileId)>,
    /// Places that the sandbox could read and not change.
    pub fixed: Vec<PathBuf>,
}

impl Before {
    /// Notes names of a directory that are odd already.
    pub fn note(&mut self, root: &Path, visited: &Visited<'_>) {
        for (name, _) in visited.listing.entries().filter(|(name, _)| has_controls(name)) {
            let directory = visited.directory();
            if let Ok(id) = directory.and_then(|directory| FileId::at(directory, name)) {
                let directory = root.join(visited.listing.path());
                self.odd.insert((directory.join(OsStr::from_bytes(name)), id));
            }
        }
    }
}

/// Something new that misleads, and why it may not stay.
#[derive(Debug)]
pub struct Misleading {
    /// Where it is.
    pub path: PathBuf,
    /// Why it misleads.
    pub why: String,
    /// The opt-in that lets it stay.
    pub opt_in: &'static str,
}

/// Things that are found at most in one root. The rest waits for the next start.
const MOST: usize = 1 << 17;
/// Entries between two looks at the time.
const STRIDE: usize = 1 << 10;

/// Looks for it in one granted root.
pub struct Finder<'a> {
    root: &'a Path,
    /// When the session began, by the clock as it is set now.
    began: Began,
    /// All granted roots, and where they lie.
    roots: Vec<(&'a Path, &'a Site)>,
    protection: &'a Protection,
    own: &'a Own,
    before: &'a Before,
    /// What the user hides from sessions.
    hidden: &'a [PathBuf],
    links: bool,
    names: bool,
    holes: bool,
    devices: bool,
    /// What was found.
    pub found: Vec<Misleading>,
    /// How long it may take.
    pub patience: Option<&'a Patience>,
    /// Whether more was there than is dealt with at once.
    pub is_full: bool,
}

impl<'a> Finder<'a> {
    /// Looks for what is new since the session began.
    pub fn new(
        root: &'a Path,
        roots: Vec<(&'a Path, &'a Site)>,
        before: &'a Before,
        hidden: &'a [PathBuf],
        protection: &'a Protection,
        own: &'a Own,
    ) -> Self {
        let is_on = |opt_in| !protection.is_lifted(opt_in);
        let (links, names) = (is_on(OUTWARD_LINKS), is_on(ODD_NAMES));
        let (holes, devices) = (is_on(SPARSE_FILES), is_on(DEVICES));
        let (began, found) = (before.began.by_the_clock(), Vec::new());
        let (patience, is_full) = (None, false);
        Self {
            root,
            began,
            roots,
            protection,
            own,
            before,
            hidden,
            links,
            names,
            holes,
            devices,
            found,
            patience,
            is_full,
        }
    }

    /// Looks at the entries of a directory that changed since the session began.
    pub fn visit(&mut self, visited: &Visited<'_>, zone: Zone) {
        if !matches!(zone, Zone::Tree | Zone::Installed) {
            return;
        }
        for (number, (name, kind)) in visited.listing.entries().enumerate() {
            let is_over = || number % STRIDE == 0 && self.patience.is_some_and(Patience::is_over);
            self.is_full = self.is_full || self.found.len() == MOST;
            if self.is_full || is_over() {
                return;
            }
            let (judged, opt_in) = match kind {
                _ if self.names && has_controls(name) => (self.odd_name(visited, name), ODD_NAMES),
                FileType::Symlink if self.links => (self.link(visited, name), OUTWARD_LINKS),
                FileType::RegularFile if self.holes => (self.holes(visited, name), SPARSE_FILES),
                FileType::CharacterDevice | FileType::BlockDevice if self.devices => {
                    (self.device(visited, name), DEVICES)
                }
                _ => continue,
            };
            let why = match judged {
                // It is gone, or no link any more.
                Err(Errno::NOENT | Errno::INVAL) => None,
                Err(errno) => Some(format!("it cannot be looked at: {errno}")),
                Ok(why) => why,
            };
            if let Some(why) = why {
                let path = self.path(visited, name);
                self.found.push(Misleading { path, why, opt_in });
            }
        }
    }

    fn path(&self, visited: &Visited<'_>, name: &[u8]) -> PathBuf {
        self.root.join(visited.listing.path()).join(OsStr::from_bytes(name))
    }

    /// Returns why a name with control characters may not stay, if it is new.
    fn odd_name(&self, visited: &Visited<'_>, name: &[u8]) -> Result<Option<String>, Errno> {
        let id = FileId::at(visited.directory()?, name)?;
        let is_new = !self.before.odd.contains(&(self.path(visited, name), id));
        Ok(is_new.then(|| ODD.to_owned()))
    }

    /// Returns why a link may not stay, if it is new.
    fn link(&self, visited: &Visited<'_>, name: &[u8]) -> Result<Option<String>, Errno> {
        let directory = visited.directory()?;
        let found = look(&directory, name)?;
        if !visited.is_new && !self.began.is_before(&found) {
            return Ok(None);
        }
        let text = rustix::fs::readlinkat(&directory, name, Vec::new())?;
        let link = visited.listing.path().join(OsStr::from_bytes(name));
        let all: Vec<&Path> = self.roots.iter().map(|(root, _)| *root).collect();
        let protected = |place: &Path| {
            if self.own.places().iter().any(|own| place.starts_with(own)) {
                return Some("it belongs to pinfold".to_owned());
            }
            let mut roots = self.roots.iter().filter(|(root, _)| place.starts_with(root));
            roots.find_map(|(root, site)| {
                executed(self.protection, site, place.strip_prefix(root).ok()?)
            })
        };
        let tree = Roots { root: self.root, all: &all, protected: &protected };
        Ok(leads_away(tree, &link, text.as_bytes(), &self.before.fixed, self.hidden))
    }

    /// Returns why a sparse file may not stay, if it is new.
    fn holes(&self, visited: &Visited<'_>, name: &[u8]) -> Result<Option<String>, Errno> {
        let found = look(visited.directory()?, name)?;
        let is_new = visited.is_new || self.began.is_before(&found);
        Ok(has_holes(&found).filter(|_| is_new))
    }

    /// Returns why a device node may not stay, if it is new. Nobody but root makes one, except the one that an overlay has for a
    /// removed file, and a kernel lets a nested sandbox mount overlays.
    fn device(&self, visited: &Visited<'_>, name: &[u8]) -> Result<Option<String>, Errno> {
        let found = look(visited.directory()?, name)?;
        let is_new = visited.is_new || self.began.is_before(&found);
        Ok(is_new.then(|| DEVICE.to_owned()))
    }
}

/// A granted root and all of them.
#[derive(Clone, Copy)]
pub struct Roots<'a> {
    /// The one that is looked at.
    pub root: &'a Path,
    /// All of them.
    pub all: &'a [&'a Path],
    /// Why something in one of them is protected, if it or a directory above it is.
    pub protected: &'a dyn Fn(&Path) -> Option<String>,
}

/// Returns why the host would execute what lies at a path below a root, or what names it, if so.
pub fn executed(protection: &Protection, site: &Site, path: &Path) -> Option<String> {
    let mut above: Vec<&Path> =
        path.ancestors().take_while(|above| above.file_name().is_some()).collect();
    above.reverse();
    for path in above {
        let name = path.file_name()?.as_bytes();
        if name.eq_ignore_ascii_case(b".git") {
            return Some("git on the host runs the hooks and configuration in it".to_owned());
        }
        // Names in it are not judged.
        if INSTALLED.contains(&name) {
            return None;
        }
        let class = Some(path)
            .filter(|path| Protection::may_match(&Folded::of(name)) || site.is_moved(path))
            .and_then(|path| protection.classify(site, path)?.executed());
        if let Some(class) = class {
            return Some(class.reason().text.into_owned());
        }
    }
    None
}

/// Returns why a new link may not stay, if it leads out of what was granted. It lies at `link` below
/// the root. `fixed` are places that the sandbox could read and not change, and `hidden` what it
/// could not read.
pub fn leads_away(
    roots: Roots<'_>,
    link: &Path,
    text: &[u8],
    fixed: &[PathBuf],
    hidden: &[PathBuf],
) -> Option<String> {
    match Target::of(roots.root, link, text, roots.all) {
        Target::Within(place) => {
            let protected = (roots.protected)(&place)?;
            Some(format!(
                "the link leads to {}, and programs write through it: {protected}",
                Brief(&place)
            ))
        }
        Target::Outside(place) if is_harmless(link, &place, fixed, hidden) => None,
        Target::Outside(place) => Some(format!(
            "the link leads out of the workspace, to {}, and programs write through it",
            Brief(&place)
        )),
        Target::Unclear => Some(format!(
            "the link climbs from a name ({}), so it may lead out of the workspace",
            Brief(Path::new(OsStr::from_bytes(text)))
        )),
    }
}

/// Returns whether a link may lead there: to something among the system's programs, or in what the
/// sandbox could read, that the user cannot write to either; or to a program there from a directory of
/// programs (`.venv/bin/python`), which no tool takes for a place to write to; or to a file of the
/// system's of the same name, no program: root can write to all of them, and `automake --add-missing`
/// makes such links.
fn is_harmless(link: &Path, place: &Path, fixed: &[PathBuf], hidden: &[PathBuf]) -> bool {
    if place == Path::new("/dev/null") {
        return true;
    }
    let is_of_system = PROGRAMS.iter().any(|programs| place.starts_with(programs));
    if !is_of_system && !fixed.iter().any(|fixed| place.starts_with(fixed))
        || hidden.iter().any(|hidden| place.starts_with(hidden))
    {
        return false;
    }
    let is_writable = || accessat(CWD, place, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    let is_program = |found: &fs::Metadata| {
        let is_among_programs = link.parent().is_some_and(|directory| directory.ends_with("bin"));
        is_among_programs && found.is_file() && found.permissions().mode() & 0o111 != 0
    };
    let is_next_to_programs =
        place.parent().is_some_and(|it| it.ends_with("bin") || it.ends_with("sbin"));
    let is_copy = |found: &fs::Metadata| {
        let is_same = link.file_name() == place.file_name();
        is_of_system && is_same && !is_next_to_programs && found.is_file()
    };
    fs::metadata(place).is_ok_and(|found| {
        is_program(&found)
            || is_copy(&found)
            || (found.is_file() || found.is_dir()) && !is_writable()
    })
}

/// Returns why a new file may not stay, if it is much larger than the space that it takes.
fn has_holes(found: &Statx) -> Option<String> {
    let holes = found.stx_size.saturating_sub(found.stx_blocks.saturating_mul(512));
    let size = found.stx_size >> 30;
    let why = || format!("it claims {size} GiB and takes almost none, which fills what copies it");
    (holes > LARGEST_HOLES).then(why)
}

/// Returns the same for an entry of a directory.
pub fn claims_too_much(directory: impl AsFd, name: &[u8]) -> Option<String> {
    has_holes(&look(directory, name).ok()?)
}

/// Why a new file may not stay whose name has control characters.
pub const ODD: &str = "its name has control characters, which terminals obey";
/// Why a new device node may not stay.
const DEVICE: &str = "it is a device node, which an overlay takes for a removed file";

fn look(directory: impl AsFd, name: &[u8]) -> Result<Statx, Errno> {
    let wanted = StatxFlags::CTIME | StatxFlags::SIZE | StatxFlags::BLOCKS;
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(directory, name, how, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_may_lead_to_a_program_and_to_no_file_that_the_user_can_write() {
        let dir = tempfile::tempdir().unwrap();
        let fixed = dir.path().canonicalize().unwrap();
        for (name, mode) in [("data", 0o644), ("python", 0o755)] {
            fs::write(fixed.join(name), "").unwrap();
            fs::set_permissions(fixed.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let root = Path::new("/work");
        let all = [root];
        let why = |link: &str, name: &str| {
            let text = fixed.join(name);
            let roots = Roots { root, all: &all, protected: &|_| None };
            leads_away(
                roots,
                Path::new(link),
                text.as_os_str().as_bytes(),
                std::slice::from_ref(&fixed),
                &[],
            )
        };
        assert_eq!(why(".venv/bin/python", "python"), None);
        assert!(why("report", "python").is_some() && why("bin/data", "data").is_some());
        assert!(why("bin/none", "none").is_some());
    }

    #[test]
    fn a_link_may_not_lead_to_what_the_host_executes() {
        let (protection, site) = (Protection::default(), Site::of_names(Path::new("/work")));
        let why = |path: &str| executed(&protection, &site, Path::new(path));
        for path in [".git/config", "sub/.git", ".vscode/tasks.json", "a/.envrc", ".husky"] {
            assert!(why(path).is_some(), "{path}");
        }
        for path in ["", "src/main.rs", "node_modules/x/.envrc", ".env", ".gitignore"] {
            assert_eq!(why(path), None, "{path}");
        }
    }
}
