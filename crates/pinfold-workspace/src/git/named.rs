//! What a git configuration names: files that it includes, hooks that lie elsewhere, programs.
//!
//! A user's configuration may name something in the working tree. The host executes it, so it stays
//! as it is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_git::config::{Config, Setting};
use pinfold_git::keys::{Verdict, judge};
use pinfold_git::pointer::normal;
use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_names::GIT_CONFIG;
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_protect::restrict::{Protect, follow};

/// How deep includes go (`MAX_INCLUDE_DEPTH` in git's config.c).
const DEEPEST: usize = 10;

/// Where a configuration is in force.
pub(crate) struct Scope<'a> {
    /// The git directory.
    pub(crate) git: &'a Path,
    /// The tops of its working trees, which git runs programs in.
    pub(crate) tops: &'a [PathBuf],
}

impl Scope<'_> {
    /// Protects what the configuration at `file` names.
    pub(crate) fn protect_named_by(&self, file: &Path, protect: &mut Protect) {
        self.file(file, protect, 0);
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
        let path = Path::new(OsStr::from_bytes(value));
        let is_include = setting.key == "include.path"
            || (setting.key.starts_with("includeif.") && setting.key.ends_with(".path"));
        if is_include {
            let included = normal(&base.join(path));
            self.protect(&included, Some(b""), protect);
            if depth < DEEPEST {
                self.file(&included, protect, depth + 1);
            }
        } else if setting.key == "core.hookspath" {
            for top in self.tops {
                self.protect(&normal(&top.join(path)), None, protect);
            }
        } else if judge(setting) == Verdict::Keep {
            self.programs(&setting.key, value, protect);
        }
    }

    /// Files that a command names, as far as its words tell.
    fn programs(&self, key: &str, value: &[u8], protect: &mut Protect) {
        if key.starts_with("alias.") && !value.starts_with(b"!") {
            return;
        }
        let is_border = |byte: &u8| byte.is_ascii_whitespace() || b"'\"|&;()<>=`$!".contains(byte);
        let words = value.split(is_border).filter(|word| !word.is_empty());
        for path in words.flat_map(|word| {
            self.tops.iter().map(move |top| normal(&top.join(OsStr::from_bytes(word))))
        }) {
            if fs::symlink_metadata(&path).is_ok_and(|entry| !entry.is_dir()) {
                self.protect(&path, None, protect);
            }
        }
    }

    fn protect(&self, path: &Path, content: Option<&'static [u8]>, protect: &mut Protect) {
        // Hooks are a private copy already.
        let is_copied = path.starts_with(self.git.join("hooks"));
        let is_root = protect.writable_root(path).is_none_or(|root| root == path);
        if is_copied || is_root {
            return;
        }
        let text = "a git configuration names it".into();
        let reason = Reason { why: Why::HostExecutes, text, opt_in: Some(GIT_CONFIG.into()) };
        protect.restrict_targets(path, Effect::ReadOnly, &reason);
        // Behind a link there is nothing at this path itself.
        if follow(path).is_none_or(|followed| followed.links.iter().any(|link| link == path)) {
            protect.restrict_missing(path, content, reason);
        }
    }
}
