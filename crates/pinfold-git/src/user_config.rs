//! The user's own git configuration, as far as it is harmless and of use inside: who commits, and
//! how they like git to work. Without it an agent could not commit where the identity is configured
//! for the user and not for the repository.
//!
//! Git's index names the owner of each file. Where owners look different, git would take every file
//! for changed and hash it, so there it compares times in seconds and sizes alone
//! (`core.checkStat`, git-config(1)).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use pinfold_host::directories::{Places, home_of};

use crate::config::{Config, OF_THE_MACHINE, Setting, split, write};
use crate::keys::{Verdict, judge};
use crate::lfs;

/// The variable with the file that git reads instead of a user's own.
pub const VARIABLE: &str = "GIT_CONFIG_GLOBAL";
/// Directories whose owner is somebody else, and which git works in.
const TRUSTED: &str = "safe.directory";
/// Settings in variables that are looked at.
const MOST_VARIABLES: usize = 1000;

/// Sections that say something about a user. Signing is not among them: no key is inside.
const SECTIONS: [&str; 13] = [
    "advice", "apply", "branch", "color", "column", "core", "diff", "fetch", "init", "log",
    "merge", "pull", "push",
];

/// Whose the files of the workspace are, as the sandbox sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The same as on the host.
    Same,
    /// Others: a session of root is another user.
    Other,
}

/// Returns the files of the user's own git configuration, the last one winning.
pub fn files(places: &Places) -> [PathBuf; 2] {
    let config = places.config.parent().unwrap_or(&places.home);
    [config.join("git/config"), places.home.join(".gitconfig")]
}

/// Returns the files that git reads in the caller's environment: another one takes the place of the user's own.
pub fn files_of(places: &Places, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = variable(VARIABLE).filter(|path| !path.is_empty());
    named.map_or_else(|| files(places).to_vec(), |file| vec![file.into()])
}

