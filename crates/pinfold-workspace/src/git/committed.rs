//! What HEAD and the local branches of a repository held at the start of a session.
//!
//! These commits are the user's: a branch that a session moved waits for the user if its commits
//! change what tools run (`collect/touched.rs`). So a file with the same path, content and mode is
//! nothing new to the host. Tags and remote-tracking branches do not count: they come with what is fetched.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use pinfold_git::host_git::HostGit;
use pinfold_git::pointer::{line, normal};
use pinfold_git::refs::is_object;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::launcher::HostProgram;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::private::Copied;

/// Bytes of a file that are compared with what git has.
pub(crate) const LARGEST: u64 = 16 << 20;
/// Commits that are looked at at most.
const MOST: usize = 256;

/// The mode of a symbolic link in a tree (gitformat-index(5)).
const LINK: &str = "120000";
const FILE: &str = "100644";
const EXECUTABLE: &str = "100755";

/// What kind of file is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Executable,
    Link,
}

impl Kind {
    fn of_mode(mode: &str) -> Option<Self> {
        [Self::File, Self::Executable, Self::Link].into_iter().find(|kind| kind.mode() == mode)
    }

    fn mode(self) -> &'static str {
        match self {
            Self::File => FILE,
            Self::Executable => EXECUTABLE,
            Self::Link => LINK,
        }
    }
}

/// A working tree of a repository as it was at the start.
pub(crate) struct Repository<'a> {
    program: &'a HostProgram,
    top: &'a Path,
    /// The working tree's own git directory.
    git: Anchor,
    /// The commit of HEAD at the start.
    head: Option<String>,
    /// The commits of HEAD and the local branches at the start.
    commits: Vec<String>,
}

/// A file in a tree of git's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Blob {
    mode: String,
    object: String,
    size: u64,
}

/// The files of some commits, by path.
#[derive(Debug, Default)]
pub(crate) struct Committed(HashMap<PathBuf, HashSet<Blob>>);

/// A file of which HEAD has another content than at the start, or none, as the user's own commits made it.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) path: PathBuf,
    /// What HEAD had at the start.
    pub(crate) before: Committed,
    /// What it has now.
    pub(crate) now: Option<(Kind, Vec<u8>)>,
}

/// What HEAD has, what the commits of the start have that it comes from, and what these have in common.
#[derive(Debug)]
pub(crate) struct Deletions {
    head: HashMap<PathBuf, Blob>,
    origins: Vec<HashMap<PathBuf, Blob>>,
    base: Option<HashMap<PathBuf, Blob>>,
}

impl<'a> Repository<'a> {
    /// Returns the innermost repository that a path lies in. `tops` are the working trees at the start,
    /// each with its git directory; one without a private copy is not known.
    pub(crate) fn of(
        path: &Path,
        tops: &'a [(PathBuf, PathBuf)],
        copies: &'a [Copied],
        program: &'a HostProgram,
    ) -> Option<Self> {
        let around = tops.iter().filter(|(top, _)| path != top && path.starts_with(top));
        let (top, git) = around.max_by_key(|(top, _)| top.as_os_str().len())?;
        let around = copies.iter().filter(|copied| git.starts_with(copied.host.path()));
        let copied = around.max_by_key(|copied| copied.host.path().as_os_str().len())?;
        let below = git.strip_prefix(copied.host.path()).ok()?;
        let head = below.join("HEAD");
        let head = copied.start.head(head.to_str()?).and_then(|head| head.commit);
        let refs = copied.start.refs();
        let branches = refs.into_iter().filter(|(name, _)| name.starts_with("refs/heads/"));
        let mut seen = HashSet::new();
        let commits = head
            .iter()
            .cloned()
            .chain(branches.map(|(_, commit)| commit))
            .filter(|commit| seen.insert(commit.clone()))
            .take(MOST)
            .collect();
        Some(Self { program, top, git: copied.host.below(below).ok()?, head, commits })
    }

