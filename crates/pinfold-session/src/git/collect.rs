//! At the end of a session in `git = quarantine`: commits, branches, tags, notes and stashes come
//! out of the inside's copy, nothing else does.
//!
//! A branch that the host can fast-forward is moved, a new one is made; where the two sides
//! differ, the inside's is kept as `refs/pinfold/<session>/…` and a message says so. So is one
//! that is checked out in a working tree of which the inside knew nothing, and a tag that the host
//! has already, as git-fetch(1) would not replace it. The working trees that the inside could
//! write are shared, so when it moved what is checked out there, the host's HEAD follows and its
//! index becomes that commit's, as `git reset` (mixed) would leave it: `git status` then shows
//! what differs in the working tree. Nothing is deleted; what the inside deleted is told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::host::HostGit;
use super::pipes;
use super::quarantine::Copied;
use super::read::{open_directory, read_bounded};
use super::refs::{Head, Refs, Stash, Taken, parse_heads, parse_refs, parse_stashes, shell_word};
use super::settle::{Kept, Settled};
use super::worktrees::{self, Worktree};
use crate::launcher::{Launcher, Spot};

mod follow;
mod told;
mod unchanged;

/// Bytes of what git lists for a repository at most; a reference takes some hundred.
const LONGEST_LIST: u64 = 256 << 20;

/// Which repository, and with which programs.
pub(crate) struct Collect<'a> {
    pub(crate) copied: &'a Copied,
    pub(crate) git: &'a Path,
    pub(crate) session: &'a str,
    pub(crate) out: PathBuf,
    /// Tops of the working trees that the inside could write, each with its git directory.
    pub(crate) tops: &'a [(PathBuf, PathBuf)],
    /// Where the host's working trees were, by git directory, before an interrupted attempt; none
    /// at the first one.
    pub(crate) before: Option<HashMap<PathBuf, Head>>,
}

/// What a repository holds.
struct Held {
    refs: Refs,
    /// The newest first.
    stashes: Vec<Stash>,
}

