//! Absolute, lexically normalised paths, one type for each side of the wall.
//!
//! A path outside and a path inside may be spelled alike and mean different files, so they are
//! different types. Both are bytes: Linux file names need not be UTF-8 (path_resolution(7)).

mod mount_field;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

pub use self::mount_field::of_mount_field;

/// Where systems have the certificates of authorities: Debian and Arch, Fedora.
const CERTIFICATE_DIRECTORIES: [&str; 3] = ["/etc/ssl", "/usr/lib/ssl", "/etc/pki"];

/// Returns whether a path without links lies where systems have the certificates of authorities.
#[must_use]
pub fn has_system_authorities(path: &Path) -> bool {
    CERTIFICATE_DIRECTORIES.iter().any(|system| path.starts_with(system))
}

/// Why a path cannot be a [`HostPath`] or an [`InsidePath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path does not begin with `/`.
    #[error("path {} is relative; give it from the root", Escaped(.0))]
    Relative(PathBuf),
    /// The path contains `..`, whose meaning depends on symbolic links that are not known here.
    #[error("path {} contains `..`; give it without", Escaped(.0))]
    Parent(PathBuf),
    /// The path contains a NUL byte, which the kernel takes as its end.
    #[error("path {} contains a NUL byte", Escaped(.0))]
    Nul(PathBuf),
    /// An absolute path was given where one below another path was meant.
    #[error("path {} is absolute; write it relative to its directory", Escaped(.0))]
    Absolute(PathBuf),
}

/// Shows a path on one line: valid text as it is, control characters and bytes that are not
/// UTF-8 as escapes, so that a file name cannot forge a message or drive a terminal.
pub struct Escaped<'a>(pub &'a Path);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.as_os_str().as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_plain(character) && character != '\\' {
                    write!(f, "{character}")?;
                } else {
                    write!(f, "{}", character.escape_default())?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Shows the name of a file on one line as [`Escaped`] does, cut in the middle if it is long.
pub struct Brief<'a>(pub &'a Path);

impl Brief<'_> {
    /// The longest text, in bytes.
    pub const LONGEST: usize = 256;
}

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cut(&Escaped(self.0).to_string(), Self::LONGEST))
    }
}

/// Cuts a text in the middle if it is longer than this many bytes.
#[must_use]
pub fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    const MARK: &str = "…";
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    let room = longest.saturating_sub(MARK.len());
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=room / 2).rev().find(is_boundary).unwrap_or(0);
    let end = (text.len() - room / 2..text.len()).find(is_boundary).unwrap_or(text.len());
    Cow::Owned([&text[..start], MARK, &text[end..]].concat())
}

/// Returns whether a character may be shown on a terminal as it is: one that a reader sees, and that
/// moves none of its neighbours.
///
/// Not plain are controls, what reorders or breaks a line (Unicode Bidirectional Algorithm, UAX #9),
/// what is not drawn (`Default_Ignorable_Code_Point` of Unicode 16, UAX #44), and blanks that look
/// like another or like nothing.
#[must_use]
pub fn is_plain(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            // Not drawn, or moves its neighbours.
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
            // Blanks.
            | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}'
            | '\u{3000}')
}

/// Returns a text on one line, with escapes for all that is not plain.
#[must_use]
pub fn plain_line(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if is_plain(character) {
            line.push(character)
        } else {
            line.extend(character.escape_default())
        }
    }
    Cow::Owned(line)
}

/// Removes `.` and repeated separators; refuses what has no meaning without a file system.
fn normalise(path: &Path, mut out: PathBuf) -> Result<PathBuf, PathError> {
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(PathError::Nul(path.to_owned()));
    }
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => return Err(PathError::Parent(path.to_owned())),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(out)
}

/// Returns what remains of a path below `base`; none where it does not lie there. Both are normalised,
/// so bytes decide, which takes a tenth of comparing components.
fn below<'a>(path: &'a [u8], base: &[u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(base)? {
        [b'/', rest @ ..] => Some(rest),
        rest if rest.is_empty() || base == b"/" => Some(rest),
        _ => None,
    }
}

