//! Settings and hooks that a session changed in its private git directory. They end with the
//! session: git on the host would run what they name. The user is notified of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pinfold_host::beneath::{open_directory, read_beneath};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Setting};
use crate::keys::{Verdict, judge};
use crate::layout::CONFIGS;
use crate::settled::Kept;

/// Hooks that are compared at most; a directory with more holds no hooks.
const MOST_HOOKS: usize = 512;
/// Names that are listed at most.
const MOST_LISTED: usize = 16;

/// The configuration files and hooks of a private git directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    configs: BTreeMap<String, Vec<u8>>,
    hooks: BTreeMap<String, Vec<u8>>,
}

impl Settings {
    /// Reads them. The sandbox may have written anything there: what is not a regular file of
    /// reasonable size counts as empty.
    pub fn read(private: &Path) -> Self {
        let Ok(directory) = open_directory(private) else { return Self::default() };
        let content = |name: &Path| {
            let content = read_beneath(&directory, name).ok().flatten();
            content.map(|content| content.bytes).unwrap_or_default()
        };
        let configs =
            CONFIGS.iter().map(|name| ((*name).to_owned(), content(Path::new(name)))).collect();
        let entries = fs::read_dir(private.join("hooks")).into_iter().flatten().flatten();
        let names = entries.take(MOST_HOOKS).map(|entry| entry.file_name());
        let is_hook = |name: &String| !name.ends_with(".sample");
        let names = names.filter_map(|name| name.into_string().ok()).filter(is_hook);
        let hook = |name: String| {
            let bytes = content(&Path::new("hooks").join(&name));
            (name, bytes)
        };
        Self { configs, hooks: names.map(hook).collect() }
    }

    /// Names what differs from the state at the start.
    pub fn report(&self, now: &Self, repository: &Path, kept: &mut Vec<Kept>) {
        let mut keys = BTreeSet::new();
        for (name, after) in &now.configs {
            let before = self.configs.get(name).map_or(&[][..], Vec::as_slice);
            let (before, after) = (Config::parse(before), Config::parse(after));
            keys.extend(changed(&before, &after));
        }
        let place = repository.display();
        if !keys.is_empty() {
            let what = format!("settings of {place}: {}", listed(keys.into_iter()));
            kept.push(Kept::new(
                what,
                "a session's git settings end with it; set them on the host",
            ));
        }
        let is_new = |(name, bytes): &(&String, &Vec<u8>)| self.hooks.get(*name) != Some(*bytes);
        let hooks: Vec<String> =
            now.hooks.iter().filter(is_new).map(|(name, _)| name.clone()).collect();
        if !hooks.is_empty() {
            let what = format!("hooks of {place}: {}", listed(hooks.into_iter()));
            kept.push(Kept::new(what, "git would run them on the host"));
        }
    }
}

/// Returns the keys whose values differ, except those that describe the machine.
fn changed(before: &Config, after: &Config) -> BTreeSet<String> {
    let of = |config: &Config, key: &str| -> Vec<Setting> {
        config.settings.iter().filter(|setting| setting.key == key).cloned().collect()
    };
    let is_own = |setting: &&Setting| judge(setting) != Verdict::OfThePlace;
    let all = before.settings.iter().chain(&after.settings).filter(is_own);
    let keys: BTreeSet<&str> = all.map(|setting| setting.key.as_str()).collect();
    let differs = |key: &&str| of(before, key) != of(after, key);
    keys.into_iter().filter(differs).map(str::to_owned).collect()
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    let mut list: Vec<String> =
        names.take(MOST_LISTED).map(|name| name.escape_debug().to_string()).collect();
    if count > MOST_LISTED {
        list.push(format!("and {} more", count - MOST_LISTED));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_settings_and_hooks_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| fs::write(dir.path().join(name), content).unwrap();
        fs::create_dir(dir.path().join("hooks")).unwrap();
        write("config", "[core]\n\tbare = false\n[user]\n\tname = Ada\n");
        write("hooks/pre-push", "a");
        let before = Settings::read(dir.path());
        let report = |now: &Settings| {
            let mut kept = Vec::new();
            before.report(now, Path::new("/r"), &mut kept);
            kept.into_iter().map(|kept| kept.what).collect::<Vec<_>>()
        };
        assert!(report(&before).is_empty());
        write("config", "[core]\n\tbare = true\n\tfsmonitor = x\n[user]\n\tname = Eve\n");
        write("hooks/pre-push", "b");
        write("hooks/pre-commit", "c");
        write("hooks/x.sample", "c");
        assert_eq!(
            report(&Settings::read(dir.path())),
            ["settings of /r: core.fsmonitor, user.name", "hooks of /r: pre-commit, pre-push"]
        );
    }

    #[test]
    fn a_fifo_or_a_link_in_the_place_of_a_setting_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("config.worktree")).unwrap();
        let empty = |(_, bytes): (&String, &Vec<u8>)| bytes.is_empty();
        assert!(Settings::read(dir.path()).configs.iter().all(empty));
    }
}
