//! What is made of a session's changes at its end.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_git::dropped;
use pinfold_git::refs::shell_word;
use pinfold_git::settled::{Kept, Settled};
use pinfold_git::state::State;
use pinfold_host::directories::Places;
use pinfold_host::launcher::HostProgram;
use pinfold_policy::settings::Settings;
use pinfold_protect::built;
use pinfold_protect::directory_hook;
use pinfold_protect::masks::Fell;
use pinfold_protect::newcomers::{self, Maker};
use pinfold_protect::patience::Patience;
use pinfold_protect::set_aside::SetAside;

use super::state::Guard;
use crate::after::{self, Looked};
use crate::git::collect::{Phase, inner_first};
use crate::git::kept;
use crate::git::modules::GitFiles;
use crate::git::rebuild::Rebuild;
use crate::git::sync::Synced;
use crate::protected_dirs::{self, Settling, uncommitted};

/// How long all programs may take together that rebuild what a session made, submodules half of it. The look at its end
/// has 60 s.
const REBUILDING: Duration = Duration::from_secs(40);

impl Guard {
    /// Takes over what is harmless of the session's changes. Call it when everything in the
    /// sandbox has ended.
    /// `synced` is what came of its repositories while it lived, and `fell` is what the
    /// host did to masks and below a view. If the time is over first, nothing is taken over of its commits either.
    pub fn settle(
        &self,
        settings: &Settings,
        places: &Places,
        synced: Synced,
        fell: &Fell,
        patience: &Patience,
    ) -> Settled {
        let found = self.host_git();
        let git = found.as_ref().ok();
        let rebuilding = git.map(|git| git.within(REBUILDING));
        let mut settled = Settled { kept: synced.kept, ..Settled::default() };
        let aside = SetAside::of(places, &self.session);
        // Before any commit comes out: a `.git` file in a submodule that leads nowhere would make
        // `git status` fail on the host.
        let repositories = self.repositories();
        let mut modules = synced.modules;
        let git_files = rebuilding.as_ref().map_or_else(GitFiles::new, |git| {
            let git = git.with_share_of(2);
            let found = repositories.modules(&git, Phase::End, Some(&aside), Some(patience));
            found.bring(&mut modules, &mut settled)
        });
        let rebuild = Rebuild {
            aside: &aside,
            session: &self.session,
            reader: self.reader(),
            modules: rebuilding
                .as_ref()
                .map(|git| repositories.modules(git, Phase::End, Some(&aside), Some(patience))),
            git: rebuilding,
        };
        let settling = Settling {
            git,
            tops: &self.tops,
            copies: &self.copies.directories,
            aside: &aside,
            session: &self.session,
        };
        let context = after::Context {
            guard: self,
            settling,
            places,
            files: &settings.files,
            protection: &self.protection,
            aside: &aside,
            unmasked: &fell.unmasked,
            git_files: &git_files,
            patience,
        };
        let Looked { built, secrets, is_cut } = after::look(&context, rebuild, &mut settled);
        settled.is_cut = is_cut;
        settled.secrets = newcomers::notes(&uncommitted(&settling, secrets), Maker::Either);
        if let Some(newcomers) = self.newcomers(&settings.files) {
            let (made, unread) = newcomers.at_end(&places.cache, fell);
            let made = newcomers::notes(&uncommitted(&settling, made), Maker::Host);
            settled.secrets.extend(made.into_iter().chain(unread));
        }
        if is_cut {
            return settled;
        }
        if self.over.is_none() {
            self.collect(found.as_ref(), synced.states, &mut settled, patience);
            if settled.is_cut {
                return settled;
            }
            self.report_dropped(&mut settled.kept);
        }
        // HEAD is where the session has it now.
        protected_dirs::settle(&settling, &self.protected_dirs, &mut settled);
        if self.over.is_none() {
            let hidden: HashSet<&PathBuf> = self.hidden.iter().collect();
            let files = self.known.iter().filter(|(path, _)| !hidden.contains(path));
            protected_dirs::settle_files(&settling, files, &mut settled);
        }
        let roots: Vec<PathBuf> = self.roots.iter().map(|root| root.path.clone()).collect();
        let loaded = directory_hook::changed(&self.loaded);
        let loaded = built::note(loaded, directory_hook::BECOMES, &roots);
        let notes = [loaded, self.built.note(&built, &roots)];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        settled.built = (!notes.is_empty()).then(|| notes.join("; "));
        settled.kept.sort();
        settled.kept.dedup();
        settled
    }

    /// Names the git settings and hooks that end with the session.
    fn report_dropped(&self, kept: &mut Vec<Kept>) {
        for copied in &self.copies.directories {
            let now = dropped::Settings::read(&copied.private);
            copied.start.settings().report(&now, copied.host.path(), kept);
        }
    }

    /// Takes commits and references out of the copies, as long as there is time.
    fn collect(
        &self,
        git: Result<&HostProgram, &io::Error>,
        mut states: Vec<State>,
        settled: &mut Settled,
        patience: &Patience,
    ) {
        let repositories = self.repositories();
        let all = repositories.copied();
        let rebuilt = settled.rebuilt.clone();
        for number in inner_first(all.iter().map(|copied| copied.host.path())) {
            let (copied, state) = (&all[number], states.get_mut(number).map(std::mem::take));
            if patience.is_over() {
                settled.is_cut = true;
                return;
            }
            let collected = match git {
                Ok(git) => {
                    let collect = repositories.collecting(copied, git, &rebuilt, Phase::End);
                    collect.collect_at_end(state, settled)
                }
                Err(missing) => Err(format!("no git can be used: {missing}").into()),
            };
            if let Err(error) = collected {
                let what = format!("commits in {} ({error})", copied.host.path().display());
                settled.kept.push(match kept::keep(copied, &self.session) {
                    Ok(kept) => {
                        let adopt =
                            format!("pinfold adopt {}", shell_word(&kept.to_string_lossy()));
                        let of_commits = Kept::new(what, "they could not be taken over");
                        Kept { adopt: Some(adopt), ..of_commits }
                    }
                    Err(error) => Kept::new(what, format!("their copy cannot be kept: {error}")),
                });
            }
        }
    }
}
