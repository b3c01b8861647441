//! Where the entries of a profile's list are: in the home, or where a variable of the caller's moves them.
//!
//! A moved directory counts as the home's own would if it lies in the home and in no repository. Elsewhere somebody else
//! may put links into it (a clone, a shared disk), so none leads out of an entry.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_agents::{AgentProfile, Host};
use pinfold_host::Refusal;
use pinfold_host::directories::resolved;
use pinfold_host::owned;
use pinfold_policy::path::Escaped;

/// Where an entry is.
#[derive(Debug)]
pub(super) struct Source<'s> {
    /// Its path, without links above it.
    pub(super) at: PathBuf,
    /// The directory that it has to lie in, wherever a link leads.
    pub(super) within: &'s Path,
    /// The workspace, if the user named the directory by a variable: what a session writes must not come in as the user's
    /// own.
    pub(super) outside: Option<&'s Path>,
    /// Whether links that the user makes may lead out of it.
    pub(super) may_lead_out: bool,
}

/// Where all entries of a profile are.
#[derive(Debug)]
pub(super) struct Sources {
    home: PathBuf,
    workspace: PathBuf,
    moved: Vec<MovedEntry>,
}

/// A path of the agent's that a variable moves, as far as it is used.
#[derive(Debug)]
struct MovedEntry {
    variable: String,
    /// The directory that the variable names.
    directory: PathBuf,
    /// The path without the variable, relative to the home.
    from: PathBuf,
    /// Where it is: a link at its end is an entry's own, and not followed.
    to: PathBuf,
    /// Where that really lies.
    real: PathBuf,
    is_in_home: bool,
    may_lead_out: bool,
}

impl Sources {
    /// Finds the home, and what the variables of the host say.
    ///
    /// # Errors
    /// Returns an error if the home cannot be resolved. Refuses a directory that another user or the session could
    /// write to.
    pub(super) fn find(
        home: &Path,
        workspace: &Path,
        profile: &AgentProfile,
        host: &dyn Host,
    ) -> Result<Self, Refusal> {
        let home = fs::canonicalize(home).map_err(Refusal::new)?;
        let workspace = resolved(workspace);
        let mut moved = Vec::new();
        for one in &profile.host_directories {
            let found = profile.moved(&one.path, host).map_err(|error| {
                let hint = error.hint();
                Refusal::new(error).with_hint(hint)
            })?;
            let Some(found) = found else { continue };
            let directory = resolved(&found.directory);
            let to: PathBuf = directory.iter().chain(&one.below).collect();
            let real = resolved(&to);
            if [&directory, &to, &real].into_iter().any(|place| place.starts_with(&workspace)) {
                let place = Escaped(&found.directory);
                let what = format!(
                    "{} names {place}, which a session in this workspace may write to",
                    found.variable
                );
                let hint =
                    "keep the agent's setup outside the workspace, or do without --my-config";
                return Err(Refusal::new(what).with_hint(hint.to_owned()));
            }
            for place in [&directory, &real].into_iter().filter(|place| place.is_dir()) {
                owned::check_directory(place).map_err(|error| {
                    let hint = error.hint();
                    Refusal::new(&found.variable).because(error).with_hint(hint)
                })?;
            }
            let is_below = |place: &Path| place.starts_with(&home) && place != home;
            let is_in_home = is_below(&to) && is_below(&real);
            let is_foreign = is_in_a_repository(&home, &to) || is_in_a_repository(&home, &real);
            let (variable, from) = (found.variable.to_string(), one.path.clone());
            let may_lead_out = is_in_home && !is_foreign;
            moved.push(MovedEntry {
                variable,
                directory,
                from,
                to,
                real,
                is_in_home,
                may_lead_out,
            });
        }
        Ok(Self { home, workspace, moved })
    }

    /// Returns the home, without links.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the names of the variables that move something.
    pub(super) fn variables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.moved.iter().map(|one| one.variable.as_str()).collect();
        names.dedup();
        names
    }

    /// Returns where an entry is.
    pub(super) fn of(&self, path: &Path) -> Source<'_> {
        let above = self.moved.iter().filter(|one| path.starts_with(&one.from));
        match above.max_by_key(|one| one.from.components().count()) {
            Some(one) => {
                let rest = path.strip_prefix(&one.from).unwrap_or(Path::new(""));
                Source {
                    at: one.to.iter().chain(rest).collect(),
                    within: if one.is_in_home { &self.home } else { &one.directory },
                    outside: Some(&self.workspace),
                    may_lead_out: one.may_lead_out,
                }
            }
            None => Source {
                at: self.home.join(path),
                within: &self.home,
                outside: None,
                may_lead_out: true,
            },
        }
    }

    /// Returns whether a path lies in a directory that a variable names.
    pub(super) fn is_moved(&self, real: &Path) -> bool {
        let is_above = |place: &Path| real.starts_with(place) && !self.home.starts_with(place);
        self.moved.iter().any(|one| is_above(&one.directory) || is_above(&one.real))
    }

    /// Returns what a path is called in a home without variables.
    pub(super) fn in_usual_home(&self, real: &Path) -> Option<PathBuf> {
        self.moved.iter().find_map(|one| {
            let rest = real.strip_prefix(&one.real).ok()?;
            Some(self.home.iter().chain(&one.from).chain(rest).collect())
        })
    }
}

/// Returns whether a directory, or one above it below the home, is a repository's. What cannot be looked
/// at may be one.
pub(super) fn is_in_a_repository(home: &Path, place: &Path) -> bool {
    let mut above = place.ancestors().take_while(|above| *above != home);
    above.any(|above| match fs::symlink_metadata(above.join(".git")) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    })
}
