//! Which repositories on github.com a git directory names.

use std::collections::BTreeSet;
use std::path::Path;

use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_policy::network::Repository;

use crate::config::{Config, Setting, split};
use crate::layout::CONFIGS;

/// Returns the configuration of a git directory, which is empty for another directory.
pub fn configuration(git: &Path) -> Config {
    let mut all = Config::default();
    let Ok(directory) = open_directory(git) else { return all };
    let read = |name: &&str| read_beneath(&directory, Path::new(name)).ok().flatten();
    for file in CONFIGS.iter().filter_map(read) {
        all.settings.extend(Config::parse_last(file.bytes).settings);
    }
    all
}

/// Returns the repositories on github.com that remotes name.
pub fn repositories(config: &Config) -> Vec<Repository> {
    let found: BTreeSet<Repository> = config.settings.iter().filter_map(repository).collect();
    found.into_iter().collect()
}

/// Returns the repository on github.com that this setting makes a remote.
pub fn repository(setting: &Setting) -> Option<Repository> {
    let (section, _, name) = split(&setting.key)?;
    let is_remote = section == "remote" && matches!(name, "url" | "pushurl");
    let url = setting.value.as_deref().filter(|_| is_remote)?;
    Repository::of_url(str::from_utf8(url).ok()?)
}
