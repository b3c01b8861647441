//! Files that the shell's directory hook loads because `.envrc` (direnv) or `mise.toml` names them.
//!
//! A user trusts `.envrc` by its content, and direnv runs what it names whatever that is by then. The settings are read as they are
//! at the start, as words and not as a shell would: a word too much costs a line at the end.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::authority::{Reason, Why};

use crate::restrict::resolve;
use crate::stand_in::read;

/// Settings of a directory hook, which also counts in directories below.
const SETTINGS: [&str; 3] = [".envrc", "mise.toml", ".mise.toml"];
/// Words before the files that they load: direnv-stdlib(1), and mise's `env._`.
const LOADERS: [&str; 11] = [
    ".",
    "source",
    "source_env",
    "source_env_if_exists",
    "dotenv",
    "dotenv_if_exists",
    "_.source",
    "_.file",
    "env._.source",
    "env._.file",
    "path",
];
/// Commands that run nothing of what they name.
const HARMLESS: [&str; 8] =
    ["export", "watch_file", "watch_dir", "PATH_add", "path_add", "MANPATH_add", "layout", "unset"];
/// Words that stand for files: `use flake`, `use nix`, `dotenv`.
const IMPLIED: [(&str, &str); 5] = [
    ("flake", "flake.nix"),
    ("flake", "flake.lock"),
    ("nix", "shell.nix"),
    ("nix", "default.nix"),
    ("dotenv", ".env"),
];
const SCRIPTS: [&str; 9] = ["sh", "bash", "zsh", "py", "rb", "js", "mjs", "pl", "nix"];
/// What parts words in a shell and in TOML.
const BETWEEN: &str = " \t\"'`;&|()<>{}[]$=,";
/// Files that are read, and words that are looked up.
const MOST: (usize, usize) = (64, 4096);

/// Returns why such a file is not taken over.
#[must_use]
pub fn reason() -> Reason {
    let text = "direnv or mise loads it at your next prompt".into();
    Reason { why: Why::HostExecutes, text, opt_in: None }
}

/// Returns the files in `is_meant` places that are loaded by these settings, and by those above these roots.
#[must_use]
pub fn loaded(
    settings: &[PathBuf],
    roots: &[PathBuf],
    is_meant: &dyn Fn(&Path) -> bool,
) -> BTreeSet<PathBuf> {
    let above = roots.iter().flat_map(|root| root.ancestors().skip(1));
    let above = above.flat_map(|directory| SETTINGS.map(|name| directory.join(name)));
    let mut search = Search { waiting: Vec::new(), seen: BTreeSet::new(), words: 0 };
    for file in settings.iter().cloned().chain(above) {
        search.add(file.clone(), &file);
    }
    let mut found = BTreeSet::new();
    while let Some((file, base)) = search.waiting.pop() {
        for path in search.named_in(&file, &base) {
            let way = resolve(&path);
            found.extend(way.links.into_iter().chain(way.end).filter(|it| is_meant(it)));
        }
    }
    found
}

struct Search {
    /// Files to read, each with the directory in which direnv loads it.
    waiting: Vec<(PathBuf, PathBuf)>,
    seen: BTreeSet<PathBuf>,
    words: usize,
}

impl Search {
    /// Has a file read that is loaded in the directory of another one.
    fn add(&mut self, file: PathBuf, by: &Path) {
        let base = by.parent().unwrap_or(by).to_owned();
        if self.seen.len() < MOST.0 && self.seen.insert(file.clone()) {
            self.waiting.push((file, base));
        }
    }

    /// Returns the files that a file names.
    fn named_in(&mut self, file: &Path, base: &Path) -> Vec<PathBuf> {
        let content = resolve(file).end.and_then(|end| read(&end));
        let Some(text) = content.and_then(|it| String::from_utf8(it).ok()) else {
            return Vec::new();
        };
        let own = file.parent().unwrap_or(base);
        let mut found = Vec::new();
        for (word, is_loaded) in text.lines().flat_map(words) {
            self.words += 1;
            if self.words > MOST.1 {
                break;
            }
            // A plain `source` in a loaded file is meant from where direnv loads that.
            let of_own = files(word, is_loaded, own).into_iter().filter(|it| it.exists());
            for path in files(word, is_loaded, base).into_iter().chain(of_own) {
                if path.is_dir() {
                    self.add(path.join(".envrc"), &path.join(".envrc"));
                    continue;
                }
                // A flake names sources of all kinds.
                if path.extension().is_none_or(|it| it != "nix" && it != "lock") {
                    self.add(path.clone(), file);
                }
                found.push(path);
            }
        }
        found
    }
}

