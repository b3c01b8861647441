//! Copies of files in the user's home.
//!
//! A link is followed where a user makes one: at an entry of the profile's list, or directly below it. What is
//! deeper may come from somebody else (a shared skill), and so may all of a directory that lies in a repository. A
//! link there must stay within the entry. No link leads to what agents keep in the home: their logins, settings and
//! histories. Wherever a link leads, the file counts by where it really lies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_host::directories::{Places, resolved};
use pinfold_names::misleading::has_controls;
use pinfold_names::{HomePart, Protection, Site};
use pinfold_policy::authority::Effect;
use pinfold_policy::path::Escaped;
use rustix::fs::OFlags;

use super::sources::{Source, Sources, is_in_a_repository};

/// The most that one entry of the list has.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 16 * 1024 * 1024;
const DEEPEST: usize = 12;
/// Entries of directories that are looked at for one entry of the list.
const MOST_SEEN: usize = 20_000;

/// What agents keep in the home, logins and histories among it. Only what a profile lists of it comes in.
const OF_AGENTS: [&str; 10] = [
    ".aider",
    ".claude",
    ".claude.json",
    ".codex",
    ".config",
    ".cursor",
    ".gemini",
    ".local",
    ".opencode",
    ".pi",
];

/// Names of what is no part of a setup.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// An entry of the list, as it comes in.
#[derive(Debug)]
pub(super) struct Copied {
    /// Relative to the home.
    pub(super) path: PathBuf,
    /// Every file by its path relative to the home.
    pub(super) files: BTreeMap<PathBuf, CopiedFile>,
    is_directory: bool,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct CopiedFile {
    pub(super) content: Vec<u8>,
    pub(super) is_executable: bool,
}

/// Reads what may be copied.
pub(super) struct Copier {
    sources: Sources,
    /// Where pinfold's own files really lie.
    own: [PathBuf; 3],
    /// Every name of a secret: no opt-in lifts one here.
    protection: Protection,
}

/// One entry while it is read.
struct Reading<'r> {
    source: Source<'r>,
    files: BTreeMap<PathBuf, CopiedFile>,
    bytes: u64,
    seen: usize,
    left_out: &'r mut Vec<String>,
}

/// Why an entry as a whole does not come in.
enum TooMuch {
    Files,
    Bytes,
}

impl Copied {
    pub(super) fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Returns what it is called, with the number of its files.
    pub(super) fn described(&self) -> String {
        let path = Escaped(&self.path);
        match (self.is_directory, self.files.len()) {
            (false, _) => path.to_string(),
            (true, 1) => format!("{path} (1 file)"),
            (true, files) => format!("{path} ({files} files)"),
        }
    }
}

impl Copier {
    /// Returns what reads from these sources.
    pub(super) fn new(places: &Places, sources: Sources) -> Self {
        let own = [&places.config, &places.state, &places.cache].map(|path| resolved(path));
        Self { sources, own, protection: Protection::default() }
    }

    /// Returns the names of the variables that say where something is.
    pub(super) fn variables(&self) -> Vec<&str> {
        self.sources.variables()
    }

    /// Copies an entry of the list; `None` if it is not there or nothing of it may come in.
    pub(super) fn copy(&self, path: &Path, left_out: &mut Vec<String>) -> Option<Copied> {
        let source = self.sources.of(path);
        let (file, place) = self.open(&source.at, path, &source, left_out)?;
        let why = match place == source.at {
            true => None,
            false if self.is_of_an_agent(&place) => Some("a link to an agent's files"),
            false if !source.may_lead_out => Some("a link"),
            false => None,
        };
        if let Some(why) = why {
            left_out.push(format!("{} ({why})", Escaped(path)));
            return None;
        }
        let is_directory = file.metadata().ok()?.is_dir();
        let mut reading = Reading { source, files: BTreeMap::new(), bytes: 0, seen: 0, left_out };
        let read = if is_directory {
            self.directory(&place, path, &place, 0, &mut reading)
        } else {
            Self::read(file, path, &mut reading)
        };
        if let Err(too_much) = read {
            let limit = match too_much {
                TooMuch::Files => format!("more than {MOST_FILES} files"),
                TooMuch::Bytes => format!("more than {} MiB", MOST_BYTES >> 20),
            };
            reading.left_out.push(format!("{} ({limit})", Escaped(path)));
            return None;
        }
        let files = reading.files;
        (!files.is_empty()).then(|| Copied { path: path.to_owned(), files, is_directory })
    }

    /// Reads a file alone, at most [`MOST_BYTES`].
    pub(super) fn file(&self, path: &Path, left_out: &mut Vec<String>) -> Option<Vec<u8>> {
        let source = self.sources.of(path);
        let (file, place) = self.open(&source.at, path, &source, left_out)?;
        if !source.may_lead_out && place != source.at {
            left_out.push(format!("{} (a link)", Escaped(path)));
            return None;
        }
        let mut reading = Reading { source, files: BTreeMap::new(), bytes: 0, seen: 0, left_out };
        if Self::read(file, path, &mut reading).is_err() {
            reading.left_out.push(format!("{} (too large)", Escaped(path)));
            return None;
        }
        reading.files.remove(path).map(|file| file.content)
    }

