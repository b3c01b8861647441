//! Rebuilding a repository that a session made, so that git on the host can be used in it.
//!
//! Nothing here decides whether a foreign git directory is harmless: only git knows what it does
//! with one. Git in a scratch sandbox reads the foreign one and hands out a pack of the objects
//! that its references reach, checked by `index-pack --strict`, and the names of branches, tags and
//! remotes. From these a new git directory is made: its configuration, HEAD and references are
//! written here from checked words, its index by the host's git. It takes the place of the foreign
//! one in a single rename. Hooks, reflogs, stopped operations and all other settings are left out.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pinfold_git::foreign::{Foreign, WorkTree};
use pinfold_git::new_directory::NewDirectory;
use pinfold_git::opened::held;
use pinfold_git::settled::{Kept, Settled};
use pinfold_host::Refusal;
use pinfold_host::beneath::open_directory;
use pinfold_host::launcher::HostProgram;
use pinfold_host::sessions::remove_private;
use pinfold_policy::path::Escaped;
use pinfold_protect::set_aside::SetAside;
use rustix::fs::{AtFlags, FileType, RenameFlags, renameat_with, statat};

use super::modules::{GitFiles, Modules};

mod reader;

pub(crate) use reader::{Reader, index};

/// Rebuilds repositories for one session.
pub(crate) struct Rebuild<'a> {
    /// The host's git, if there is one.
    pub(crate) git: Option<HostProgram>,
    /// The session, for names of temporary files.
    pub(crate) session: &'a str,
    /// Where a foreign repository goes of which something was left out.
    pub(crate) aside: &'a SetAside,
    /// Reads it first.
    pub(crate) reader: Reader,
    /// Rebuilds submodules in it.
    pub(crate) modules: Option<Modules<'a>>,
}

/// A repository that was rebuilt.
pub(crate) struct Rebuilt {
    /// What the user should know of it.
    pub(crate) note: String,
    /// Whether nothing was left out that the user may miss.
    pub(crate) is_whole: bool,
    /// The `.git` files of its submodules.
    pub(crate) files: GitFiles,
}

impl Rebuild<'_> {
    /// Returns it with so much of the time that is left.
    pub(crate) fn within(&self, time: Duration) -> Self {
        let git = self.git.as_ref().map(|git| git.within(time));
        let launcher = git.as_ref().map_or(&self.reader.launcher, HostProgram::launcher).clone();
        let modules = self.modules.as_ref().zip(git.as_ref()).map(|(it, git)| it.with(git));
        Self { git, reader: Reader { launcher, ..self.reader.clone() }, modules, ..*self }
    }

    /// Returns what is left of the time, nothing without git.
    pub(crate) fn time_left(&self) -> Duration {
        self.git.as_ref().and_then(HostProgram::time_left).unwrap_or_default()
    }

    /// Returns whether the time is over.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.git.as_ref().is_some_and(HostProgram::is_out_of_time)
    }

    /// Rebuilds the git directory at `path` in its place.
    ///
    /// # Errors
    /// Returns why it cannot be rebuilt; it is unchanged then, and must be set aside.
    pub(crate) fn at(&self, path: &Path, settled: &mut Settled) -> Result<Rebuilt, Refusal> {
        let git = self.git.as_ref().ok_or("git on the host is needed to rebuild it")?;
        let (parent, name) = path.parent().zip(path.file_name()).ok_or("it has no name")?;
        let above = open_directory(parent)?;
        let owner = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(owner.st_mode) != FileType::Directory {
            return Err("it is not a directory".into());
        }
        let mut read = self.reader.read(path)?;
        let new = format!(".pinfold-new-{}", self.session);
        // By descriptor: another session in the checkout may replace a directory on the way.
        let at = held(&above).join(&new);
        let is_bare = name != ".git";
        let tree = if is_bare { WorkTree::Bare } else { WorkTree::Above };
        let _ = fs::remove_dir_all(&at);
        let is_root = rustix::process::geteuid().is_root();
        let owner = is_root.then_some((owner.st_uid, owner.st_gid));
        let made = NewDirectory::below(&above, &new, owner)
            .map_err(Refusal::from)
            .and_then(|top| self.reader.make(&top, &read, tree))
            .and_then(|()| if is_bare { Ok(()) } else { index(git, &parent.join(&new), &at) });
        let _ = fs::remove_dir_all(&self.reader.out);
        let replaced = made.and_then(|()| {
            renameat_with(&above, &new, &above, name, RenameFlags::EXCHANGE).map_err(Refusal::from)
        });
        if replaced.is_err() {
            let _ = fs::remove_dir_all(&at);
        }
        replaced?;
        let files = self.submodules(&parent.join(&new), path, &mut read, settled);
        let is_whole = read.left_out.is_empty();
        if is_whole {
            remove_private(&at);
        } else if let Err(error) = self.aside.take(&above, Path::new(&new), path) {
            // The new one is in its place already.
            let what = format!("what was left out of {}", Escaped(path));
            settled.kept.push(Kept::new(what, format!("it cannot be set aside: {error}")));
        }
        Ok(Rebuilt { note: format!("new repository {}", read.note(path)), is_whole, files })
    }

    /// Rebuilds the submodules of a repository that was rebuilt at `git`. The foreign one is at `foreign`.
    fn submodules(
        &self,
        foreign: &Path,
        git: &Path,
        read: &mut Foreign,
        settled: &mut Settled,
    ) -> GitFiles {
        let has_any = read.left_out.iter().any(|what| what == "modules");
        let (Some(modules), true) = (&self.modules, has_any) else { return GitFiles::new() };
        let before = settled.kept.len();
        let files = modules.of_rebuilt(foreign, git, settled);
        if settled.kept.len() == before {
            read.leave_out_no_modules();
        }
        files
    }
}
