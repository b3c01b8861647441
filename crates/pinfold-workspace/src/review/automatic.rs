//! Applying a session's changes when it ends, without a question.
//!
//! What is applied is harmless by the rules of `pinfold apply`: what programs on the host would
//! execute waits, and so does what somebody else changed, too. Ignored files wait because programs
//! run what is in them: build output, installed packages. Which files are ignored is said by the
//! host's git about the checkout, in which the session changed nothing.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::audit::{Audit, Event};
use pinfold_host::launcher::{HostProgram, Launcher};
use pinfold_host::note::{Note, Topic};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{ApplyMode, Settings};

use super::apply::Selection;
use super::changes::{Changes, Left};
use super::ended::Review;
use super::error::ReviewError;

/// Paths that are named one by one at most.
const MOST_NAMED: usize = 5;

/// Returns whether a session's changes are to be applied now.
pub(crate) fn is_wanted(settings: &Settings, status: Option<u8>) -> bool {
    settings.scalars.apply.value == ApplyMode::Auto && status == Some(0)
}

/// Applies the harmless changes. Returns what the user should know, one line each.
///
/// # Errors
/// Returns the errors of [`Review::apply`]; then nothing was applied.
pub(crate) fn apply(
    review: Review,
    changes: &Changes,
    settings: &Settings,
    audit: &Audit,
) -> Result<Vec<Note>, ReviewError> {
    let session = review.session().to_owned();
    let ignored = if settings.scalars.apply_ignored.value {
        BTreeSet::new()
    } else {
        ignored(&review.launcher, review.workspace(), changes)
    };
    let all = Selection::default();
    let conflicts: BTreeSet<PathBuf> =
        review.conflicts(changes, &all).iter().map(|change| change.path.clone()).collect();
    let mut notes = Vec::new();
    let waits = |path: &Path, why: &str| {
        Note::named(Topic::Waiting, "waits", Escaped(path).to_string(), why)
    };
    let protected = changes.list.iter().filter(|change| change.left.is_some());
    for change in protected.take(MOST_NAMED) {
        let why = match &change.left {
            Some(Left::Protected(protected)) => protected.reason.as_str(),
            Some(Left::Never(why)) => why,
            None => continue,
        };
        notes.push(waits(&change.path, why));
    }
    for path in conflicts.iter().take(MOST_NAMED) {
        notes.push(waits(path, "it was also changed outside of the session"));
    }
    if !ignored.is_empty() {
        let count = ignored.len();
        let files = if count == 1 { "ignored path waits" } else { "ignored paths wait" };
        let text = format!("{count} {files} (--apply-ignored applies them)");
        notes.push(Note::new(Topic::Waiting, text));
    }
    let without = ignored.into_iter().chain(conflicts).collect();
    let selection = Selection { without, ..Selection::default() };
    let event = Event::Review {
        what: "apply",
        workspace: review.workspace().display().to_string(),
        changes: changes.list.len(),
        protected: false,
        overwrite: false,
    };
    audit.record(&event).map_err(ReviewError::system("the audit log"))?;
    let workspace = Escaped(review.workspace()).to_string();
    let applied = review.apply(changes, &selection)?;
    let paths = if applied.done == 1 { "path" } else { "paths" };
    let done = format!("applied {} {paths} to {workspace}", applied.done);
    let skipped = applied.skipped.iter().map(|it| {
        let name = Escaped(&it.path).to_string();
        Note::named(Topic::Waiting, "not applied", name, it.why.to_string())
    });
    let rest = (!applied.complete).then(|| {
        format!(
            "the rest waits: `pinfold diff {session}` shows it, `pinfold apply {session}` takes it, \
             `pinfold discard {session}` drops it"
        )
    });
    let mut said = vec![Note::new(Topic::Changed, done)];
    said.extend(skipped);
    said.extend(applied.notes);
    said.extend(notes);
    // First of what waits, since it names what to do.
    let at = said.iter().position(|note| note.topic == Topic::Waiting).unwrap_or(said.len());
    said.splice(at..at, rest.map(|text| Note::new(Topic::Waiting, text)));
    Ok(said)
}

