//! Which names a submodule of a session may have on the host.

use std::path::{Component, Path};

/// Levels of a name.
const DEEPEST: usize = 16;
/// Bytes of a name.
const LONGEST: usize = 1024;

/// Returns whether a relative path is harmless as the name of a submodule and as the place of its
/// working tree. git refuses less (check_submodule_name() in submodule-config.c): a name that any file
/// system takes for `.git` or for another name, or any program for an option, has no use.
#[must_use]
pub fn is_harmless(path: &Path) -> bool {
    let parts: Vec<_> = path.components().collect();
    let is_part = |part: &Component<'_>| match part {
        Component::Normal(name) => name.to_str().is_some_and(is_part),
        _ => false,
    };
    (1..=DEEPEST).contains(&parts.len())
        && path.as_os_str().len() <= LONGEST
        && parts.iter().all(is_part)
}

fn is_part(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte);
    let is_git = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(".git"));
    name.bytes().all(is_plain) && !name.starts_with('-') && !name.ends_with('.') && !is_git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_or_mean_git_are_refused() {
        for name in ["dep", "vendor/lib.x", ".vim/bundle/a-b", "a@1.2", "modules", "c++"] {
            assert!(is_harmless(Path::new(name)), "{name}");
        }
        let long = "a/".repeat(20);
        for name in [
            "",
            "/a",
            "..",
            "../a",
            "a/../b",
            "./a",
            ".git",
            "a/.GIT",
            ".git ",
            ".git.",
            ".gitx",
            "git~1",
            "a\\b",
            "a:b",
            "a b",
            "a\n",
            "-a",
            "a/-u",
            "a.",
            "\u{e9}",
            ".g\u{200c}it",
            &long,
        ] {
            assert!(!is_harmless(Path::new(name)), "{name}");
        }
    }
}
