//! Files and directories with a secret's name that are new since a session started.
//!
//! What was there at the start is hidden, or shown because git has its content, and has been decided on. A session can make
//! such files itself, in a live checkout under the very names that the host uses. So nothing that is there at the end says that
//! a new one is harmless.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_host::directories::Places;
use pinfold_host::note::{Note, Topic};
use pinfold_names::{Protection, Site};
use pinfold_policy::authority::Effect;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::FileSettings;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::home_parts::{home_parts, site_of};
use crate::masks::Fell;
use crate::own::Own;
use crate::protect::{Finding, INSTALLED, Look, Rules, Surveyor, What, Zone};
use crate::survey::{Entries, Listing, walk};

/// More are only counted.
const MOST_NAMED: usize = 32;
/// What is written down of a view, in the session's private directory.
const RECORD: &str = "below-view.json";
const NEW_RECORD: &str = "below-view.json.new";

/// Who may have made what is new in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// The host alone: the session's changes lie elsewhere.
    Host,
    /// The host or the session.
    Either,
}

/// The names by which what is new below a view is judged.
#[derive(Debug, Clone)]
pub struct Newcomers {
    pub root: PathBuf,
    pub site: Site,
    pub protection: Protection,
    pub files: FileSettings,
    pub own: Arc<Own>,
    /// All granted roots: what is granted by its name is wanted.
    pub roots: Vec<PathBuf>,
    /// The working trees, each with the private copy of its git directory in `private`.
    pub tops: Vec<(PathBuf, PathBuf)>,
    pub private: PathBuf,
    /// What had the name of a secret at the start.
    pub known: BTreeSet<PathBuf>,
}

/// What the next start needs to know if the session is killed.
#[derive(Serialize, Deserialize)]
struct Written {
    root: Vec<u8>,
    roots: Vec<Vec<u8>>,
    known: Vec<Vec<u8>>,
    opt_in: Vec<String>,
}

impl Newcomers {
    /// Returns which of the names in a directory of the workspace are new ones of secrets. The directory is relative to the
    /// root.
    pub(crate) fn among(&self, listing: &Listing) -> Vec<PathBuf> {
        let mut parts = listing.path().iter().map(|part| part.as_bytes());
        let is_installed = parts.any(|part| INSTALLED.contains(&part));
        let zone = if is_installed { Zone::Installed } else { Zone::Tree };
        self.judge(|surveyor| surveyor.visit(listing, zone, &mut Vec::new()))
    }

    /// Returns all new names of secrets once the session has ended: those that are there, and those that were seen before.
    /// If the workspace cannot be read, the user should know. `cache` is pinfold's own.
    #[must_use]
    pub fn at_end(&self, cache: &Path, fell: &Fell) -> (BTreeSet<PathBuf>, Option<Note>) {
        let mut new = fell.made.clone();
        let unread = self.walk(cache).map(|found| new.extend(found)).err();
        let unread = unread.filter(|errno| *errno != Errno::NOENT).map(|errno| {
            Note::warning(format!(
                "{}: it could not be read again ({errno}), so what was made there under names of secrets is not named",
                Escaped(&self.root)
            ))
        });
        new.retain(|path| !is_within(path, &fell.renamed));
        (new, unread)
    }

