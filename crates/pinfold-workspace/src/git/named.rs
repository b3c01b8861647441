//! What a git configuration names: files that it includes, hooks that lie elsewhere, programs.
//!
//! A user's configuration may name something in the working tree. The host executes it, so it stays as it is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_git::config::{Config, Setting};
use pinfold_git::keys::{Verdict, judge};
use pinfold_git::pointer::normal;
use pinfold_git::user_config::expanded;
use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_names::GIT_CONFIG;
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_protect::restrict::{Protect, follow, left_by_dots};

/// How deep includes go (`MAX_INCLUDE_DEPTH` in git's config.c).
const DEEPEST: usize = 10;

/// What becomes of a missing directory that a path leaves by `..`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// An empty one stands for it: git reads what the path leads to by itself.
    StaysEmpty,
    /// A build may make it. A link is set aside at the end.
    MayBeMade,
}

/// Where a configuration is in force.
pub(crate) struct Scope<'a> {
    /// The git directory.
    pub(crate) git: &'a Path,
    /// The tops of its working trees, which git runs programs in.
    pub(crate) tops: &'a [PathBuf],
    /// What `~` stands for.
    pub(crate) home: &'a Path,
}

impl Scope<'_> {
    /// Protects what the configuration at `file` names.
    pub(crate) fn protect_named_by(&self, file: &Path, protect: &mut Protect) {
        self.file(file, protect, 0);
    }

    /// Protects what settings name that are in no file.
    pub(crate) fn protect_named_by_variables(&self, settings: &[Setting], protect: &mut Protect) {
        for setting in settings {
            self.setting(setting, Path::new("/"), protect, 0);
        }
    }

    fn file(&self, file: &Path, protect: &mut Protect, depth: usize) {
        let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return };
        let Ok(opened) = open_directory(directory) else { return };
        let Ok(Some(content)) = read_beneath(opened, Path::new(name)) else { return };
        for setting in Config::parse_last(content.bytes).settings {
            self.setting(&setting, directory, protect, depth);
        }
    }

    fn setting(&self, setting: &Setting, base: &Path, protect: &mut Protect, depth: usize) {
        let Some(value) = setting.value.as_deref().filter(|value| !value.is_empty()) else {
            return;
        };
        let path = &expanded(Path::new(OsStr::from_bytes(value)), self.home);
        let is_include = setting.key == "include.path"
            || (setting.key.starts_with("includeif.") && setting.key.ends_with(".path"));
        if is_include {
            let included = self.real(&base.join(path), Missing::StaysEmpty, protect);
            self.protect(&included, Some(b""), protect);
            if depth < DEEPEST {
                self.file(&included, protect, depth + 1);
            }
        } else if ["core.hookspath", "init.templatedir"].contains(&&*setting.key) {
            for top in self.tops {
                let real = self.real(&top.join(path), Missing::StaysEmpty, protect);
                self.protect(&real, None, protect);
            }
        } else if judge(setting) == Verdict::Keep {
            self.programs(&setting.key, value, protect);
        }
    }

    /// Protects files that a command names, as far as its words tell. Of what is missing, absolute paths count, and the command
    /// itself: a program that a build makes. What else looks like a path may be a name of git's.
    fn programs(&self, key: &str, value: &[u8], protect: &mut Protect) {
        let is_alias = key.starts_with("alias.");
        if is_alias && !value.starts_with(b"!") {
            return;
        }
        let value = self.with_home(value);
        let is_border = |byte: &u8| byte.is_ascii_whitespace() || b"'\"|&;()<>=`$!".contains(byte);
        let words = value.split(is_border).filter(|word| !word.is_empty());
        for (number, word) in words.enumerate() {
            let named = expanded(Path::new(OsStr::from_bytes(word)), self.home);
            let is_dotted = word.starts_with(b"./") || word.starts_with(b"../");
            let is_command = number == 0 && (is_dotted || !is_alias && word.contains(&b'/'));
            let is_path = is_command || named.is_absolute();
            for path in self.tops.iter().map(|top| top.join(&named)) {
                let path = if is_path {
                    self.real(&path, Missing::MayBeMade, protect)
                } else {
                    normal(&path)
                };
                match fs::symlink_metadata(&path) {
                    Ok(entry) if !entry.is_dir() => self.protect(&path, None, protect),
                    Err(_) if is_path => self.expect(path, protect),
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }

    /// Returns where a path leads, without dots. No link may come in the place of a directory that it leaves by `..`, and those on
    /// the way stay.
    fn real(&self, path: &Path, missing: Missing, protect: &mut Protect) -> PathBuf {
        let left = left_by_dots(path);
        if left.is_empty() {
            return normal(path);
        }
        for left in left.into_iter().filter(|left| !left.starts_with(self.git)) {
            let is_missing = fs::symlink_metadata(&left).is_err();
            if is_missing && missing == Missing::StaysEmpty {
                self.protect(&left, None, protect);
            } else {
                self.expect(left, protect);
            }
        }
        let Some(followed) = follow(path) else { return normal(path) };
        for link in followed.links {
            if protect.writable_root(&link).is_some() {
                protect.restrict(link, Effect::ReadOnly, reason());
            }
        }
        followed.end
    }

    /// Puts the home in for the variable, as the shell does in which git runs a command.
    fn with_home(&self, value: &[u8]) -> Vec<u8> {
        let home = self.home.as_os_str().as_bytes();
        let mut whole = Vec::new();
        let mut rest = value;
        while let Some((byte, after)) = rest.split_first() {
            let is_other = |next: &u8| next.is_ascii_alphanumeric() || *next == b'_';
            let bare = rest.strip_prefix(b"$HOME").filter(|it| !it.first().is_some_and(is_other));
            let named = bare.or_else(|| rest.strip_prefix(b"${HOME}"));
            whole.extend_from_slice(named.map_or(std::slice::from_ref(byte), |_| home));
            rest = named.unwrap_or(after);
        }
        whole
    }

    fn expect(&self, path: PathBuf, protect: &mut Protect) {
        let end = follow(&path).map_or(path, |followed| followed.end);
        if protect.writable_root(&end).is_some_and(|root| root != end) {
            protect.expected.push((end, reason()));
        }
    }

    fn protect(&self, path: &Path, content: Option<&'static [u8]>, protect: &mut Protect) {
        // Hooks are a private copy already.
        let is_copied = path.starts_with(self.git.join("hooks"));
        let is_root = protect.writable_root(path).is_none_or(|root| root == path);
        if is_copied || is_root {
            return;
        }
        let reason = reason();
        protect.restrict_targets(path, Effect::ReadOnly, &reason);
        // Behind a link there is nothing at this path itself.
        if follow(path).is_none_or(|followed| followed.links.iter().any(|link| link == path)) {
            protect.restrict_missing(path, content, reason);
        }
    }
}

/// Returns why no sandbox makes or changes it.
pub(crate) fn reason() -> Reason {
    let text = "a git configuration names it".into();
    Reason { why: Why::HostExecutes, text, opt_in: Some(GIT_CONFIG.into()) }
}

#[cfg(test)]
mod tests;
