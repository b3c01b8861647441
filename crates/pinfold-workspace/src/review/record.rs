//! What a session with a copy-on-write view was, and what of its changes is protected.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::baseline::Start;
use pinfold_git::stamp::Stamps;
use pinfold_host::directories::homes;
use pinfold_names::misleading::{
    LARGEST_HOLES, ODD_NAMES, OUTWARD_LINKS, SPARSE_FILES, has_controls,
};
use pinfold_names::{BARE_REPOSITORIES, COMMANDS, HomePart, Protection, Site};
use pinfold_protect::commands::{Ahead, Commands, Shadowing};
use pinfold_protect::home_parts::home_parts;
use pinfold_protect::misleading::{ODD, Roots, claims_too_much, executed, leads_away};
use pinfold_protect::protect::INSTALLED;
use pinfold_trees::tree::Node;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::changes::{Change, Left};
use super::scan::is_named;

/// The form of the record that this version writes and reads.
pub(crate) const VERSION: u32 = 2;

/// A session with a copy-on-write view.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub(crate) version: u32,
    #[serde(with = "as_bytes")]
    pub(crate) workspace: PathBuf,
    /// Device and number of the workspace's inode.
    pub(crate) inode: (u64, u64),
    /// When the view was made, by the clock of the file system: seconds and nanoseconds.
    pub(crate) started: (i64, u64),
    /// In which run of the kernel.
    pub(crate) boot: String,
    /// The agent or program.
    pub(crate) subject: String,
    /// The command, for people.
    pub(crate) command: String,
    /// Protections that the session had lifted.
    pub(crate) opt_in: Vec<String>,
    /// Paths that the host would execute because something names them, relative to the workspace.
    pub(crate) named: Vec<Named>,
    pub(crate) repositories: Vec<Repository>,
    /// Tops of the working trees that the sandbox could write, each with its git directory.
    pub(crate) tops: Vec<Top>,
    /// Shadowed paths, relative to the workspace: what lies there does not belong to the session.
    pub(crate) shadowed: Vec<AnyPath>,
    /// Where names of the user's homes lie, by the variables of the session's start.
    #[serde(default)]
    pub(crate) parts: Vec<Part>,
    /// Directories in which the user's shell looks for programs: as they are written, where that is, and what was in them.
    #[serde(default)]
    pub(crate) ahead: Vec<(AnyPath, AnyPath, Vec<AnyPath>)>,
}

/// What every version of a record has.
#[derive(Debug, Deserialize)]
pub(crate) struct Form {
    pub(crate) version: u32,
}

/// A path that something names.
#[derive(Debug, Serialize, Deserialize)]
pub struct Named {
    #[serde(with = "as_bytes")]
    pub(crate) path: PathBuf,
    pub(crate) protected: Protected,
}

/// A git directory of which the session had a copy.
#[derive(Debug, Serialize, Deserialize)]
pub struct Repository {
    #[serde(with = "as_bytes")]
    pub(crate) host: PathBuf,
    #[serde(with = "as_bytes")]
    pub(crate) private: PathBuf,
    #[serde(with = "as_bytes")]
    pub(crate) base: PathBuf,
    pub(crate) number: usize,
    pub(crate) start: Start,
    #[serde(default)]
    pub(crate) stamps: Stamps,
}

/// A working tree.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Top {
    #[serde(with = "as_bytes")]
    pub(crate) top: PathBuf,
    #[serde(with = "as_bytes")]
    pub(crate) git: PathBuf,
}

/// Why the host would execute something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// A fragment that reads well after "because".
    pub reason: String,
    /// What lifts the protection for a whole session.
    pub opt_in: Option<String>,
}

/// What is called by the names of a home.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    #[serde(with = "as_bytes")]
    pub(crate) path: PathBuf,
    #[serde(with = "as_bytes")]
    pub(crate) name: PathBuf,
}

/// A path by itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AnyPath(#[serde(with = "as_bytes")] pub PathBuf);

