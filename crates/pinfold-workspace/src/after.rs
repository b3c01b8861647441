//! The look at the end: what a session made that programs on the host would execute.
//!
//! Nothing can keep a sandbox from making a repository, or a name that is only protected where it
//! exists. So when everything in it has ended, the directories that changed are read again. A new
//! repository is rebuilt from its checked objects and references, or set aside. Other new things
//! that the host would execute are set aside. "New" means another file than at the start, by
//! device, inode and birth time: a path proves nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_git::settled::{Kept, Settled};
use pinfold_host::directories::Places;
use pinfold_host::file_id::{FileId, Moment};
use pinfold_host::placeholder::is_empty;
use pinfold_host::sessions::live_placeholders;
use pinfold_host::within::Within;
use pinfold_names::Protection;
use pinfold_policy::authority::{Reason, Why};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::FileSettings;
use pinfold_protect::commands::{Programs, Shadowing};
use pinfold_protect::masks::Unmasked;
use pinfold_protect::misleading::{Finder, Misleading};
use pinfold_protect::newcomers::{is_secret, is_within};
use pinfold_protect::patience::Patience;
use pinfold_protect::protect::{Finding, Look, Rules, Surveyor, What};
use pinfold_protect::set_aside::SetAside;
use pinfold_protect::survey::{Obstacle, Unseen, walk_changed};
use pinfold_protect::trusted;
use rustix::fs::{CWD, FileType};
use rustix::io::Errno;

use crate::git::modules::GitFiles;
use crate::git::rebuild::Rebuild;
use crate::guard::{Guard, Walked};
use crate::protected_dirs::Settling;

mod aside;
mod repositories;

use repositories::Repositories;

/// What the look goes by.
pub(crate) struct Context<'a> {
    pub(crate) guard: &'a Guard,
    pub(crate) settling: Settling<'a>,
    pub(crate) places: &'a Places,
    pub(crate) files: &'a FileSettings,
    pub(crate) protection: &'a Protection,
    pub(crate) aside: &'a SetAside,
    /// Files whose masks the host took off while the session lived.
    pub(crate) unmasked: &'a HashMap<PathBuf, Unmasked>,
    /// `.git` files of submodules that were rebuilt.
    pub(crate) git_files: &'a GitFiles,
    pub(crate) patience: &'a Patience,
}

struct After<'a> {
    guard: &'a Guard,
    settling: Settling<'a>,
    places: &'a Places,
    aside: &'a SetAside,
    unmasked: &'a HashMap<PathBuf, Unmasked>,
    git_files: GitFiles,
    rebuild: Rebuild<'a>,
    settled: &'a mut Settled,
    /// Tops of the working trees whose repositories were rebuilt.
    new_trees: HashSet<PathBuf>,
    /// Names that are new and would be executed, or waited for.
    named: Vec<(PathBuf, Reason)>,
    /// What is new and misleads programs on the host.
    misleading: Vec<Misleading>,
    /// What was set aside, or lies in something that was.
    gone: HashSet<PathBuf>,
    /// What tools run on a build, in directories that changed.
    built: Vec<PathBuf>,
    repositories: Repositories,
    patience: &'a Patience,
    is_cut: bool,
    /// Whether more was there than is dealt with at once.
    is_full: bool,
}

/// What a look came to.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// What lies in directories that changed and tools run on a build.
    pub(crate) built: Vec<PathBuf>,
    /// What has the name of a secret and had not at the start, and was not set aside.
    pub(crate) secrets: BTreeSet<PathBuf>,
    /// Whether there was no time for all of it.
    pub(crate) is_cut: bool,
}