impl Collect<'_> {
    /// Whether there may be something to take over.
    pub(crate) fn has_news(&self) -> bool {
        !self.is_unchanged(&worktrees::list(&self.copied.host, self.tops))
    }

    /// Where the host's working trees are, by git directory.
    pub(crate) fn heads(&self) -> HashMap<PathBuf, Head> {
        let all = worktrees::list(&self.copied.host, self.tops);
        all.iter()
            .map(|worktree| (worktree.git.path().to_owned(), self.head_of(worktree)))
            .collect()
    }

    /// Takes over what is new.
    ///
    /// # Errors
    /// What went wrong, in words; then nothing was moved, or what is left to be done is in the
    /// copy still.
    pub(crate) fn collect(&self, settled: &mut Settled) -> Result<(), String> {
        // The inside could put a link in its place.
        open_directory(&self.copied.private).map_err(|errno| format!("the copy: {errno}"))?;
        let all = worktrees::list(&self.copied.host, self.tops);
        if self.before.is_none() && self.is_unchanged(&all) {
            return Ok(());
        }
        for git in [self.copied.private.as_path(), self.copied.host.path()] {
            pipes::refuse(git).map_err(|error| error.to_string())?;
        }
        fs::create_dir(&self.out).map_err(|error| error.to_string())?;
        crate::guard::hand_over(&self.out).map_err(|error| error.to_string())?;
        let (within, elsewhere): (Vec<Worktree>, Vec<Worktree>) =
            all.into_iter().partition(|worktree| worktree.within);
        let ours = self.ours()?;
        let (theirs, heads) = self.export(&ours, &within)?;
        let known = |worktree: &Worktree| self.before.as_ref()?.get(worktree.git.path()).cloned();
        let before: Vec<Head> = within
            .iter()
            .map(|worktree| known(worktree).unwrap_or_else(|| self.head_of(worktree)))
            .collect();
        let moved: Vec<(&String, &String)> = theirs
            .refs
            .iter()
            .filter(|(name, object)| ours.refs.get(*name) != Some(object))
            .collect();
        let forward = self.check(&ours, &moved, &before, &heads)?;
        let held = self.checked_out(&elsewhere);
        let commands = self.commands(&ours, &moved, &forward, &held, settled);
        self.host().run(&["update-ref", "--stdin"], Some(commands.as_bytes()))?;
        for (number, (worktree, before)) in within.iter().zip(&before).enumerate() {
            let Some(head) = heads.get(&number).filter(|head| *head != before) else { continue };
            if head.branch.as_ref().is_none_or(|branch| !held.contains_key(branch)) {
                self.follow(number, worktree, before, head, settled)?;
            }
        }
        self.store_stashes(&ours, &theirs, settled)?;
        self.tell_deleted(&ours, &theirs, settled);
        self.tell_worktrees(settled);
        Ok(())
    }

    fn host(&self) -> HostGit<'_> {
        HostGit { program: self.git, directory: &self.copied.host }
    }

    fn ours(&self) -> Result<Held, String> {
        let kinds = ["refs/heads", "refs/tags", "refs/notes", "refs/stash"];
        let format = "--format=%(objectname) %(refname)";
        let listed = self.host().run(&[&["for-each-ref", format], &kinds[..]].concat(), None)?;
        let has_stash = listed.lines().any(|line| line.ends_with(" refs/stash"));
        let list = ["log", "-g", "-s", "--no-show-signature", "--no-decorate", "--no-notes"];
        let of_stash = ["--format=%H %gs", "refs/stash", "--"];
        let stashes = match has_stash {
            true => self.host().run(&[&list[..], &of_stash[..]].concat(), None)?,
            false => String::new(),
        };
        Ok(Held { refs: parse_refs(&listed), stashes: parse_stashes(&stashes) })
    }

    /// The first half of the import: what the copy holds.
    fn export(
        &self,
        ours: &Held,
        within: &[Worktree],
    ) -> Result<(Held, BTreeMap<usize, Head>), String> {
        let stashes = ours.stashes.iter().map(|stash| &stash.commit);
        let tips = ours.refs.values().chain(stashes).map(|object| format!("{object}\n"));
        self.write("tips", &tips.collect::<String>())?;
        let heads = within.iter().enumerate();
        let heads = heads.map(|(number, worktree)| format!("{number} {}\n", worktree.head));
        self.write("worktrees", &heads.collect::<String>())?;
        self.helper("export")?;
        let (refs, stashes) =
            (parse_refs(&self.read("refs")?), parse_stashes(&self.read("stash")?));
        Ok((Held { refs, stashes }, parse_heads(&self.read("heads")?)))
    }

    /// The second half: takes the objects over. Returns which references move forward.
    fn check(
        &self,
        ours: &Held,
        moved: &[(&String, &String)],
        before: &[Head],
        heads: &BTreeMap<usize, Head>,
    ) -> Result<BTreeSet<String>, String> {
        let updates = moved
            .iter()
            .filter_map(|(name, new)| Some(format!("{} {new} {name}\n", ours.refs.get(*name)?)));
        self.write("updates", &updates.collect::<String>())?;
        let at_another = |(number, head): (&usize, &Head)| {
            let commit = head.commit.as_ref()?;
            let is_other = before.get(*number)?.commit.as_ref() != Some(commit);
            is_other.then(|| format!("{number} {commit}\n"))
        };
        self.write("indexes", &heads.iter().filter_map(at_another).collect::<String>())?;
        self.helper("check")?;
        Ok(self.read("forward")?.lines().map(str::to_owned).collect())
    }

    /// Branches that are checked out in working trees of which the inside knew nothing.
    fn checked_out<'w>(&self, elsewhere: &'w [Worktree]) -> HashMap<String, &'w Worktree> {
        let branch = |worktree: &'w Worktree| {
            let git = HostGit { program: self.git, directory: &worktree.git };
            Some((git.line(&["symbolic-ref", "-q", "HEAD"])?, worktree))
        };
        elsewhere.iter().filter_map(branch).collect()
    }

    /// What git-update-ref(1) is told.
    fn commands(
        &self,
        ours: &Held,
        moved: &[(&String, &String)],
        forward: &BTreeSet<String>,
        held: &HashMap<String, &Worktree>,
        settled: &mut Settled,
    ) -> String {
        let taken = Taken::new(&ours.refs);
        let mut commands = String::new();
        for (name, new) in moved {
            let kept = format!("refs/pinfold/{}/{}", self.session, &name["refs/".len()..]);
            let why = match (ours.refs.get(*name), held.get(*name)) {
                (_, Some(worktree)) if forward.contains(*name) => {
                    let top = shell_word(&worktree.top.to_string_lossy());
                    format!(
                        "it is checked out in another worktree; take it with \
                         `git -C {top} merge --ff-only {}`",
                        shell_word(&kept)
                    )
                }
                (None, None) if taken.is_in_the_way_of(name) => {
                    "a reference of the host has the same beginning".to_owned()
                }
                (None, None) => {
                    commands.push_str(&format!("create {name} {new}\n"));
                    continue;
                }
                (Some(_), _) if name.starts_with("refs/tags/") => {
                    "the host has a tag of this name".to_owned()
                }
                (Some(old), None) if forward.contains(*name) => {
                    commands.push_str(&format!("update {name} {new} {old}\n"));
                    continue;
                }
                (Some(_), _) => "it is no fast-forward of the host's".to_owned(),
                (None, Some(_)) => "it is checked out in another worktree".to_owned(),
            };
            commands.push_str(&format!("update {kept} {new}\n"));
            self.keep(settled, format!("{name} in {}, kept as {kept}", self.place()), why);
        }
        commands
    }

    fn place(&self) -> std::path::Display<'_> {
        self.copied.host.path().display()
    }

    fn keep(&self, settled: &mut Settled, what: String, why: String) {
        settled.kept.push(Kept { what, why: why.into(), opt_in: None });
    }

    /// Runs one half of the import, in a process of its own that stands in the host's git directory.
    fn helper(&self, half: &str) -> Result<(), String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let host = self.copied.host.open().map_err(|error| error.to_string())?;
        let paths = [Path::new("."), &self.copied.private, &self.copied.base, &self.out];
        let mut argv: Vec<OsString> = vec![own.into(), "import-objects".into(), half.into()];
        argv.extend(paths.map(|path| path.into()));
        let spot = Spot { path: self.copied.host.path(), opened: &host };
        let output = Launcher.run_in(spot, None, &argv, &[], None);
        let output = output.map_err(|error| error.to_string())?;
        match output.code {
            Some(0) => Ok(()),
            _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn write(&self, name: &str, content: &str) -> Result<(), String> {
        fs::write(self.out.join(name), content).map_err(|error| error.to_string())
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let out = open_directory(&self.out).map_err(|errno| errno.to_string())?;
        let content = read_bounded(out, Path::new(name), LONGEST_LIST);
        let content = content.map_err(|unread| format!("{name} {unread}"))?;
        Ok(content.map_or_else(String::new, |it| String::from_utf8_lossy(&it.bytes).into_owned()))
    }
}