    fn git(&self) -> HostGit<'_> {
        HostGit { program: self.program, directory: &self.git }
    }

    /// Returns whether its commits are the user's.
    ///
    /// # Errors
    /// Returns what git says.
    pub(crate) fn is_of_user(&self) -> Result<bool, Refusal> {
        Ok(!self.git().is_of_session()?)
    }

    /// Returns a path from the top, as an argument for git.
    fn argument<'p>(&self, path: &'p Path) -> Option<&'p str> {
        let path = path.strip_prefix(self.top).ok()?.to_str()?;
        (!path.is_empty() && !path.contains('\n')).then_some(path)
    }

    /// Returns what the commits of the start have at these paths, and below them.
    ///
    /// # Errors
    /// Returns what git says.
    pub(crate) fn committed(&self, paths: &[&Path]) -> Result<Committed, Refusal> {
        let names: Vec<&str> = paths.iter().filter_map(|path| self.argument(path)).collect();
        let mut committed = Committed::default();
        for commit in self.different(&names)? {
            for (path, blob) in self.list(commit, &names)? {
                committed.0.entry(path).or_default().insert(blob);
            }
        }
        Ok(committed)
    }

    /// Returns what HEAD deletes at these paths, and below them; `None` if it does not come from
    /// commits of the start: from one, or from two that were merged.
    ///
    /// # Errors
    /// Returns the errors of [`Self::committed`].
    pub(crate) fn deletions(&self, paths: &[&Path]) -> Result<Option<Deletions>, Refusal> {
        let Some(head) = self.git().line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]) else {
            return Ok(None);
        };
        let origins = self.origins(&head)?;
        let is_known = origins.iter().all(|commit| self.commits.contains(commit));
        if !is_known || !(1..=2).contains(&origins.len()) {
            return Ok(None);
        }
        let names: Vec<&str> = paths.iter().filter_map(|path| self.argument(path)).collect();
        let list = |commit: &String| -> Result<HashMap<PathBuf, Blob>, Refusal> {
            Ok(self.list(commit, &names)?.into_iter().collect())
        };
        let base = match &origins[..] {
            [one, other] => self.git().line(&["merge-base", one, other]),
            _ => None,
        };
        Ok(Some(Deletions {
            head: list(&head)?,
            origins: origins.iter().map(list).collect::<Result<_, _>>()?,
            base: base.as_ref().map(list).transpose()?,
        }))
    }

    /// Returns those of these files that HEAD had at the start, and now has not, or otherwise. What it has now is
    /// what a commit of the start has, and what it has not, the user's own commits deleted.
    ///
    /// # Errors
    /// Returns the errors of [`Self::committed`].
    pub(crate) fn switched(&self, paths: &[&Path]) -> Result<Vec<Switched>, Refusal> {
        let Some(start) = self.head.as_ref().filter(|start| !self.is_plainly_at(start)) else {
            return Ok(Vec::new());
        };
        let now = self.git().line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]);
        let Some(now) = now.filter(|now| now != start) else { return Ok(Vec::new()) };
        let names: Vec<&str> = paths.iter().filter_map(|path| self.argument(path)).collect();
        let has: HashMap<PathBuf, Blob> = self.list(&now, &names)?.into_iter().collect();
        let mut changed = self.list(start, &names)?;
        changed.retain(|(path, blob)| has.get(path) != Some(blob));
        if changed.is_empty() || !self.is_of_user()? {
            return Ok(Vec::new());
        }
        let (deletions, committed) = (self.deletions(paths)?, self.committed(paths)?);
        let mut switched = Vec::new();
        for (path, blob) in changed {
            let now = match has.get(&path) {
                None if deletions.as_ref().is_some_and(|it| it.has(&path)) => None,
                Some(now) if committed.has_blob(&path, now) => {
                    let Some(kind) = Kind::of_mode(&now.mode) else { continue };
                    let content =
                        self.git().run_with(&["cat-file", "blob", &now.object], &[], None)?;
                    Some((kind, content))
                }
                _ => continue,
            };
            let before = Committed([(path.clone(), [blob].into())].into());
            switched.push(Switched { path, before, now });
        }
        Ok(switched)
    }

    /// Returns whether the files of HEAD and its branch say that HEAD is at this commit, without asking git. A
    /// branch among the packed ones is not looked for.
    fn is_plainly_at(&self, commit: &str) -> bool {
        let git = self.git.path();
        let head = line(&git.join("HEAD"), b"");
        let shared =
            line(&git.join("commondir"), b"").map_or(git.into(), |it| normal(&git.join(it)));
        let branch =
            line(&git.join("HEAD"), b"ref: ").and_then(|name| line(&shared.join(name), b""));
        [head, branch].into_iter().flatten().any(|at| at == Path::new(commit))
    }

    /// Returns the commits of the user's that a commit of a session's was made on, or the commit itself.
    fn origins(&self, head: &String) -> Result<Vec<String>, Refusal> {
        if self.commits.contains(head) {
            return Ok(vec![head.clone()]);
        }
        let known = self.commits.iter().map(|commit| format!("^{commit}\n"));
        let asked: String = std::iter::once(format!("{head}\n")).chain(known).collect();
        let said =
            self.git().run(&["rev-list", "--boundary", "--stdin"], Some(asked.as_bytes()))?;
        let origins: BTreeSet<&str> =
            said.lines().filter_map(|line| line.strip_prefix('-')).collect();
        Ok(origins.into_iter().map(str::to_owned).collect())
    }

    /// Returns the commits that do not all have the same at these paths: most branches differ elsewhere.
    fn different(&self, names: &[&str]) -> Result<Vec<&String>, Refusal> {
        if names.is_empty() || self.commits.is_empty() {
            return Ok(Vec::new());
        }
        let asked: String = self
            .commits
            .iter()
            .flat_map(|commit| names.iter().map(move |name| format!("{commit}:{name}\n")))
            .collect();
        let how = ["cat-file", "--batch-check=%(objectname)"];
        let said = self.git().run(&how, Some(asked.as_bytes()))?;
        let lines: Vec<&str> = said.lines().collect();
        if lines.len() != self.commits.len() * names.len() {
            return Err("git did not answer for each commit".into());
        }
        // Of one that is missing git says what was asked for.
        let object = |line: &&str| is_object(line).then(|| (*line).to_owned());
        let mut seen = HashSet::new();
        let mut is_new = |answers: &[&str]| {
            let objects: Vec<Option<String>> = answers.iter().map(object).collect();
            objects.iter().any(Option::is_some) && seen.insert(objects)
        };
        let each = self.commits.iter().zip(lines.chunks_exact(names.len()));
        Ok(each.filter(|(_, answers)| is_new(answers)).map(|(commit, _)| commit).collect())
    }

    /// Returns the files of a commit at these paths, each with its mode and object.
    fn list(&self, commit: &str, names: &[&str]) -> Result<Vec<(PathBuf, Blob)>, Refusal> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let how = ["ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--"];
        let variables = [("GIT_LITERAL_PATHSPECS", "1")];
        let listed = self.git().run_with(&[&how[..], names].concat(), &variables, None)?;
        Ok(listed.split(|byte| *byte == 0).filter_map(|entry| self.entry(entry)).collect())
    }

    fn entry(&self, entry: &[u8]) -> Option<(PathBuf, Blob)> {
        let at = entry.iter().position(|byte| *byte == b'\t')?;
        let about = std::str::from_utf8(&entry[..at]).ok()?;
        let mut words = about.split_ascii_whitespace();
        let (mode, kind, object) = (words.next()?, words.next()?, words.next()?);
        let size = words.next()?.parse().ok().filter(|_| kind == "blob")?;
        let path = self.top.join(OsStr::from_bytes(&entry[at + 1..]));
        Some((path, Blob { mode: mode.to_owned(), object: object.to_owned(), size }))
    }
}