/// Returns the changed paths that git ignores, and those of which it cannot tell. None where there is no
/// git, or no repository.
fn ignored(launcher: &Launcher, workspace: &Path, changes: &Changes) -> BTreeSet<PathBuf> {
    let is_repository = workspace.ancestors().any(|above| above.join(".git").exists());
    let git = launcher.find("git", &[workspace.to_owned()]).ok().filter(|_| is_repository);
    let Some(git) = git else { return BTreeSet::new() };
    let paths: Vec<&Path> = changes.list.iter().map(|change| change.path.as_path()).collect();
    let mut ignored = BTreeSet::new();
    Ask { git: &git, workspace, left: MOST_ASKED }.all(&paths, &mut ignored);
    ignored
}

/// How often git is asked at most.
const MOST_ASKED: usize = 256;

struct Ask<'a> {
    git: &'a HostProgram,
    workspace: &'a Path,
    left: usize,
}

impl Ask<'_> {
    /// Asks git which of these paths it ignores. It stops at the first one that it does not judge, such
    /// as one below a link or in a submodule, and says nothing of the others: they are asked about in two halves.
    fn all(&mut self, paths: &[&Path], ignored: &mut BTreeSet<PathBuf>) {
        if let Some(found) = self.once(paths) {
            ignored.extend(found);
        } else if paths.len() < 2 || self.left == 0 {
            ignored.extend(paths.iter().map(|path| path.to_path_buf()));
        } else {
            let (one, other) = paths.split_at(paths.len() / 2);
            self.all(one, ignored);
            self.all(other, ignored);
        }
    }

    /// Asks git once. Returns none if it cannot tell.
    fn once(&mut self, paths: &[&Path]) -> Option<Vec<PathBuf>> {
        self.left = self.left.checked_sub(1)?;
        let options = ["-c", "core.fsmonitor=false", "check-ignore", "-z", "--stdin"];
        let mut argv: Vec<OsString> =
            vec![self.git.path().into(), "-C".into(), self.workspace.into()];
        argv.extend(options.map(Into::into));
        let mut input = Vec::new();
        for path in paths {
            // A name may begin with what git takes for a pattern's magic.
            input.extend_from_slice(b"./");
            input.extend_from_slice(path.as_os_str().as_bytes());
            input.push(0);
        }
        let output =
            self.git.launcher().run_to_end(&argv, &[("GIT_OPTIONAL_LOCKS", "0")], Some(&input));
        // One says that none is ignored (git-check-ignore(1)).
        let output = output.ok().filter(|output| matches!(output.code, Some(0 | 1)))?;
        let found = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let path = |bytes: &[u8]| {
            let path = Path::new(OsStr::from_bytes(bytes));
            path.strip_prefix(".").unwrap_or(path).to_owned()
        };
        Some(found.map(path).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use pinfold_host::wrappers::Wrappers;

    use super::*;

    #[test]
    fn a_path_that_git_does_not_judge_hides_none_that_it_ignores() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap();
        let launcher = Launcher::new(Wrappers::none());
        let git = launcher.find("git", &[]).unwrap();
        let argv = [git.path().as_os_str(), "init".as_ref(), "-q".as_ref(), workspace.as_os_str()];
        assert_eq!(launcher.run_to_end(&argv, &[], None).unwrap().code, Some(0));
        fs::write(workspace.join(".gitignore"), "node_modules\n").unwrap();
        symlink(".", workspace.join("link")).unwrap();
        let paths = ["a", "link/x", "b", "node_modules/.bin/tsc", "z"].map(Path::new);
        let mut ignored = BTreeSet::new();
        let mut ask = Ask { git: &git, workspace: &workspace, left: MOST_ASKED };
        ask.all(&paths, &mut ignored);
        let waits: Vec<&Path> = ignored.iter().map(PathBuf::as_path).collect();
        assert_eq!(waits, ["link/x", "node_modules/.bin/tsc"].map(Path::new));
        let mut all = BTreeSet::new();
        Ask { git: &git, workspace: &workspace, left: 1 }.all(&paths, &mut all);
        assert_eq!(all.len(), paths.len());
    }
}
