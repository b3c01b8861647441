//! The files that say what a walk leaves out. The `ignore` crate opens them by their paths and reads
//! them to their ends, which nothing takes back: a FIFO would make it wait for ever, `/dev/zero` fill
//! the memory. So what is no file of a sensible size does not get that far.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::walk::{GIT, RIPGREP};

/// Bytes of the longest.
const MOST: u64 = 1 << 20;

/// Returns the first of a directory's that cannot be read as one.
pub(crate) fn unreadable(directory: &Path) -> Option<PathBuf> {
    let own = [RIPGREP, ".ignore", ".gitignore"].map(|name| directory.join(name));
    own.into_iter().chain(of_git(directory)).find(|path| is_unreadable(path))
}

/// Git's own, or what is on the way there.
fn of_git(directory: &Path) -> Option<PathBuf> {
    const EXCLUDE: &str = "info/exclude";
    let git = directory.join(GIT);
    let about = fs::metadata(&git).ok()?;
    if !about.is_file() {
        return Some(git.join(EXCLUDE));
    }
    if is_too_large(&about) {
        return Some(git);
    }
    let own = PathBuf::from(first_line(&git).ok()?.strip_prefix("gitdir: ")?);
    let pointer = own.join("commondir");
    if is_unreadable(&pointer) {
        return Some(pointer);
    }
    let common = first_line(&pointer).ok()?;
    let common = if common.starts_with('.') { own.join(common) } else { common.into() };
    Some(common.join(EXCLUDE))
}

fn is_unreadable(path: &Path) -> bool {
    let null = rustix::fs::makedev(1, 3);
    // A directory is refused when it is read.
    fs::metadata(path).is_ok_and(|about| {
        let is_known = about.is_file() || about.is_dir() || about.rdev() == null;
        !is_known || is_too_large(&about)
    })
}

fn is_too_large(about: &Metadata) -> bool {
    about.is_file() && about.len() > MOST
}

fn first_line(path: &Path) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(File::open(path)?.take(MOST)).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