/// Returns what may be a path in a line, and whether a file of that name is loaded.
fn words(line: &str) -> Vec<(&str, bool)> {
    let parts: Vec<&str> =
        line.split(|it| BETWEEN.contains(it)).filter(|it| !it.is_empty()).collect();
    let Some(first) = parts.first().filter(|it| !it.starts_with('#')) else { return Vec::new() };
    let is_one_command = !line.contains(['`', ';', '&', '|']) && !line.contains("$(");
    if is_one_command && HARMLESS.contains(first) {
        return Vec::new();
    }
    let implied = IMPLIED.iter().filter(|(word, _)| parts.contains(word));
    let implied = implied.map(|(_, file)| (*file, true));
    let is_loaded = |number: usize| parts[..number].iter().any(|it| LOADERS.contains(it));
    let named = parts.iter().enumerate().map(|(number, part)| (*part, is_loaded(number)));
    let is_path = |(word, is_loaded): &(&str, bool)| *is_loaded || word.contains(['.', '/']);
    named.filter(is_path).chain(implied).collect()
}

/// Returns the files or directories that a word means in a directory. One that is loaded may be missing, and any other one is a
/// script. In `$PWD/x` the first name is a variable's.
fn files(word: &str, is_loaded: bool, directory: &Path) -> Vec<PathBuf> {
    let whole = directory.join(word);
    let rest = word.split_once('/').map(|(_, rest)| directory.join(rest.trim_start_matches('/')));
    let is_one = |path: &PathBuf| if is_loaded { path.exists() } else { is_script(path) };
    let rest = rest.filter(|it| it != directory && it != &whole && is_one(it));
    let is_whole = is_one(&whole) || is_loaded && rest.is_none();
    Some(whole).filter(|_| is_whole).into_iter().chain(rest).collect()
}

fn is_script(path: &Path) -> bool {
    let has_name = path.extension().is_some_and(|it| SCRIPTS.iter().any(|known| it == *known));
    fs::metadata(path)
        .is_ok_and(|it| it.is_file() && (has_name || it.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_that_settings_of_directory_hooks_load_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = top.join("work");
        fs::create_dir_all(root.join("scripts")).unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        for name in ["y.sh", "scripts/z.sh", "env.py", "notes.sh", "watched.sh", "config.yaml"] {
            fs::write(root.join(name), "").unwrap();
        }
        fs::write(root.join("scripts/x.sh"), "set -e\n. scripts/z.sh\n. ../work/y.sh").unwrap();
        symlink("scripts/x.sh", root.join("link")).unwrap();
        let found = |name: &str, text: &str| {
            fs::write(top.join(name), text).unwrap();
            let settings: &[PathBuf] = &[top.join(name)];
            let found = loaded(settings, &[], &|path| path.starts_with(&root));
            let below = |it: &PathBuf| it.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            found.iter().map(below).collect::<Vec<_>>()
        };
        let sourced = ["scripts/x.sh", "scripts/z.sh", "y.sh"];
        assert_eq!(found("work/.envrc", "source ./scripts/x.sh"), sourced);
        assert_eq!(found("work/.envrc", "[ -e x ] && . \"$PWD/scripts/x.sh\""), sourced);
        let linked = ["link", "scripts/x.sh", "scripts/z.sh", "y.sh"];
        assert_eq!(found("work/.envrc", "source_env link"), linked);
        assert_eq!(found(".envrc", "source work/y.sh"), ["y.sh"]);
        assert_eq!(found("work/.envrc", "source_env_if_exists .envrc.local"), [".envrc.local"]);
        assert_eq!(found("work/.envrc", "use flake"), ["flake.lock", "flake.nix"]);
        assert_eq!(found("work/.envrc", "dotenv"), [".env"]);
        assert_eq!(found("work/.envrc", "eval \"$(python3 env.py)\""), ["env.py"]);
        let nothing = "# source y.sh\nexport A=config.yaml B=notes.sh\nwatch_file watched.sh\nPATH_add bin\nlayout python";
        assert_eq!(found("work/.envrc", nothing), Vec::<String>::new());
        assert_eq!(found("work/mise.toml", "[env]\n_.source = \"y.sh\""), ["y.sh"]);
        assert_eq!(found("work/mise.toml", "[env]\n_.file = ['.env.local']"), [".env.local"]);
        assert_eq!(
            found("work/mise.toml", "[env]\nA = 'config.yaml'\n[tools]\nnode = '20'"),
            Vec::<String>::new()
        );
        // A file that names itself.
        assert_eq!(found("work/y.sh", "source y.sh"), ["y.sh"]);
    }

    #[test]
    fn settings_above_a_root_count() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("../.envrc"), "source_env work/env.sh").unwrap();
        let found = loaded(&[], std::slice::from_ref(&root), &|path| path.starts_with(&root));
        assert_eq!(found, [root.join("env.sh")].into());
    }
}
