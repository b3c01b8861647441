//! What the host's configuration says of a submodule.

use std::path::Path;

use pinfold_git::baseline::Start;
use pinfold_git::config::Config;
use pinfold_git::host_git::HostGit;
use pinfold_git::layout::REBUILT;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::read_beneath;

use super::{Made, Module, Modules};

impl Modules<'_> {
    /// Writes the host's settings for the submodule, unless the host has them. Without
    /// `submodule.NAME.active` `git submodule status` and `update` skip it. Without
    /// `submodule.NAME.fetchRecurseSubmodules` the value in `.gitmodules` counts, by which a session could
    /// have each `git fetch` and `git pull` in the repository above call the remote that it gave the
    /// submodule.
    ///
    /// # Errors
    /// Returns what cannot be read, or what git says.
    pub(super) fn activate(&self, module: &Module<'_>, made: &mut Made) -> Result<(), Refusal> {
        let parent = &module.parent.host;
        let config = config_of(&module.parent.common)?;
        let own = config_of(&parent.below(&Path::new("modules").join(&module.name))?)?;
        let name = module.name.to_str().ok_or("its name is not UTF-8 text")?;
        let key = |key: &str| format!("submodule.{name}.{key}");
        let has_any = |keys: &[&str]| keys.iter().any(|it| config.last(&key(it)).is_some());
        let mut settings = Vec::new();
        if !has_any(&["active", "url"]) {
            settings.push((key("active"), "true"));
        }
        if own.last(REBUILT).is_some() && !has_any(&["fetchrecursesubmodules"]) {
            settings.push((key("fetchRecurseSubmodules"), "on-demand"));
        }
        if settings.is_empty() {
            return Ok(());
        }
        let git = HostGit { program: &self.git, directory: &module.parent.common };
        for (key, value) in settings {
            git.run(&["config", "--local", &key, value], None)?;
        }
        // Nobody else changed it.
        if let Some(made) = made.directories.get_mut(parent.path()) {
            made.ours = Start::read(parent.path());
        }
        Ok(())
    }
}

/// Returns the configuration in a git directory of the host.
///
/// # Errors
/// Returns why it is not read.
pub(super) fn config_of(git: &Anchor) -> Result<Config, Refusal> {
    let opened = git.open()?;
    let content = read_beneath(&opened, Path::new("config")).map_err(Refusal::of)?;
    Ok(content.map(|content| Config::parse_last(content.bytes)).unwrap_or_default())
}
