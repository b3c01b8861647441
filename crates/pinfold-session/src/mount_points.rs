//! Where file systems are mounted (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A mount point below a directory, if there is one.
///
/// # Errors
/// What reading the list says.
pub(crate) fn within(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let points = mounts.split(|byte| *byte == b'\n').filter_map(|line| {
        let point = line.split(|byte| *byte == b' ').nth(4)?;
        Some(unescape(point))
    });
    let mut within = points.filter(|point| point != directory && point.starts_with(directory));
    Ok(within.next())
}

/// A path as proc(5) writes it: blanks and backslashes as three octal digits.
fn unescape(path: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let byte =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(out))
}