/// Tells what of a session's changes is protected.
#[derive(Debug)]
pub(crate) struct Judge {
    protection: Protection,
    workspace: PathBuf,
    site: Site,
    named: Vec<(PathBuf, Protected)>,
    ahead: Vec<Ahead>,
    commands: Commands,
}

impl Record {
    /// Returns where the workspace really lies.
    pub(crate) fn site(&self) -> Site {
        let mut parts = home_parts(homes());
        let started = self.parts.iter();
        parts.extend(started.map(|it| HomePart { path: it.path.clone(), name: it.name.clone() }));
        Site::new(&self.workspace, &parts)
    }

    /// Returns the directories in which the user's shell looks for programs.
    pub(crate) fn ahead(&self) -> Vec<Ahead> {
        let name = |name: &AnyPath| name.0.clone().into();
        let ahead = |(written, directory, names): &(AnyPath, AnyPath, Vec<AnyPath>)| Ahead {
            written: written.0.clone(),
            directory: directory.0.clone(),
            names: names.iter().map(name).collect(),
        };
        self.ahead.iter().map(ahead).collect()
    }
}

impl Judge {
    /// Returns the rules of a session.
    ///
    /// # Errors
    /// Returns an error for an opt-in that this version does not know.
    pub(crate) fn new(record: &Record) -> io::Result<Self> {
        let lifted = record.opt_in.iter().map(String::as_str);
        let protection = Protection::defaults(lifted).map_err(io::Error::other)?;
        let named = record.named.iter().map(|it| (it.path.clone(), it.protected.clone()));
        let (workspace, site) = (record.workspace.clone(), record.site());
        let ahead = record.ahead();
        let roots = std::slice::from_ref(&workspace);
        let commands = Commands::new(&ahead, roots);
        Ok(Self { protection, workspace, site, named: named.collect(), ahead, commands })
    }

    /// Returns why what lies at a path, in a directory that is not protected, is not taken over.
    pub(crate) fn judge(&self, path: &Path) -> Option<Left> {
        if is_named(path, b".git") {
            return Some(protect("git on the host runs the hooks and configuration in it", None));
        }
        if let Some((_, protected)) = self.named.iter().find(|(named, _)| path.starts_with(named)) {
            return Some(Left::Protected(protected.clone()));
        }
        if let Some(Shadowing::OfSystem(reason)) = self.command(path) {
            return Some(protect(&reason.text, reason.opt_in.as_deref()));
        }
        let is_installed = |part: &OsStr| INSTALLED.contains(&part.as_bytes());
        if path.parent()?.iter().any(is_installed) {
            return None;
        }
        let class = self.protection.classify(&self.site, path)?.executed()?;
        let reason = class.reason();
        Some(protect(&reason.text, reason.opt_in.as_deref()))
    }

    /// Judges a name that is new where the user's shell looks for programs.
    fn command(&self, path: &Path) -> Option<Shadowing> {
        let (directory, name) = (self.workspace.join(path.parent()?), path.file_name()?);
        let knows = |ahead: &Ahead| ahead.names.iter().any(|known| known == name);
        let is_known = |ahead: &Ahead| ahead.directory == directory && knows(ahead);
        let is_new = !self.ahead.iter().any(is_known);
        self.commands.judge(&self.workspace.join(path)).filter(|_| is_new)
    }

    /// Returns why a new name is not taken over, whatever it stands for.
    pub(crate) fn name(&self, name: &OsStr) -> Option<Left> {
        let is_odd = !self.protection.is_lifted(ODD_NAMES) && has_controls(name.as_bytes());
        is_odd.then(|| protect(ODD, Some(ODD_NAMES)))
    }

