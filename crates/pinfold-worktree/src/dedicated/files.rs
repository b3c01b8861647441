//! Writing a worktree's files, and looking whether they are as they were committed.
//!
//! Git does both in a throwaway boundary without network, with a git directory that holds nothing but
//! what is written here: of the repository's and the user's configuration how lines end and what the
//! file system can, of the repository's private files `attributes` and `exclude`. The objects are
//! read-only. So no hook, filter or other program that a configuration names runs, with one
//! exception, which does not go by what is configured but by a name that everybody knows: who has set
//! up Git LFS for themselves gets its files, as far as their content is in the repository.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use pinfold_git::config::{self, Config};
use pinfold_git::index::{self, Index};
use pinfold_git::{lfs, user_config};
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_beneath, read_bounded};
use pinfold_host::directories::Places;
use pinfold_policy::path::Escaped;
use pinfold_rootfs::scratch::{Access, Scratch};
use rustix::io::Errno;

use pinfold_boundary::ownership::hand_over;

/// What of a configuration says how files are written (git-config(1)); none of it names a program.
const KEYS: [&str; 7] = [
    "core.repositoryformatversion",
    "extensions.objectformat",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
];

/// What says that only a part is checked out (git-sparse-checkout(1)).
const SPARSE: [&str; 2] = ["core.sparsecheckout", "core.sparsecheckoutcone"];

/// Where the boundary shows what Git LFS keeps.
const LFS: &str = "/q/lfs";

/// How deep alternates go (`link_alt_odb_entries` in git's object-file.c).
const DEEPEST: usize = 5;

/// The directories of a worktree, all on the host.
#[derive(Debug, Clone)]
pub struct WorktreeFiles {
    /// The repository's git directory.
    pub git: PathBuf,
    /// The worktree's.
    pub own: PathBuf,
    /// The worktree's top.
    pub top: PathBuf,
    /// What git is given, and where results are written.
    pub out: PathBuf,
}

/// Passes on the errors at the end when something fails.
const BEGIN: &str = "set -e
exec 3>&2 2>/tmp/errors
trap '[ ! -s /tmp/errors ] || head -c 2000 /tmp/errors >&3' EXIT
cd /q/tree
";