    fn walk(&self, cache: &Path) -> Result<Vec<PathBuf>, Errno> {
        let mut walked = Ok(());
        let new = self.judge(|surveyor| {
            let entries = if surveyor.needs_all_names() { Entries::All } else { Entries::Notable };
            let visit = &mut |it: &crate::survey::Visited<'_>, zone, below: &mut Vec<_>| {
                surveyor.visit(it.listing, zone, below);
            };
            walked = walk(&self.root, Zone::Tree, cache, entries, visit).map(drop);
        });
        walked.map(|()| new)
    }

    fn judge(&self, visit: impl FnOnce(&mut Surveyor<'_>)) -> Vec<PathBuf> {
        let rules = Rules {
            protection: self.protection.clone(),
            files: &self.files,
            own: &self.own,
            roots: self.roots.clone(),
        };
        let mut surveyor = Surveyor::new(&rules, &self.root, &self.site, false, Look::Before);
        visit(&mut surveyor);
        let is_meant = |it: &Finding| is_secret(it) || matches!(it.what, What::Denied(..));
        let found = surveyor.findings.into_iter().filter(is_meant).map(|finding| finding.path);
        found.filter(|path| !is_within(path, &self.known)).collect()
    }

    /// Writes down what the next start needs if the session is killed. `private` is the session's directory.
    ///
    /// # Errors
    /// Returns the error of writing or renaming it.
    pub fn write_down(&self, private: &Path) -> io::Result<()> {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let written = Written {
            root: bytes(&self.root),
            roots: self.roots.iter().map(bytes).collect(),
            known: self.known.iter().map(bytes).collect(),
            opt_in: self.files.opt_in.iter().map(|name| name.value.clone()).collect(),
        };
        let new = private.join(NEW_RECORD);
        Places::write_private(&new, &serde_json::to_vec(&written)?)?;
        fs::rename(&new, private.join(RECORD))
    }

    /// Returns what a dead session wrote down, if it had a view.
    ///
    /// # Errors
    /// Returns the error of reading it, or that it is damaged.
    fn of_dead(private: &Path, files: &FileSettings, places: &Places) -> io::Result<Option<Self>> {
        let written = match fs::read(private.join(RECORD)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            written => serde_json::from_slice::<Written>(&written?)?,
        };
        let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        let own = Arc::new(Own::find(places)?);
        let root = path(written.root);
        let opt_in = written.opt_in.iter().map(String::as_str);
        Ok(Some(Self {
            site: site_of(&root, &home_parts(&places.homes()), &own),
            root,
            protection: Protection::defaults(opt_in).map_err(io::Error::other)?,
            files: files.clone(),
            own,
            roots: written.roots.into_iter().map(path).collect(),
            tops: Vec::new(),
            private: PathBuf::new(),
            known: written.known.into_iter().map(path).collect(),
        }))
    }
}

/// Returns what the user should know of what the host made below the view of a dead session, if it had one.
#[must_use]
pub fn of_dead(private: &Path, files: &FileSettings, places: &Places) -> Vec<Note> {
    match Newcomers::of_dead(private, files, places) {
        Ok(None) => Vec::new(),
        Ok(Some(newcomers)) => {
            let (made, unread) = newcomers.at_end(&places.cache, &Fell::default());
            notes(&made, Maker::Host).into_iter().chain(unread).collect()
        }
        Err(error) => vec![Note::warning(format!(
            "its record {RECORD} cannot be read ({error}), so what was made below its view under names of secrets is not named"
        ))],
    }
}

/// Returns whether something was found because it has a secret's name.
#[must_use]
pub fn is_secret(finding: &Finding) -> bool {
    matches!(&finding.what, What::Named(class) if class.effect() == Effect::Hide)
}

/// Returns whether a path is one of these, or lies in one.
#[must_use]
pub fn is_within(path: &Path, all: &BTreeSet<PathBuf>) -> bool {
    path.ancestors().any(|above| all.contains(above))
}

/// Returns what the user should know of these new names, in what is granted that `maker` can write to. What lies in
/// another one of them is not named.
#[must_use]
pub fn notes(paths: &BTreeSet<PathBuf>, maker: Maker) -> Vec<Note> {
    let (verdict, reason) = match maker {
        Maker::Host => (
            "made on the host while the sandbox ran",
            "the sandbox may have read it; change the secrets in it",
        ),
        Maker::Either => (
            "made while the sandbox ran, by the host or by the sandbox",
            "if it was the host, the sandbox may have read it; then change the secrets in it",
        ),
    };
    let is_uppermost = |path: &&PathBuf| path.parent().is_none_or(|above| !is_within(above, paths));
    let uppermost: Vec<&PathBuf> = paths.iter().filter(is_uppermost).collect();
    let (named, counted) = uppermost.split_at(uppermost.len().min(MOST_NAMED));
    let note = |name: String| Note::named(Topic::Warning, verdict, name, reason);
    let more =
        (!counted.is_empty()).then(|| format!("{} more with a secret's name", counted.len()));
    named.iter().map(|path| Escaped(path).to_string()).chain(more).map(note).collect()
}