/// Returns the settings that are variables (git-config(1), "Environment").
pub fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Setting> {
    let count = variable("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse().ok());
    let pair = |number: usize| {
        let key = variable(&format!("GIT_CONFIG_KEY_{number}"))?.into_string().ok()?;
        let value = variable(&format!("GIT_CONFIG_VALUE_{number}")).map(OsString::into_vec);
        let (section, subsection, name) = split(&key)?;
        let parts = [
            Some(section.to_lowercase()),
            subsection.map(str::to_owned),
            Some(name.to_lowercase()),
        ];
        Some(Setting { key: parts.into_iter().flatten().collect::<Vec<_>>().join("."), value })
    };
    (0..count.unwrap_or(0).min(MOST_VARIABLES)).filter_map(pair).collect()
}

/// Puts the home in for `~/`, and that of another account for `~NAME/`.
#[must_use]
pub fn expanded(path: &Path, home: &Path) -> PathBuf {
    let mut parts = path.components();
    let first = parts.next().map(|first| first.as_os_str().as_bytes());
    let home = match first.and_then(|first| first.strip_prefix(b"~")) {
        Some(b"") => Some(home.to_owned()),
        Some(name) => home_of(name),
        None => None,
    };
    home.map_or_else(|| path.to_owned(), |home| home.join(parts.as_path()))
}

/// Returns the settings of these files that are taken inside, as a file. `home` is where they say `~/`.
pub fn settings(files: &[impl AsRef<Path>], home: &Path, owners: Owners) -> Vec<u8> {
    let all = Config::of(files).settings;
    let lfs = lfs::settings(&all);
    let trusted = trusted(&all, home);
    // First, so that the user's own value wins, and the repository's, too.
    let minimal = (owners == Owners::Other)
        .then(|| Setting { key: "core.checkstat".to_owned(), value: Some(b"minimal".to_vec()) });
    let of_use = minimal.into_iter().chain(all.into_iter().filter(is_of_use));
    write(&of_use.chain(lfs).chain(trusted).collect::<Vec<Setting>>())
}

/// Returns the repositories of other owners that git works in for this user, and so does git inside: a project that a
/// group shares, or one that `actions/checkout` made for a container.
fn trusted(of_the_user: &[Setting], home: &Path) -> Vec<Setting> {
    let of_the_machine = Config::of([OF_THE_MACHINE]).settings;
    let all = of_the_machine.iter().chain(of_the_user);
    let paths = all.filter(|setting| setting.key == TRUSTED).filter_map(|it| it.value.as_ref());
    let at = |path: &Vec<u8>| expanded(Path::new(OsStr::from_bytes(path)), home).into_os_string();
    let trusted =
        paths.map(|path| Setting { key: TRUSTED.into(), value: Some(at(path).into_vec()) });
    trusted.collect()
}

fn is_of_use(setting: &Setting) -> bool {
    let section = split(&setting.key).map_or("", |(section, _, _)| section);
    let says_who = matches!(setting.key.as_str(), "user.name" | "user.email");
    judge(setting) == Verdict::Take && (says_who || SECTIONS.contains(&section))
        || is_comparison(setting)
}

/// Returns whether it says by what files are compared. It is of use for reading alone.
fn is_comparison(setting: &Setting) -> bool {
    let values: [&[u8]; 2] = [b"default", b"minimal"];
    setting.key == "core.checkstat"
        && setting.value.as_ref().is_some_and(|value| values.contains(&value.as_slice()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Owners, expanded, settings};

    #[test]
    fn tilde_stands_for_the_home_of_the_user_or_of_a_named_account() {
        let home = Path::new("/home/me");
        for (path, expected) in [
            ("~/x/y", "/home/me/x/y"),
            ("~", "/home/me"),
            ("~root/x", "/root/x"),
            ("~nobody-of-this-name/x", "~nobody-of-this-name/x"),
            ("x/~/y", "x/~/y"),
            ("/x", "/x"),
        ] {
            assert_eq!(expanded(Path::new(path), home), Path::new(expected), "{path}");
        }
    }

    fn inside(files: &[impl AsRef<Path>], owners: Owners) -> String {
        String::from_utf8(settings(files, Path::new("/home/ada"), owners)).unwrap()
    }

    #[test]
    fn directories_of_other_owners_are_trusted_inside_as_outside() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gitconfig");
        let text =
            "[safe]\n directory = /srv/a\n directory =\n directory = ~/b\n bareRepository = all\n";
        std::fs::write(&file, text).unwrap();
        let inside = inside(&[file], Owners::Same);
        let wanted =
            "[safe]\n\tdirectory = \"/srv/a\"\n\tdirectory = \"\"\n\tdirectory = \"/home/ada/b\"\n";
        assert!(inside.ends_with(wanted), "{inside}");
    }

    #[test]
    fn identity_and_taste_enter_and_programs_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gitconfig");
        let text = "[user]\n name = Ada\n signingkey = X\n[commit]\n gpgsign = true\n[core]\n pager = p\n \
                    autocrlf = input\n[credential]\n helper = store\n[url \"https://t@h\"]\n insteadOf = g\n";
        std::fs::write(&file, text).unwrap();
        let inside = inside(&[file, dir.path().join("missing")], Owners::Same);
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
        let inside = inside(&[file], Owners::Same);
        assert!(
            inside.contains("[filter \"lfs\"]\n\tprocess = \"git-lfs filter-process\""),
            "{inside}"
        );
        assert!(!inside.contains("evil"), "{inside}");
    }

    #[test]
    fn the_comparison_of_files_is_the_users_where_the_user_set_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gitconfig");
        std::fs::write(&file, "[core]\n checkStat = default\n").unwrap();
        let inside = |owners| inside(&[&file], owners);
        assert!(!inside(Owners::Same).contains("minimal"));
        let values: Vec<String> =
            inside(Owners::Other).lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(values[1..3], ["checkstat = \"minimal\"", "checkstat = \"default\""]);
    }
}