impl Deletions {
    /// Returns whether a file is gone that the user's own commits deleted: all that HEAD comes from lack
    /// it, or one of two that were merged does and the other one never changed it.
    pub(crate) fn has(&self, path: &Path) -> bool {
        if self.head.contains_key(path) {
            return false;
        }
        let mut present = self.origins.iter().filter_map(|files| files.get(path));
        match (present.next(), present.next()) {
            (None, _) => true,
            (Some(blob), None) if self.origins.len() == 2 => {
                self.base.as_ref().and_then(|base| base.get(path)) == Some(blob)
            }
            _ => false,
        }
    }
}

impl Committed {
    fn has_blob(&self, path: &Path, blob: &Blob) -> bool {
        blob.size <= LARGEST && self.0.get(path).is_some_and(|blobs| blobs.contains(blob))
    }

    /// Returns whether a commit of the start has something of this size, in bytes, at this path.
    pub(crate) fn has_size(&self, path: &Path, size: u64) -> bool {
        self.0.get(path).is_some_and(|blobs| blobs.iter().any(|blob| blob.size == size))
    }

    /// Returns whether a commit of the start has this at this path.
    pub(crate) fn has(&self, path: &Path, kind: Kind, content: &[u8]) -> bool {
        let Some(entries) = self.0.get(path) else { return false };
        let mut of_kind = entries.iter().filter(|blob| blob.mode == kind.mode());
        of_kind.any(|blob| is_content_of(&blob.object, content))
    }
}

/// Returns whether an object is the blob with this content.
pub(crate) fn is_content_of(object: &str, content: &[u8]) -> bool {
    let header = format!("blob {}\0", content.len());
    // git itself refuses objects that belong to a known attack on SHA-1.
    let algorithm = if object.len() == 40 { &SHA1_FOR_LEGACY_USE_ONLY } else { &SHA256 };
    let digest = digest(algorithm, &[header.as_bytes(), content].concat());
    HEXLOWER.encode(digest.as_ref()) == object
}
