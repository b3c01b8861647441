//! Putting the git directory of a submodule where it belongs on the host.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_git::foreign::{Foreign, WorkTree};
use pinfold_git::modules::below;
use pinfold_git::new_directory::NewDirectory;
use pinfold_git::opened::held;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::owner_at;
use pinfold_host::sessions::remove_private;
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::super::rebuild::index;
use super::settings::config_of;
use super::{Module, Modules};

/// What lies in the place of a git directory that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Old {
    None,
    Replaced,
}

impl Modules<'_> {
    /// Makes the git directory from what was read, and puts it where it belongs.
    pub(super) fn place(
        &self,
        module: &Module<'_>,
        above: &OwnedFd,
        read: &Foreign,
        old: Old,
    ) -> Result<Anchor, Refusal> {
        let owner = rustix::process::geteuid().is_root().then(|| owner_at(above, "HEAD")).flatten();
        let tree = module.tree.from(&module.host).ok_or("its path cannot be written")?;
        let name = Path::new("modules").join(&module.name);
        let last = name.file_name().ok_or("it has no name")?;
        let directory = make_all(above, name.parent().ok_or("it has no name")?, owner)?;
        let new = self.new_name();
        let at = held(&directory).join(&new);
        let _ = fs::remove_dir_all(&at);
        let path = module.host.with_file_name(&new);
        let made = NewDirectory::below(&directory, &new, owner)
            .map_err(Refusal::from)
            .and_then(|top| self.reader.make(&top, read, WorkTree::At(&tree)))
            .and_then(|()| index(&self.git, &path, &at));
        let _ = fs::remove_dir_all(&self.reader.out);
        let placed = made.and_then(|()| match old {
            Old::None => renameat_with(&directory, &new, &directory, last, RenameFlags::NOREPLACE)
                .map_err(Refusal::from),
            Old::Replaced => replace(&directory, Path::new(&new), Path::new(last)),
        });
        if placed.is_err() {
            let _ = fs::remove_dir_all(&at);
        }
        placed?;
        Ok(Anchor::held(&module.host, below(&directory, Path::new(last))?)?)
    }

    fn new_name(&self) -> String {
        format!(".pinfold-new-{}", self.session)
    }

    /// Undoes what a supervisor did that was killed while it replaced this git directory: the
    /// submodules in it lie in the new one, which has not taken its place.
    ///
    /// # Errors
    /// Returns the error of the call that failed.
    pub(super) fn finish_replacing(
        &self,
        module: &Module<'_>,
        above: &OwnedFd,
    ) -> Result<(), Refusal> {
        let name = Path::new("modules").join(&module.name);
        let (parent, last) = name.parent().zip(name.file_name()).ok_or("it has no name")?;
        let directory = below(above, parent)?;
        let new = self.new_name();
        let Ok(left) = below(&directory, Path::new(&new)) else { return Ok(()) };
        let path = module.host.with_file_name(&new);
        let left = Anchor::held(&path, &left)?;
        let is_of_this = config_of(&left)?.last("core.worktree")
            == module.tree.from(&module.host).map(Into::into);
        if is_of_this {
            move_modules(&directory, Path::new(&new), Path::new(last))?;
            remove_private(&held(&directory).join(&new));
        }
        Ok(())
    }
}

/// Puts a new git directory in the place of another one, with the submodules in that: they were rebuilt, too.
fn replace(directory: &OwnedFd, new: &Path, last: &Path) -> Result<(), Refusal> {
    move_modules(directory, last, new)?;
    if let Err(errno) = renameat_with(directory, new, directory, last, RenameFlags::EXCHANGE) {
        move_modules(directory, new, last)?;
        return Err(errno.into());
    }
    remove_private(&held(directory).join(new));
    Ok(())
}

/// Moves the submodules of one git directory to another one next to it, unless that has some.
fn move_modules(directory: &OwnedFd, from: &Path, to: &Path) -> Result<(), Refusal> {
    let (from, to) = (from.join("modules"), to.join("modules"));
    match renameat_with(directory, &from, directory, &to, RenameFlags::NOREPLACE) {
        Ok(()) | Err(Errno::NOENT | Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a directory of the host's git directory, and makes what is missing.
fn make_all(git: &OwnedFd, path: &Path, owner: Option<(u32, u32)>) -> Result<OwnedFd, Refusal> {
    let mut at = below(git, Path::new("."))?;
    for part in path {
        at = match below(&at, Path::new(part)) {
            Err(Errno::NOENT) => {
                NewDirectory::below(&at, part, owner)?;
                below(&at, Path::new(part))
            }
            opened => opened,
        }?;
    }
    Ok(at)
}