    fn directory(
        &self,
        place: &Path,
        path: &Path,
        root: &Path,
        depth: usize,
        reading: &mut Reading<'_>,
    ) -> Result<(), TooMuch> {
        let Ok(entries) = fs::read_dir(place) else { return Ok(()) };
        let home = self.sources.home();
        let may_lead_out =
            depth == 0 && reading.source.may_lead_out && !is_in_a_repository(home, place);
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            reading.seen += 1;
            if reading.seen > MOST_SEEN || depth > DEEPEST {
                return Err(TooMuch::Files);
            }
            let (at, path) = (place.join(&name), path.join(&name));
            if SKIPPED.iter().any(|skipped| name == *skipped) || has_controls(name.as_bytes()) {
                continue;
            }
            let opened = self.open(&at, &path, &reading.source, reading.left_out);
            let Some((file, real)) = opened else { continue };
            let leads_out = !real.starts_with(root);
            if leads_out && (!may_lead_out || self.is_of_an_agent(&real)) {
                reading.left_out.push(format!("{} (a link)", Escaped(&path)));
                continue;
            }
            // A link at the first level has an entry's rights, and its own bounds.
            let root = if leads_out { real.as_path() } else { root };
            if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
                self.directory(&real, &path, root, depth + 1, reading)?;
            } else {
                Self::read(file, &path, reading)?;
            }
        }
        Ok(())
    }

    /// Opens what a path leads to and finds where that really lies. `None` if it is not there, or may not come
    /// in.
    fn open(
        &self,
        at: &Path,
        path: &Path,
        source: &Source<'_>,
        left_out: &mut Vec<String>,
    ) -> Option<(File, PathBuf)> {
        let within = source.within;
        // A FIFO would be waited for.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags.bits().cast_signed();
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(at).ok()?;
        let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let metadata = file.metadata().ok()?;
        let why = if !(metadata.is_file() || metadata.is_dir()) {
            Some("no file")
        } else if !real.starts_with(within) || real == within {
            Some(if within == self.sources.home() { "outside your home" } else { "a link" })
        } else if source.outside.is_some_and(|outside| real.starts_with(outside)) {
            Some("in the workspace")
        } else if self.own.iter().any(|own| real.starts_with(own)) {
            Some("pinfold's own")
        } else if self.is_secret(&real) || self.is_secret(&self.sources.home().join(path)) {
            Some("a secret by its name")
        } else {
            None
        };
        match why {
            None => Some((file, real)),
            Some(why) => {
                left_out.push(format!("{} ({why})", Escaped(path)));
                None
            }
        }
    }

    /// Returns whether a path lies in what agents keep in the home, or where a variable says.
    fn is_of_an_agent(&self, real: &Path) -> bool {
        let first = real.strip_prefix(self.sources.home()).ok().and_then(|path| path.iter().next());
        self.sources.is_moved(real)
            || first.is_none_or(|first| OF_AGENTS.iter().any(|name| first == *name))
    }

    /// Returns whether a path, or a directory above it, has the name of a secret. One that a variable
    /// moves also counts by the name that it has without the variable.
    fn is_secret(&self, real: &Path) -> bool {
        let usual = self.sources.in_usual_home(real);
        let is_in_home = real.starts_with(self.sources.home());
        match usual {
            Some(usual) => {
                self.has_name_of_secret(&usual) || is_in_home && self.has_name_of_secret(real)
            }
            None => self.has_name_of_secret(real),
        }
    }

    fn has_name_of_secret(&self, real: &Path) -> bool {
        let home = self.sources.home();
        let Ok(relative) = real.strip_prefix(home) else { return true };
        let site = Site::new(home, &[HomePart::home(home.to_owned())]);
        let mut parts = relative.ancestors().filter(|part| !part.as_os_str().is_empty());
        self.protection.refuses(real).is_some()
            || parts.any(|part| {
                let class = self.protection.classify(&site, part);
                class.is_some_and(|class| class.effect() == Effect::Hide)
            })
    }

    fn read(file: File, path: &Path, reading: &mut Reading<'_>) -> Result<(), TooMuch> {
        let is_executable = file.metadata().is_ok_and(|metadata| metadata.mode() & 0o100 != 0);
        if reading.files.len() == MOST_FILES {
            return Err(TooMuch::Files);
        }
        let left = MOST_BYTES - reading.bytes;
        let mut content = Vec::new();
        if file.take(left + 1).read_to_end(&mut content).is_err() {
            reading.left_out.push(format!("{} (cannot be read)", Escaped(path)));
            return Ok(());
        }
        let length = content.len() as u64;
        if length > left {
            return Err(TooMuch::Bytes);
        }
        reading.bytes += length;
        reading.files.insert(path.to_owned(), CopiedFile { content, is_executable });
        Ok(())
    }
}