macro_rules! absolute_path {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Eq, PartialOrd, Ord)]
        pub struct $name(PathBuf);

        impl $name {
            /// Normalises an absolute path.
            ///
            /// # Errors
            /// Returns an error when the path is relative, contains `..`, or contains a NUL byte.
            pub fn new(path: impl AsRef<Path>) -> Result<Self, PathError> {
                let path = path.as_ref();
                if !path.has_root() {
                    return Err(PathError::Relative(path.to_owned()));
                }
                normalise(path, PathBuf::from("/")).map(Self)
            }

            /// Works like [`Self::new`], from the bytes the kernel or a message gave.
            ///
            /// # Errors
            /// Returns the errors of [`Self::new`].
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, PathError> {
                Self::new(Path::new(OsStr::from_bytes(bytes)))
            }

            /// Returns `/`.
            #[must_use]
            pub fn root() -> Self {
                Self(PathBuf::from("/"))
            }

            /// Returns whether this is `/`.
            #[must_use]
            pub fn is_root(&self) -> bool {
                self.0.as_os_str().len() == 1
            }

            /// Returns the path for a system call.
            #[must_use]
            pub fn as_path(&self) -> &Path {
                &self.0
            }

            /// Returns the path's bytes, without a final NUL.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_os_str().as_bytes()
            }

            /// Returns the path, given up.
            #[must_use]
            pub fn into_path_buf(self) -> PathBuf {
                self.0
            }

            /// Returns whether this path is `base` or lies below it, compared by component: `/ab` does
            /// not start with `/a`.
            #[must_use]
            pub fn starts_with(&self, base: &Self) -> bool {
                below(self.as_bytes(), base.as_bytes()).is_some()
            }

            /// Returns what remains of this path below `base`; empty when they are equal.
            #[must_use]
            pub fn strip_prefix(&self, base: &Self) -> Option<&Path> {
                let rest = below(self.as_bytes(), base.as_bytes())?;
                Some(Path::new(OsStr::from_bytes(rest)))
            }

            /// Returns the path `relative` below this one. An empty `relative` gives the path itself.
            ///
            /// # Errors
            /// Returns an error when `relative` is absolute, contains `..`, or contains a NUL byte.
            pub fn join(&self, relative: impl AsRef<Path>) -> Result<Self, PathError> {
                let relative = relative.as_ref();
                if relative.has_root() {
                    return Err(PathError::Absolute(relative.to_owned()));
                }
                normalise(relative, self.0.clone()).map(Self)
            }

            /// Returns the directory the path lies in; none for `/`.
            #[must_use]
            pub fn parent(&self) -> Option<Self> {
                self.0.parent().map(|parent| Self(parent.to_owned()))
            }

            /// Returns the last component; none for `/`.
            #[must_use]
            pub fn file_name(&self) -> Option<&OsStr> {
                self.0.file_name()
            }

            /// Returns the path itself, the directory it lies in, and so on up to `/`.
            pub fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
                self.0.ancestors().map(|path| Self(path.to_owned()))
            }

            /// Returns the number of components; 0 for `/`.
            #[must_use]
            pub fn depth(&self) -> usize {
                self.0.components().count() - 1
            }

            /// Returns the path as text, escaped where it is not plain text.
            #[must_use]
            pub fn escaped(&self) -> Cow<'_, str> {
                match self.0.to_str() {
                    Some(text) if text.chars().all(is_plain) => Cow::Borrowed(text),
                    _ => Cow::Owned(Escaped(&self.0).to_string()),
                }
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.as_bytes().hash(state);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Escaped(&self.0), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), Escaped(&self.0))
            }
        }

        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = PathError;

            fn from_str(text: &str) -> Result<Self, PathError> {
                Self::new(text)
            }
        }

        impl TryFrom<OsString> for $name {
            type Error = PathError;

            fn try_from(text: OsString) -> Result<Self, PathError> {
                Self::from_bytes(&text.into_vec())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.escaped())
            }
        }
    };
}

absolute_path! {
    /// An absolute path on the host, outside every boundary.
    HostPath
}

absolute_path! {
    /// An absolute path as a process inside the boundary sees it.
    InsidePath
}

impl InsidePath {
    /// Returns the path of a constant.
    ///
    /// # Panics
    /// If the constant is not absolute or not normalised, which any call of the code around it shows.
    #[must_use]
    pub fn from_static(path: &'static str) -> Self {
        let is_normal = path == "/"
            || path.strip_prefix('/').is_some_and(|names| {
                names.split('/').all(|name| !matches!(name, "" | "." | ".."))
                    && !names.contains('\0')
            });
        assert!(is_normal, "{path:?} is not a normalised absolute path");
        Self(PathBuf::from(path))
    }
}

#[cfg(test)]
mod tests;
