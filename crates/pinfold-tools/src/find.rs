//! Finding files by their names.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::overrides::Override;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::error::ToolError;
use crate::list::{entry_of, start};
use crate::operation::{EntryKind, Find, FindDone};
use crate::roots::Roots;
use crate::walk::{Cancel, check_pattern, pattern_error, walk};

/// How many are returned unless another number is asked for.
const ENTRIES: u64 = 1_000;

/// Finds files by their names.
///
/// # Errors
/// Returns an error for a pattern that cannot be read, a place that is no directory.
pub(crate) fn find(roots: &Roots, find: &Find, cancel: &Cancel) -> Result<FindDone, ToolError> {
    let glob = Glob::new(&find.pattern)?;
    let (root, kind) = start(roots, &find.path)?;
    if kind != EntryKind::Directory {
        return Err(ToolError::system(&find.path)(Errno::NOTDIR));
    }
    let limit = find.limit.unwrap_or(ENTRIES);
    let (mut entries, mut truncated) = (Vec::new(), false);
    for entry in walk(&root, find.ignored, Override::empty()) {
        let entry = entry?;
        cancel.check()?;
        let Ok(path) = entry.path().strip_prefix(&root) else { continue };
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        if path.as_os_str().is_empty() || !glob.matches(path, is_directory) {
            continue;
        }
        if entries.len() as u64 >= limit {
            truncated = true;
            break;
        }
        let about = rustix::fs::statat(rustix::fs::CWD, entry.path(), AtFlags::SYMLINK_NOFOLLOW);
        if let Ok(about) = about {
            entries.push(entry_of(path.into(), &about));
        }
    }
    Ok(FindDone { entries, truncated })
}

/// A glob with the rule of gitignore(5) for slashes.
struct Glob {
    matcher: GlobMatcher,
    of_names: bool,
    of_directories: bool,
}

impl Glob {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        check_pattern(pattern)?;
        let of_names = !pattern.trim_end_matches('/').contains('/');
        let anchored = pattern.strip_prefix('/').unwrap_or(pattern).trim_end_matches('/');
        let glob = GlobBuilder::new(anchored)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| pattern_error(&error))?;
        let of_directories = pattern.ends_with('/');
        Ok(Self { matcher: glob.compile_matcher(), of_names, of_directories })
    }

    fn matches(&self, path: &Path, is_directory: bool) -> bool {
        if self.of_directories && !is_directory {
            return false;
        }
        match path.file_name() {
            Some(name) if self.of_names => self.matcher.is_match(Path::new(name)),
            _ => self
                .matcher
                .is_match(Path::new(std::ffi::OsStr::from_bytes(path.as_os_str().as_bytes()))),
        }
    }
}