    /// Returns why a new link, or a file with new content, is not taken over, whatever its name. It is
    /// `name` in `directory`, and `path` below the workspace.
    pub(crate) fn content(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        path: &Path,
        node: &Node,
    ) -> Option<Left> {
        if node.kind == FileType::Symlink
            && let Some(protected) = self.leads_to(path)
        {
            return Some(Left::Protected(protected));
        }
        if node.kind == FileType::Symlink && !self.protection.is_lifted(OUTWARD_LINKS) {
            let text = rustix::fs::readlinkat(directory, name, Vec::new()).ok()?;
            let all = [self.workspace.as_path()];
            let protected = |place: &Path| {
                let below = place.strip_prefix(&self.workspace).ok()?;
                let mut named = self.named.iter();
                let named = named
                    .find(|(named, _)| below.starts_with(named))
                    .map(|(_, protected)| protected.reason.clone());
                named.or_else(|| executed(&self.protection, &self.site, below))
            };
            let roots = Roots { root: &self.workspace, all: &all, protected: &protected };
            let why = leads_away(roots, path, text.as_bytes(), &[], &[])?;
            return Some(protect(&why, Some(OUTWARD_LINKS)));
        }
        if node.size > LARGEST_HOLES && !self.protection.is_lifted(SPARSE_FILES) {
            let why = claims_too_much(directory, name.as_bytes())?;
            return Some(protect(&why, Some(SPARSE_FILES)));
        }
        None
    }

    /// Returns whether a link that was staged is not the one that a user decided on.
    pub(crate) fn is_worse(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        change: &Change,
        node: &Node,
    ) -> bool {
        let is_by_name = |left: &Left| self.judge(&change.path).as_ref() == Some(left);
        node.kind == FileType::Symlink
            && !change.left.as_ref().is_some_and(is_by_name)
            && self.content(directory, name, &change.path, node) != change.left
    }

    /// Returns why something that a link at this path leads to is protected, although the link is not: its name is that of a
    /// directory in which something is.
    fn leads_to(&self, link: &Path) -> Option<Protected> {
        let named = self.named.iter().find(|(named, _)| named.starts_with(link));
        if self.commands.leads_through(&self.workspace.join(link)) {
            let reason = "a directory on your PATH leads through it".to_owned();
            return Some(Protected { reason, opt_in: Some(COMMANDS.into()) });
        }
        let class = || {
            let (_, class) = self.protection.leads_to(&self.site, link).first().copied()?;
            let reason = class.reason();
            let opt_in = reason.opt_in.map(String::from);
            Some(Protected { reason: reason.text.into_owned(), opt_in })
        };
        named.map(|(_, protected)| protected.clone()).or_else(class)
    }

    /// Returns whether a directory is laid out as git's are, although it is not called `.git`.
    pub(crate) fn bare_repository(&self, entries: &[OsString]) -> Option<Left> {
        let has = |name: &str| entries.iter().any(|entry| entry == name);
        let is_layout = has("HEAD") && (has("commondir") || (has("objects") && has("refs")));
        if !is_layout || self.protection.is_lifted(BARE_REPOSITORIES) {
            return None;
        }
        Some(Left::Protected(Protected {
            reason: "git on the host runs the hooks and configuration in it".to_owned(),
            opt_in: Some(BARE_REPOSITORIES.to_owned()),
        }))
    }
}

fn protect(reason: &str, opt_in: Option<&str>) -> Left {
    let (reason, opt_in) = (reason.to_owned(), opt_in.map(str::to_owned));
    Left::Protected(Protected { reason, opt_in })
}

/// A path as text, and one that is no text as its bytes.
pub(super) mod as_bytes {
    use std::ffi::OsString;
    use std::fmt;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::de::{SeqAccess, Visitor};
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        deserializer.deserialize_any(Reader)
    }

    struct Reader;

    impl<'de> Visitor<'de> for Reader {
        type Value = PathBuf;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a path, or its bytes")
        }

        fn visit_str<E>(self, text: &str) -> Result<PathBuf, E> {
            Ok(PathBuf::from(text))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<PathBuf, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = sequence.next_element()? {
                bytes.push(byte);
            }
            Ok(PathBuf::from(OsString::from_vec(bytes)))
        }
    }
}
