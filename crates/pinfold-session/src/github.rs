//! GitHub for sessions that are not trusted with a token: which repositories they are about.

use std::collections::BTreeSet;
use std::path::Path;

use pinfold_git::config::{Config, Setting, split};
use pinfold_git::layout::CONFIGS;
use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_policy::network::Repository;
use pinfold_policy::settings::Settings;
use pinfold_terminal::notify;

use crate::RunError;
use crate::workspace::Workspace;

/// Lets git have the tokens that are brokered, for the remotes that the workspace's repository has
/// on github.com now: what the inside makes of them later does not count.
///
/// # Errors
/// When the administrator's rules do not cover github.com.
pub(crate) fn broker(settings: &mut Settings, workspace: &Workspace) -> Result<(), RunError> {
    if settings.network.brokered.is_empty() {
        return Ok(());
    }
    // An empty workspace is about no repository, wherever its caller stands.
    let remotes = match workspace.is_scratch {
        true => Vec::new(),
        false => repositories(&configuration(&workspace.git_directory())),
    };
    settings.broker(&remotes).map_err(RunError::settings)?;
    for brokered in &settings.network.brokered {
        let cure = brokered.cure.iter().map(|cure| format!(" ({cure} gives it)"));
        notify!("pinfold: note: {brokered}{}", cure.collect::<String>());
    }
    Ok(())
}

/// What the configuration of a git directory says; of a directory that is none, nothing.
pub(crate) fn configuration(git: &Path) -> Config {
    let mut all = Config::default();
    let Ok(directory) = open_directory(git) else { return all };
    let read = |name: &&str| read_beneath(&directory, Path::new(name)).ok().flatten();
    for file in CONFIGS.iter().filter_map(read) {
        all.settings.extend(Config::parse_last(file.bytes).settings);
    }
    all
}

/// The repositories on github.com that remotes name.
pub(crate) fn repositories(config: &Config) -> Vec<Repository> {
    let found: BTreeSet<Repository> = config.settings.iter().filter_map(repository).collect();
    found.into_iter().collect()
}

/// The repository on github.com that this setting makes a remote.
pub(crate) fn repository(setting: &Setting) -> Option<Repository> {
    let (section, _, name) = split(&setting.key)?;
    let is_remote = section == "remote" && matches!(name, "url" | "pushurl");
    let url = setting.value.as_deref().filter(|_| is_remote)?;
    Repository::of_url(str::from_utf8(url).ok()?)
}
