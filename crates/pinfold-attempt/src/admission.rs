//! What a task of a shared queue may ask this machine for. A user who can write to the queue can write any task, so nothing
//! in it is believed that its worker's user has not allowed.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{BranchName, FlagLimits, TaskRules};
use pinfold_repository::digest_of_directory;
use pinfold_tasks::{Limits, TaskSpec};
use pinfold_worktree::workspace::Workspace;

/// What tasks may ask for.
#[derive(Clone, Debug)]
pub struct Admission {
    rules: TaskRules,
    /// The repository that the worker was started in, which needs no rule.
    here: Option<PathBuf>,
    /// The user's home, which is never a repository.
    home: PathBuf,
}

impl Admission {
    /// Returns what these rules admit, and tasks in the repository `here`.
    #[must_use]
    pub fn new(rules: TaskRules, here: Option<&Path>, home: &Path) -> Self {
        let here = here.and_then(|here| fs::canonicalize(here).ok());
        Self { rules, here, home: home.to_owned() }
    }

    /// Returns the task with the paths that were checked, without links, and with its limits as caps: a limit of a run is
    /// in place of the user's, a cap only below it.
    ///
    /// # Errors
    /// Returns a refusal that names what the user has not allowed, and the setting for it.
    pub fn admit(&self, spec: &TaskSpec) -> Result<TaskSpec, Refusal> {
        let mut admitted = spec.clone();
        admitted.repository = Some(self.repository(spec.repository.as_deref())?);
        admitted.sealed = spec.sealed.as_deref().map(|path| self.sealed(path)).transpose()?;
        let Limits { cpus, memory, pids, disk, time } = std::mem::take(&mut admitted.limits);
        let caps = FlagLimits { cpus, memory, pids, disk, files: None, timeout: time };
        admitted.policy.get_or_insert_default().cap(caps);
        if let Some(branch) = &spec.branch
            && !self.allows_branch(branch)
        {
            return Err(refused(&format!("branch {branch}"), "branches"));
        }
        let named = [
            ("identity", &spec.identity, &self.rules.identities, "identities"),
            ("group", &spec.group, &self.rules.groups, "groups"),
        ];
        for (what, value, allowed, setting) in named {
            if let Some(value) = value
                && !allowed.contains(value)
            {
                return Err(refused(&format!("{what} {value}"), setting));
            }
        }
        Ok(admitted)
    }

    /// Returns whether results may be put on a branch.
    #[must_use]
    pub fn allows_branch(&self, branch: &BranchName) -> bool {
        self.rules.allows_branch(branch.as_str())
    }

    /// Returns the directory of a task without links, if tasks may use the repository that it is in.
    ///
    /// # Errors
    /// Returns a refusal that names the setting.
    pub fn repository(&self, given: Option<&Path>) -> Result<PathBuf, Refusal> {
        let given = given.ok_or_else(|| Refusal::new("the task names no repository"))?;
        let what = format!("repository {}", Escaped(given));
        // What is not there is answered as what is not allowed: a task learns nothing of this machine.
        let not_allowed = || refused(&what, "repositories");
        let real = fs::canonicalize(given).map_err(|_| not_allowed())?;
        if self.here.as_ref() == Some(&real) {
            return Ok(real);
        }
        // The repository of a directory may begin above it, and above what is allowed.
        let top = Workspace::around(&real, &self.home).map_err(|_| not_allowed())?.root;
        let mut allowed = self
            .rules
            .repositories
            .iter()
            .map(|path| path.as_path())
            .filter_map(|path| fs::canonicalize(path).ok());
        if allowed.any(|allowed| top.as_path().starts_with(allowed)) {
            Ok(real)
        } else {
            Err(not_allowed())
        }
    }

    fn sealed(&self, given: &Path) -> Result<PathBuf, Refusal> {
        let what = format!("sealed directory {}", Escaped(given));
        let real = fs::canonicalize(given).map_err(|_| refused(&what, "sealed"))?;
        let is_it = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path == real);
        let pinned = self.rules.sealed.iter().find(|(path, _)| is_it(path.as_path()));
        let (_, hash) = pinned.ok_or_else(|| refused(&what, "sealed"))?;
        let cannot = |error| Refusal::new(format!("cannot read the {what}")).because(error);
        if digest_of_directory(&real).map_err(cannot)? == *hash {
            return Ok(real);
        }
        let hint = "if the change is meant, put what `pinfold task hash` prints under [tasks.sealed] in config.toml";
        Err(Refusal::new(format!("the {what} is not what its hash says"))
            .with_hint(hint.to_owned()))
    }
}

fn refused(what: &str, setting: &str) -> Refusal {
    let hint =
        format!("if it may, list it as `{setting}` under [tasks] in the worker's config.toml");
    Refusal::new(format!("tasks of this queue may not use {what} here")).with_hint(hint)
}

#[cfg(test)]
mod tests;
