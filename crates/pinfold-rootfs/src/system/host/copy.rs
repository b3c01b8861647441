//! Copying what everybody on the machine may read.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use pinfold_terminal::notify;
use rustix::fs::XattrFlags;

use crate::system::OPAQUE;

/// Larger files of configuration are not looked through, and not copied.
const LARGEST_CONFIGURATION: u64 = 1 << 20;

/// Makes the directories below one again, empty, as far as its file system reaches. Those that not
/// everybody may enter are not seen through.
///
/// # Errors
/// Returns the error of making them.
pub(super) fn directories(from: &Path, to: &Path, device: u64) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.dev() != device {
        return Ok(());
    }
    fs::create_dir(to)?;
    if !is_public(&found) {
        return closed(to);
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            directories(&entry.path(), &to.join(entry.file_name()), device)?;
        }
    }
    set_mode(to, found.mode())
}

/// Hides what lower layers have in a directory, so that packages can put files of their own there. Where
/// the file system keeps no such notes there is no directory either, and the kernel refuses.
fn closed(place: &Path) -> io::Result<()> {
    let opaque = rustix::fs::setxattr(place, OPAQUE, b"y", XattrFlags::empty());
    opaque.or_else(|_| fs::remove_dir(place))
}

/// Copies a file, a link, or a directory with all that is in it; what not everybody may read, and
/// what is nothing of these, is left out.
///
/// # Errors
/// Returns the error of reading and writing.
pub(super) fn public(from: &Path, to: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if !is_public(&found) {
        return Ok(());
    }
    if found.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            public(&from.join(&name), &to.join(&name))?;
        }
    } else if found.is_file() {
        if from.starts_with("/etc/apt") && tells(from, &found)? {
            notify!(
                "pinfold: note: {} names a proxy or a login, so set-up commands do not see it",
                from.display()
            );
            return Ok(());
        }
        fs::copy(from, to)?;
    } else {
        return Ok(());
    }
    set_mode(to, found.mode())
}

/// Gives a mode without set-user-ID and set-group-ID bits that lets the owner in.
///
/// # Errors
/// Returns the error of `chmod(2)`.
pub(super) fn set_mode(place: &Path, mode: u32) -> io::Result<()> {
    let owner = if place.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(place, Permissions::from_mode((mode | owner) & 0o1777))
}

/// Returns whether everybody may read it, and enter it if it is a directory.
fn is_public(found: &fs::Metadata) -> bool {
    let wanted = if found.is_dir() { 0o005 } else { 0o004 };
    found.mode() & wanted == wanted
}

fn tells(path: &Path, found: &fs::Metadata) -> io::Result<bool> {
    if path.extension().is_some_and(|ending| ending == "gpg" || ending == "asc") {
        return Ok(false);
    }
    if found.size() > LARGEST_CONFIGURATION {
        return Ok(true);
    }
    let text = String::from_utf8_lossy(&fs::read(path)?).to_ascii_lowercase();
    Ok(text.contains("proxy") || names_a_login(&text))
}

/// Returns whether an address in a text has a part for a user (RFC 3986, 3.2.1).
pub(super) fn names_a_login(text: &str) -> bool {
    let authority = |rest: &str| {
        let end = |c: char| c.is_whitespace() || "/?#\"';".contains(c);
        rest.split(end).next().is_some_and(|authority| authority.contains('@'))
    };
    text.split("://").skip(1).any(authority)
}