/// Writes the files and the index, and says what is not as a user would have it. Without a file of attributes nothing has a
/// filter, and programs that look for filters are most of what the script takes.
const FILL: &str = "git read-tree --reset -u \"$1\"
if [ -s \"$GIT_DIR/info/attributes\" ] || [ -n \"$(git ls-files -- ':(glob,icase)**/.gitattributes')\" ]; then
    git ls-files | git check-attr --stdin filter | sed 's/^.*: filter: //' | sort -u >/tmp/filters
    known=set
    if git config filter.lfs.process >/dev/null && command -v git-lfs >/dev/null; then
        known=lfs
        # It starts a dozen programs.
        if grep -qx lfs /tmp/filters; then
            git lfs ls-files \"$1\" | grep -q '^[0-9a-f]* - ' && echo >/q/out/pointers
        fi
    fi
    grep -vx -e unspecified -e unset -e set -e $known /tmp/filters >/q/out/filters || :
fi";

/// Whether nothing differs from the commit: neither in the index nor in the files, nor by a file
/// that is not ignored or that the index marks to be skipped. In a sparse checkout it skips what is
/// not there. A worktree has no index before all its files are written: what is not there then was never
/// there.
const LOOK: &str = "state=clean there=
if [ -e /q/own/index ]; then
    cp -p /q/own/index \"$GIT_INDEX_FILE\"
else
    git read-tree \"$1\"
    there=--diff-filter=d
fi
git ls-files -v -z >/tmp/listed
grep -zq '^[a-z]' /tmp/listed && state=changed
sed -zn 's/^S //p' /tmp/listed >/tmp/passed
if [ ! -s /tmp/passed ]; then
    :
elif [ \"$(git config --type=bool core.sparsecheckout)\" = true ]; then
    xargs -0 -r sh -c 'for name; do [ ! -e \"$name\" ] && [ ! -L \"$name\" ] || exit 255; done' sh \
        </tmp/passed || state=changed
else
    state=changed
fi
git update-index -q --really-refresh >/dev/null || :
git diff-index --quiet $there \"$1\" -- || state=changed
others=$(git ls-files --others --exclude-standard --directory --no-empty-directory)
[ -z \"$others\" ] || state=changed
echo $state >/q/out/state";

impl WorktreeFiles {
    /// Writes the git directory that the boundary is given, at a commit. What an earlier attempt left goes.
    ///
    /// # Errors
    /// Returns the file system's error, or a file of git's that cannot be read.
    pub(super) fn prepare(&self, places: &Places, commit: &str) -> io::Result<()> {
        self.clear()?;
        let git = self.out.join("git");
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).create(&self.out)?;
        for directory in ["", "refs", "info"] {
            builder.create(git.join(directory))?;
        }
        let mut settings = Config::of(user_config::files(places)).settings;
        let lfs = lfs::settings(&settings);
        for (directory, name) in [(&self.git, "config"), (&self.own, "config.worktree")] {
            settings.extend(Config::parse_last(read(directory, name)?).settings);
        }
        let part = read(&self.own.join("info"), "sparse-checkout")?;
        let is_of_use =
            |key: &str| KEYS.contains(&key) || (SPARSE.contains(&key) && !part.is_empty());
        settings.retain(|setting| is_of_use(&setting.key));
        settings.extend(lfs);
        fs::write(git.join("HEAD"), format!("{commit}\n"))?;
        fs::write(git.join("config"), config::write(&settings))?;
        fs::write(git.join("info/sparse-checkout"), &part)?;
        for name in ["attributes", "exclude"] {
            fs::write(git.join("info").join(name), read(&self.git.join("info"), name)?)?;
        }
        if self.lfs().is_dir() {
            builder.create(git.join("lfs"))?;
            symlink(LFS, git.join("lfs/objects"))?;
        }
        hand_over(&self.out)
    }

    /// Removes what the boundary was given and what it gave.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.out) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the files of a commit into the worktree, and its index. What lies in their place is
    /// overwritten. Returns what is not as a user would have it.
    ///
    /// # Errors
    /// Returns what went wrong.
    pub(super) fn fill(&self, commit: &str) -> Result<Vec<String>, Refusal> {
        self.scratch(FILL, commit, Access::Write).run()?;
        let out = open_directory(&self.out)?;
        let index = read_bounded(out, Path::new("index"), index::LARGEST)
            .map_err(|unread| Refusal::new(format!("the index {unread}")))?
            .ok_or("git has written no index")?;
        let own = open_directory(&self.own)?;
        index::install(&own, &index.bytes, "new")?;
        let has_submodules = Index::of(&self.git, index.bytes)
            .and_then(|index| index.has_submodules())
            .ok_or("git has written an index that cannot be read")?;
        let filters = read(&self.out, "filters")?;
        let filters = String::from_utf8_lossy(&filters).trim().replace('\n', ", ");
        let mut notes = Vec::new();
        if !filters.is_empty() {
            let filters = filters.escape_debug();
            notes.push(format!("files with a filter ({filters}) are as they were committed"));
        }
        if !read(&self.out, "pointers")?.is_empty() {
            notes.push(
                "files of Git LFS whose content was never fetched are as they were committed"
                    .into(),
            );
        }
        if has_submodules {
            notes.push("submodules are not checked out".to_owned());
        }
        Ok(notes)
    }

    /// Returns whether the worktree is as this commit: for a process with one thread, after `prepare`.
    ///
    /// # Errors
    /// Returns what went wrong.
    pub fn is_clean(&self, commit: &str) -> Result<bool, Refusal> {
        self.scratch(LOOK, commit, Access::Read).place("/q/own", &self.own, Access::Read).run()?;
        let state = read(&self.out, "state")?;
        Ok(state == b"clean\n")
    }

    /// Returns whether the repository has left objects at a remote (a partial clone).
    pub(super) fn lacks_objects(&self) -> bool {
        let config = Config::parse_last(read(&self.git, "config").unwrap_or_default());
        let promises = |key: &str| {
            key == "extensions.partialclone"
                || (key.starts_with("remote.") && key.ends_with(".promisor"))
        };
        config.settings.iter().any(|setting| promises(&setting.key))
    }

    /// Returns where Git LFS keeps the contents of files.
    fn lfs(&self) -> PathBuf {
        self.git.join("lfs/objects")
    }

    fn scratch(&self, script: &str, commit: &str, tree: Access) -> Scratch {
        let objects = self.git.join("objects");
        let mut scratch = Scratch::new(format!("{BEGIN}{script}"), commit)
            .place("/q/tree", &self.top, tree)
            .place("/q/objects", &objects, Access::Read)
            .place("/q/out", &self.out, Access::Write)
            .env("GIT_DIR", "/q/out/git")
            .env("GIT_WORK_TREE", "/q/tree")
            .env("GIT_INDEX_FILE", "/q/out/index")
            .env("GIT_OBJECT_DIRECTORY", "/q/objects")
            .env("GIT_LFS_SKIP_DOWNLOAD_ERRORS", "1");
        let lfs = self.lfs();
        if lfs.is_dir() {
            scratch = scratch.place(LFS, &lfs, Access::Read);
        }
        let mut borrowed = Vec::new();
        alternates(&objects, DEEPEST, &mut borrowed);
        let mut inside = Vec::new();
        for (number, directory) in borrowed.iter().enumerate() {
            inside.push(format!("/q/borrowed/{number}"));
            scratch = scratch.place(&inside[number], directory, Access::Read);
        }
        scratch.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", inside.join(":"))
    }
}

/// Finds where else a directory of objects has some (gitrepository-layout(5)).
fn alternates(objects: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let listed = read(&objects.join("info"), "alternates").unwrap_or_default();
    for line in listed.split(|byte| *byte == b'\n') {
        let Ok(directory) = fs::canonicalize(objects.join(OsStr::from_bytes(line))) else {
            continue;
        };
        if line.is_empty() || line.starts_with(b"#") || found.contains(&directory) {
            continue;
        }
        found.push(directory.clone());
        if depth > 1 {
            alternates(&directory, depth - 1, found);
        }
    }
}

/// Returns a small file of git's; empty where it is missing.
fn read(directory: &Path, name: &str) -> io::Result<Vec<u8>> {
    let named =
        |said: String| io::Error::other(format!("{}: {said}", Escaped(&directory.join(name))));
    let opened = match open_directory(directory) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(errno) => return Err(named(errno.to_string())),
    };
    let content = read_beneath(opened, Path::new(name)).map_err(|it| named(it.to_string()))?;
    Ok(content.map_or_else(Vec::new, |content| content.bytes))
}
