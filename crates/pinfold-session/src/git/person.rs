//! The person's own git configuration, as far as it is harmless and of use inside: who commits,
//! and how they like git to work. Without it an agent could not commit where the identity is
//! configured for the user and not for the repository.

use std::path::Path;

use super::config::{Config, Setting, split, write};
use super::keys::{Verdict, judge};
use super::lfs;

/// Sections that say something about a person. Signing is none: no key is inside.
const SECTIONS: [&str; 13] = [
    "advice", "apply", "branch", "color", "column", "core", "diff", "fetch", "init", "log",
    "merge", "pull", "push",
];

/// The settings of these files that are taken inside, as a file.
pub(crate) fn settings(files: &[impl AsRef<Path>]) -> Vec<u8> {
    let all = Config::of(files).settings;
    let lfs = lfs::settings(&all);
    let of_use: Vec<Setting> = all.into_iter().filter(is_of_use).chain(lfs).collect();
    write(&of_use)
}

fn is_of_use(setting: &Setting) -> bool {
    let section = split(&setting.key).map_or("", |(section, _, _)| section);
    let says_who = matches!(setting.key.as_str(), "user.name" | "user.email");
    judge(setting) == Verdict::Take && (says_who || SECTIONS.contains(&section))
}

#[cfg(test)]
mod tests {
    use super::settings;

    #[test]
    fn identity_and_taste_enter_and_programs_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gitconfig");
        let text = "[user]\n name = Ada\n signingkey = X\n[commit]\n gpgsign = true\n[core]\n pager = p\n \
                    autocrlf = input\n[credential]\n helper = store\n[url \"https://t@h\"]\n insteadOf = g\n";
        std::fs::write(&file, text).unwrap();
        let inside = String::from_utf8(settings(&[file, dir.path().join("missing")])).unwrap();
        assert!(
            inside.starts_with("[user]\n\tname = \"Ada\"\n[core]\n\tautocrlf = \"input\"\n"),
            "{inside}"
        );
        // Of programs the filter that everybody knows, where the machine has it.
        let known = inside.replace("git-lfs ", "");
        assert!(!known.contains("pager") && !known.contains("store"), "{inside}");
    }

    #[test]
    fn git_lfs_enters_by_its_name_and_not_as_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gitconfig");
        std::fs::write(
            &file,
            "[filter \"lfs\"]\n process = evil\n[filter \"f\"]\n smudge = evil\n",
        )
        .unwrap();
        let inside = String::from_utf8(settings(&[file])).unwrap();
        assert!(
            inside.contains("[filter \"lfs\"]\n\tprocess = \"git-lfs filter-process\""),
            "{inside}"
        );
        assert!(!inside.contains("evil"), "{inside}");
    }
}