/// Looks at what changed in the writable roots, and rebuilds or sets aside what is new there.
pub(crate) fn look(context: &Context<'_>, rebuild: Rebuild<'_>, settled: &mut Settled) -> Looked {
    let Context { guard, settling, places, files, protection, aside, unmasked, .. } = *context;
    let rules = Rules {
        protection: protection.clone(),
        files,
        own: &guard.own,
        roots: guard.readable.clone(),
    };
    let mut after = After {
        guard,
        settling,
        places,
        aside,
        unmasked,
        git_files: context.git_files.clone(),
        rebuild,
        settled,
        new_trees: HashSet::new(),
        named: Vec::new(),
        misleading: Vec::new(),
        gone: HashSet::new(),
        built: Vec::new(),
        repositories: Repositories::default(),
        patience: context.patience,
        is_cut: false,
        is_full: false,
    };
    let mut done = HashSet::new();
    let mut findings = Vec::new();
    for root in &guard.roots {
        findings.extend(after.changed(root, &rules));
    }
    findings.retain(|finding| done.insert(finding.path.clone()));
    let known = guard.secret_names.iter().chain(&guard.hidden).cloned().collect();
    let new = findings.iter().filter(|it| is_secret(it) && !is_within(&it.path, &known));
    let mut secrets: BTreeSet<_> = new.map(|it| it.path.clone()).collect();
    after.judge_all(findings);
    after.trusted();
    after.expected();
    after.commands();
    after.moved(protection);
    after.led(protection);
    after.set_named_aside();
    after.set_misleading_aside();
    secrets.retain(|path| !after.is_gone(path));
    Looked { is_cut: after.is_over() || after.is_full, built: after.built, secrets }
}

/// Findings in the order in which they are judged: `.git` files are good once the repository of their submodule is rebuilt.
/// The shortest paths come first: repositories share a time, and what a user asked for is rarely the deepest.
struct Order {
    others: Vec<Finding>,
    files: Vec<Finding>,
}

impl Order {
    fn of(findings: Vec<Finding>) -> Self {
        let is_file = |finding: &Finding| matches!(finding.what, What::GitFile);
        let (files, mut others): (Vec<Finding>, _) = findings.into_iter().partition(is_file);
        others.sort_by_cached_key(|finding| finding.path.components().count());
        Self { others, files }
    }
}

