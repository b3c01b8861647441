//! What a session changed and nobody has decided on.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use pinfold_host::boot::boot;
use pinfold_policy::path::Escaped;
use pinfold_protect::names_at_start;
use pinfold_trees::tree::Tree;

use super::changes::{Change, Changes, What};
use super::ended::Review;
use super::error::ReviewError;
use super::layer::{LAYERS, NAMES, RECORD, UPPER};
use super::record::Judge;
use super::renames::find_renames;
use super::scan::scan;
use super::seen::Seen;
use super::whole::find_lost;

/// What the workspace was at the first look after the session's end.
const SEEN: &str = "seen";

impl Review {
    /// Returns what the session changed and nobody has decided on yet.
    ///
    /// # Errors
    /// Returns an error for a workspace that is gone, or the error of reading.
    pub fn changes(&self) -> Result<Changes, ReviewError> {
        let (upper, lower) = (self.upper()?, self.lower()?);
        let failed = || ReviewError::system(format!("cannot look at session {}", self.session));
        if let Some(why) = self.is_cut(&upper).map_err(failed())? {
            let (session, layer) = (self.session.clone(), self.file(LAYERS).join(UPPER));
            return Err(ReviewError::Cut { session, why, layer });
        }
        let judge = Judge::new(&self.record).map_err(failed())?;
        let all = scan(&upper, &lower, &judge).map_err(failed())?;
        let seen = self.seen(&all).map_err(failed())?;
        let applied = self.applied().map_err(failed())?;
        let mut list = seen.judge(all);
        list.retain(|change| !applied.contains(&change.path));
        self.drop_shadows(&mut list);
        list.sort_by(|one, other| one.path.cmp(&other.path));
        drop_needless(&mut list);
        find_renames(&mut list, &upper, &lower);
        Ok(Changes { list })
    }

    /// Returns whether the session gave the workspace's own directory another mode, which is not taken over.
    pub fn changed_own_mode(&self) -> bool {
        let mode = |tree: Result<Tree, ReviewError>| Some(tree.ok()?.node_of_root().ok()?.mode);
        mode(self.upper()) != mode(self.lower())
    }

    /// Returns why the layer does not hold all that the session left, where that is so.
    fn is_cut(&self, upper: &Tree) -> io::Result<Option<String>> {
        if self.record.boot == boot()? {
            return Ok(None);
        }
        let Some(seen) = Seen::read(&self.file(SEEN))? else {
            return Ok(Some("it was running then".to_owned()));
        };
        let lost = find_lost(upper, &seen, &self.applied()?)?;
        Ok(lost.map(|path| format!("{} is not what it left", Escaped(&path))))
    }

    /// Drops directories that were made only to be shadowed.
    fn drop_shadows(&self, list: &mut Vec<Change>) {
        if self.record.shadowed.is_empty() {
            return;
        }
        let shadowed = || self.record.shadowed.iter().map(|path| path.0.as_path());
        list.retain(|change| !shadowed().any(|path| change.path == path));
        let is_bare = |change: &Change, all: &[Change]| {
            change.what == What::Added
                && shadowed().any(|path| path.starts_with(&change.path))
                && !all.iter().any(|other| {
                    other.path != change.path
                        && other.path.starts_with(&change.path)
                        && !shadowed().any(|path| path.starts_with(&other.path))
                })
        };
        let all = list.clone();
        list.retain(|change| !is_bare(change, &all));
    }

    /// Returns the state of the workspace at the first look after the session's end, which this may be.
    fn seen(&self, all: &[Change]) -> io::Result<Seen> {
        if let Some(seen) = Seen::read(&self.file(SEEN))? {
            return Ok(seen);
        }
        let names = names_at_start::read(&self.file(NAMES))?;
        let seen = Seen::first(all, self.record.started, names.as_ref());
        // Where nothing was changed, nothing is waited for.
        if !self.is_live && (!all.is_empty() || self.has_commits()) {
            File::open(self.file(RECORD))?.sync_all()?;
            seen.write(&self.file(SEEN))?;
        }
        Ok(seen)
    }
}

/// Drops directories that somebody else removed, except those that hold a change.
fn drop_needless(list: &mut Vec<Change>) {
    let is_empty = |at: usize| {
        let next = list.get(at + 1);
        !next.is_some_and(|next| next.path.starts_with(&list[at].path))
    };
    let needless: BTreeSet<PathBuf> = (0..list.len())
        .filter(|at| list[*at].is_gone_directory() && is_empty(*at))
        .map(|at| list[at].path.clone())
        .collect();
    list.retain(|change| !needless.contains(&change.path));
}
