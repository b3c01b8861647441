//! What misleads programs and people on the host, whatever its name means: links that lead out of a
//! granted directory, names that a terminal does not show as they are, files that claim to be
//! much larger than the space they take, and device nodes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Lets the sandbox make links that lead out of a granted directory.
pub const OUTWARD_LINKS: &str = "outward-links";
/// Lets the sandbox make names with control characters.
pub const ODD_NAMES: &str = "odd-names";
/// Lets the sandbox make files with holes of more than [`LARGEST_HOLES`] bytes.
pub const SPARSE_FILES: &str = "sparse-files";
/// Lets the sandbox leave device nodes.
pub const DEVICES: &str = "devices";

/// Bytes that a file may claim beyond those that it takes on the disk. A program that reads it whole,
/// as a backup does, reads them as zeros.
pub const LARGEST_HOLES: u64 = 64 << 30;

/// Directories of programs, which every system has. A link to a file in one is how virtual
/// environments and package managers name an interpreter.
pub const PROGRAMS: [&str; 9] =
    ["/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/opt", "/sbin", "/snap", "/usr"];

/// Where a symbolic link leads, by its text alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To this path in a granted directory.
    Within(PathBuf),
    /// Out of them, to this path.
    Outside(PathBuf),
    /// To an unknown place: `..` follows a name, which may be a link itself.
    Unclear,
}

impl Target {
    /// Returns where a link leads whose text is `text`. It lies at `link` below `root`, and no
    /// component before its last is a link. `roots` are the granted directories, `root` among them.
    ///
    /// If each link of a tree leads to [`Target::Within`], no path through several of them leaves the
    /// tree either: one climbs only from the directory that it really lies in.
    #[must_use]
    pub fn of(root: &Path, link: &Path, text: &[u8], roots: &[&Path]) -> Self {
        let text = Path::new(OsStr::from_bytes(text));
        let mut place = if text.is_absolute() {
            PathBuf::from("/")
        } else {
            root.join(link.parent().unwrap_or(link))
        };
        let mut has_name = false;
        for component in text.components() {
            match component {
                Component::Normal(name) => {
                    has_name = true;
                    place.push(name);
                }
                Component::ParentDir if has_name => return Self::Unclear,
                // It would have to be a link on the way from the root.
                Component::ParentDir => {
                    place.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        if roots.iter().any(|root| place.starts_with(root)) {
            Self::Within(place)
        } else {
            Self::Outside(place)
        }
    }
}

/// Returns whether a name holds what no terminal or listing shows as it is: a control character, one
/// that reorders its neighbours (Unicode Bidirectional Algorithm, UAX #9), or one that ends a line.
/// Bytes that are not UTF-8 are none of these.
#[must_use]
pub fn has_controls(name: &[u8]) -> bool {
    if name.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return false;
    }
    let is_control = |character: char| {
        character.is_control()
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
    };
    name.utf8_chunks().any(|chunk| chunk.valid().chars().any(is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(link: &str, text: &str) -> Target {
        let root = Path::new("/home/u/work");
        Target::of(root, Path::new(link), text.as_bytes(), &[root, Path::new("/data")])
    }

    #[test]
    fn links_that_stay_in_granted_directories_are_within() {
        for (link, text) in [
            ("l", "file"),
            ("l", "."),
            ("a/b/l", "../../file"),
            ("a/b/l", "./..//../c/"),
            ("l", "/home/u/work/a"),
            ("a/l", "../../../../data/x"),
            ("l", "/data"),
        ] {
            assert!(matches!(target(link, text), Target::Within(_)), "{link} -> {text}");
        }
    }

    #[test]
    fn links_that_leave_them_say_where_to() {
        for (link, text, place) in [
            ("l", "..", "/home/u"),
            ("l", "/", "/"),
            ("a/b/l", "../../../x", "/home/u/x"),
            ("l", "../work2/x", "/home/u/work2/x"),
            ("l", "/etc/passwd", "/etc/passwd"),
            ("l", "../../../../../../etc", "/etc"),
            ("l", "/database", "/database"),
        ] {
            assert_eq!(target(link, text), Target::Outside(place.into()), "{link} -> {text}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_link_that_climbs_from_a_name() {
        for (link, text) in [("l", "a/.."), ("l", "/usr/../home"), ("a/l", "../b/../../x")] {
            assert_eq!(target(link, text), Target::Unclear, "{link} -> {text}");
        }
    }

    #[test]
    fn names_with_controls_are_found_and_others_are_not() {
        for name in [
            "a\u{1b}[31m",
            "a\nb",
            "\u{7f}",
            "a\u{9b}2J",
            "a\u{202e}txt.exe",
            "\r",
            "(\u{200f}",
            "a\u{2028}b",
        ] {
            assert!(has_controls(name.as_bytes()), "{name:?}");
        }
        for name in ["a b", "schön", "日本語", "👩\u{200d}💻", "a\u{fe0f}", "-rf"] {
            assert!(!has_controls(name.as_bytes()), "{name:?}");
        }
        assert!(!has_controls(b"latin\xe9"));
        assert!(has_controls(b"\xff\x1b"));
    }
}