impl After<'_> {
    fn changed(&mut self, root: &Walked, rules: &Rules<'_>) -> Vec<Finding> {
        let mut surveyor = Surveyor::new(rules, &root.path, &root.site, true, Look::After);
        let roots = self.guard.roots.iter().map(|root| (root.path.as_path(), &root.site)).collect();
        let (before, hidden) = (&self.guard.before, &self.guard.hidden);
        let mut finder =
            Finder::new(&root.path, roots, before, hidden, &rules.protection, rules.own);
        finder.patience = Some(self.patience);
        let began = before.began.by_the_clock();
        let patience = self.patience;
        let walked =
            walk_changed(&root.path, &root.walk, &began, patience, &mut |it, zone, below| {
                finder.visit(it, zone);
                surveyor.visit(it.listing, zone, below);
            });
        self.is_full = self.is_full || finder.is_full;
        self.misleading.extend(finder.found);
        match walked {
            Err(Errno::CANCELED) => self.is_cut = true,
            Ok(unseen) => {
                for unseen in unseen {
                    self.unseen(root, &unseen);
                }
            }
            Err(errno) => {
                let what = format!("{} ({errno})", Escaped(&root.path));
                let why = "it could not be read again: do not run git or builds there before you \
                           have looked at it";
                self.settled.kept.push(Kept::new(what, why));
            }
        }
        self.built.extend(surveyor.built);
        surveyor.findings
    }

    /// Judges what the caller's programs trust authorities by. No name tells that, and a mask may have come off.
    fn trusted(&mut self) {
        for path in trusted::at_the_end(&self.guard.trusted, &self.guard.own) {
            if self.root_of(&path).is_some_and(|root| root != path) && !self.is_known(&path) {
                self.named.push((path, trusted::reason()));
            }
        }
    }

    /// Judges what was missing at the start although a git configuration names it as a program, and links in the place of
    /// directories that a path there leaves by `..`.
    fn expected(&mut self) {
        for (path, reason) in &self.guard.protect.expected {
            let is_there = fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir());
            if is_there && !self.is_known(path) {
                self.named.push((path.clone(), reason.clone()));
            }
        }
    }

    /// Judges what is new where the user's shell looks for programs.
    fn commands(&mut self) {
        if self.guard.ahead.is_empty() {
            return;
        }
        // Nothing is changed below a view.
        let reach = Within::of(self.guard.writable());
        let programs = Programs::find(&reach);
        for (path, shadowing) in self.guard.ahead.iter().flat_map(|it| programs.new_in(it, &reach))
        {
            match shadowing {
                Shadowing::OfSystem(reason) => self.named.push((path, reason)),
                Shadowing::OfUser => self.built.push(path),
            }
        }
    }

    /// Judges what variables name that was missing: its last name may say nothing.
    fn moved(&mut self, protection: &Protection) {
        for root in &self.guard.roots {
            for relative in root.site.moved() {
                let path = root.path.join(relative);
                let class = protection.classify(&root.site, relative);
                let executed = class.and_then(|class| class.executed());
                let is_new = || fs::symlink_metadata(&path).is_ok() && !self.is_known(&path);
                if let Some(class) = executed.filter(|_| is_new()) {
                    self.named.push((path, class.reason()));
                }
            }
        }
    }

    /// Judges what links that were there lead to by names that are protected: it lies there by other names.
    fn led(&mut self, protection: &Protection) {
        let guard = self.guard;
        for (root, link) in guard.known.keys().filter(|path| path.is_symlink()).filter_map(|link| {
            Some((guard.roots.iter().find(|root| link.starts_with(&root.path))?, link))
        }) {
            let Ok(relative) = link.strip_prefix(&root.path) else { continue };
            for (rest, class) in protection.leads_to(&root.site, relative) {
                let Ok(end) = fs::canonicalize(link.join(rest)) else { continue };
                if rest != Path::new("") && self.root_of(&end).is_some() && !self.is_known(&end) {
                    self.named.push((end, class.reason()));
                }
            }
        }
    }

    /// Returns whether the time is over. Then nothing more is judged.
    fn is_over(&mut self) -> bool {
        self.is_cut = self.is_cut || self.patience.is_over();
        self.is_cut
    }

    /// Sets a directory aside that the look could not enter, if it is new. What was there at the
    /// start has been masked since.
    fn unseen(&mut self, root: &Walked, unseen: &Unseen) {
        let is_new =
            |path: &Path| !root.walk.has_seen(path) && !self.is_known(&root.path.join(path));
        if !is_new(&unseen.path) {
            return;
        }
        let (path, why) = match unseen.why {
            Obstacle::Closed => (unseen.path.as_path(), "it is new and cannot be read"),
            // The uppermost new directory has the shortest path.
            Obstacle::TooDeep => {
                let new = unseen.path.ancestors().filter(|path| !path.as_os_str().is_empty());
                let top = new.filter(|path| is_new(path)).last().unwrap_or(&unseen.path);
                (top, "directories are nested too deeply in it to be looked at")
            }
        };
        self.set_aside(&root.path.join(path), why);
    }

    /// Returns whether this very file was there at the start and has been protected since. One that the
    /// host saved counts if nobody changed it after its mask was put back.
    fn is_known(&self, path: &Path) -> bool {
        match self.unmasked.get(path) {
            Some(Unmasked::Host(saved)) if Moment::of(path).as_ref() == Ok(saved) => return true,
            Some(Unmasked::Sandbox) => return false,
            Some(Unmasked::Host(_)) | None => {}
        }
        self.guard.known.get(path).is_some_and(|known| FileId::of(path).as_ref() == Ok(known))
    }

    /// Judges `.git` files last, when repositories are rebuilt.
    fn judge_all(&mut self, findings: Vec<Finding>) {
        let Order { others, files } = Order::of(findings);
        let new = others.iter().filter(|it| self.is_new_repository(it)).count();
        self.repositories.expect(new, self.rebuild.time_left());
        for finding in others {
            if !self.is_over() {
                self.judge(finding);
            }
        }
        self.rebuild_late();
        for finding in files {
            if !self.is_over() {
                self.judge(finding);
            }
        }
    }

    fn is_new_repository(&self, finding: &Finding) -> bool {
        matches!(finding.what, What::GitDirectory | What::BareRepository)
            && !self.is_known(&finding.path)
            && !self.is_in_repository(&finding.path)
    }

    fn judge(&mut self, finding: Finding) {
        let Finding { path, kind, what } = finding;
        if self.is_known(&path) || self.is_gone(&path) || self.is_in_repository(&path) {
            return;
        }
        match what {
            What::GitDirectory => self.repository(&path),
            What::BareRepository => self.bare_repository(&path),
            What::GitFile => self.git_file(&path, kind),
            What::Named(_) if kind == FileType::Directory && self.is_placeholder(&path) => {}
            What::Named(class) => {
                let executed = class.executed().map(|class| (path, class.reason()));
                self.named.extend(executed);
            }
            What::Leads(led) => {
                self.named.extend(led.first().map(|(_, class)| (path, class.reason())));
            }
            What::Socket if kind == FileType::Fifo => {
                let text = "a program that opens it, as git does .gitignore, waits for ever";
                let why = Why::HostExecutes;
                self.named.push((path, Reason { why, text: text.into(), opt_in: None }));
            }
            What::Socket | What::Denied(..) | What::SetAside | What::Own => {}
        }
    }

    /// Returns whether it is what another live session made, which nobody has put anything into.
    fn is_placeholder(&self, path: &Path) -> bool {
        is_empty(CWD, path) && live_placeholders(self.places).contains(path)
    }

    /// Returns whether a path is in a git directory of the host's. The session had another one.
    fn is_in_repository(&self, path: &Path) -> bool {
        // A submodule's lies in that of the repository, which alone is masked.
        path.ancestors().any(|above| self.guard.has_private(above) && self.is_known(above))
    }

    fn is_gone(&self, path: &Path) -> bool {
        !self.gone.is_empty() && path.ancestors().any(|above| self.gone.contains(above))
    }

    /// Handles a new `.git` that is not a directory: it leads git elsewhere.
    fn git_file(&mut self, path: &Path, kind: FileType) {
        if self.git_files.get(path).is_some_and(|id| FileId::of(path).as_ref() == Ok(id)) {
            return self.note_tree(path);
        }
        let why = match kind {
            FileType::Symlink => "a link leads git to another directory",
            _ => "it leads git to a directory of the session; its commits and branches come out",
        };
        self.set_aside(path, why);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pinfold_protect::protect::{Finding, What};
    use rustix::fs::FileType;

    use super::Order;

    #[test]
    fn git_directories_are_rebuilt_before_files_that_lead_to_them() {
        let found = |path: &str, kind, what| Finding { path: PathBuf::from(path), kind, what };
        let order = Order::of(vec![
            found("/w/inner/.git", FileType::RegularFile, What::GitFile),
            found("/w/deep/er/.git", FileType::Directory, What::GitDirectory),
            found("/w/fifo", FileType::Fifo, What::Socket),
            found("/w/.git", FileType::Directory, What::GitDirectory),
        ]);
        let paths = |findings: Vec<Finding>| findings.into_iter().map(|it| it.path);
        let others = ["/w/fifo", "/w/.git", "/w/deep/er/.git"].map(PathBuf::from);
        assert!(paths(order.others).eq(others));
        assert!(paths(order.files).eq(["/w/inner/.git"].map(PathBuf::from)));
    }
}
