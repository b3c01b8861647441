//! What a session changed that tools on the host run: it is theirs to change, and its user's to look at.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pinfold_policy::path::Escaped;

/// The kernel's clock for files is behind the exact one by a tick, 10 ms at most (`CONFIG_HZ=100`).
const TICK: Duration = Duration::from_millis(20);
/// More are only counted.
const MOST: usize = 5;
/// What becomes of one that is changed.
const BECOMES: &str = "your tools run it";

/// Files and directories of the workspace that tools on the host run.
#[derive(Debug)]
pub struct Built {
    began: Duration,
    paths: Vec<PathBuf>,
}

impl Built {
    /// Begins when the session does.
    pub fn begin() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: now.saturating_sub(TICK), paths: Vec::new() }
    }

    /// Adds paths that were found at the start.
    pub fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.paths.extend(paths);
    }

    /// Returns a line that names what was changed or made since the start, by whichever process.
    /// `new` was found at the end.
    pub fn note(&self, new: &[PathBuf], roots: &[PathBuf]) -> Option<String> {
        let mut changed: Vec<&PathBuf> = self.paths.iter().chain(new).collect();
        changed.retain(|path| self.is_changed(path));
        note(changed, BECOMES, roots)
    }

    fn is_changed(&self, path: &Path) -> bool {
        let began = i128::from(self.began.as_secs()) * 1_000_000_000
            + i128::from(self.began.subsec_nanos());
        let changed = |found: fs::Metadata| {
            i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec())
        };
        fs::symlink_metadata(path).is_ok_and(|found| changed(found) >= began)
    }
}

/// Returns a line that names changed files, relative to these roots, with what becomes of them.
#[must_use]
pub fn note(mut changed: Vec<&PathBuf>, becomes: &str, roots: &[PathBuf]) -> Option<String> {
    changed.sort();
    changed.dedup();
    let shown = |path: &&PathBuf| {
        let below = roots
            .iter()
            .filter_map(|root| path.strip_prefix(root).ok())
            .min_by_key(|below| below.as_os_str().len());
        Escaped(below.unwrap_or(path)).to_string()
    };
    let names: Vec<String> = changed.iter().take(MOST).map(shown).collect();
    let more = match changed.len().checked_sub(MOST) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    let are_some = !names.is_empty();
    are_some.then(|| format!("changed, and {becomes}: {}{more}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn new_and_changed_files_are_named_and_the_rest_counted() {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("Makefile"), "").unwrap();
        std::thread::sleep(2 * TICK);
        let mut built = Built::begin();
        built.add([at("Makefile"), at("gone")]);
        let roots = [dir.path().to_owned()];
        assert_eq!(built.note(&[], &roots), None);
        fs::write(at("Makefile"), "x").unwrap();
        let note = "changed, and your tools run it: Makefile";
        assert_eq!(built.note(&[at("Makefile")], &roots).unwrap(), note);
        let new: Vec<PathBuf> = (0..7).map(|number| at(&format!("a\u{1b}{number}"))).collect();
        new.iter().for_each(|path| fs::write(path, "").unwrap());
        let note = built.note(&new, &roots).unwrap();
        assert!(note.ends_with(" and 3 more") && note.contains("a\\u{1b}0"), "{note}");
    }
}
