//! The working tree of a submodule, and the `.git` file in it.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use pinfold_git::config::Config;
use pinfold_git::module_name::is_harmless;
use pinfold_git::modules::below;
use pinfold_git::new_directory::NewDirectory;
use pinfold_git::pointer::normal;
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, owner_at, read_beneath};
use rustix::fs::{AtFlags, renameat, unlinkat};

/// The top of a working tree, held open.
pub(super) struct Tree {
    pub(super) path: PathBuf,
    opened: OwnedFd,
}

impl Tree {
    /// Finds the working tree of a submodule in that of its repository at `top`: the private git
    /// directory and the `.git` file there must name each other. `host` is where the git directory
    /// lies, or is to lie, on the host. Both files may hold anything; what they name counts as a
    /// path below `top`, through no link.
    pub(super) fn find(top: &Path, private: &Path, host: &Path) -> Option<Self> {
        let private = open_directory(private).ok()?;
        let content = read_beneath(private, Path::new("config")).ok()??;
        let config = Config::parse_last(content.bytes);
        let path = normal(&host.join(config.last("core.worktree")?));
        let relative = path.strip_prefix(top).ok().filter(|relative| is_harmless(relative))?;
        let opened = below(open_directory(top).ok()?, relative).ok()?;
        let tree = Self { path, opened };
        tree.names(host).then_some(tree)
    }

    /// Returns whether its `.git` file leads to this git directory.
    fn names(&self, git: &Path) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        let content = read_beneath(&self.opened, Path::new(".git")).ok().flatten();
        let led = content
            .as_ref()
            .and_then(|content| content.bytes.strip_prefix(b"gitdir: "))
            .map(|led| Path::new(std::ffi::OsStr::from_bytes(led.trim_ascii_end())));
        led.is_some_and(|led| normal(&self.path.join(led)) == git)
    }

    /// Puts a new `.git` file in the place of the one that is there: other sessions may have that
    /// one open, or another name for it.
    ///
    /// # Errors
    /// Returns the error of the call that failed.
    pub(super) fn write(&self, git: &Path, session: &str) -> Result<(), Refusal> {
        let to = relative(&self.path, git).ok_or("its path cannot be written")?;
        let owner =
            if rustix::process::geteuid().is_root() { owner_at(&self.opened, ".") } else { None };
        let name = format!(".pinfold-new-{session}");
        let _ = unlinkat(&self.opened, &name, AtFlags::empty());
        let mut file = NewDirectory::file_in(&self.opened, &name, 0o644, owner)?;
        let written = file.write_all(format!("gitdir: {to}\n").as_bytes()).map_err(Refusal::from);
        let placed = written.and_then(|()| {
            renameat(&self.opened, &name, &self.opened, ".git").map_err(Refusal::from)
        });
        if placed.is_err() {
            let _ = unlinkat(&self.opened, &name, AtFlags::empty());
        }
        placed
    }

    /// Returns its path from a git directory.
    pub(super) fn from(&self, git: &Path) -> Option<String> {
        relative(git, &self.path)
    }
}

/// Returns the path from one directory to another one. Both are absolute and lead through no link.
fn relative(from: &Path, to: &Path) -> Option<String> {
    let common =
        from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(common)).collect();
    path.into_os_string().into_string().ok().filter(|path| !path.contains('\n'))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_from_one_directory_to_the_other() {
        let is = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).unwrap();
        assert_eq!(is("/w/.git/modules/a/b", "/w/x/a"), "../../../../x/a");
        assert_eq!(is("/w/x/a", "/w/.git/modules/a"), "../../.git/modules/a");
    }

    #[test]
    fn a_tree_that_lies_elsewhere_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (top, private) = (base.join("w"), base.join("private"));
        let host = top.join(".git/modules/a");
        for path in [&top.join("dep"), &private, &base.join("out")] {
            fs::create_dir_all(path).unwrap();
        }
        let found = |tree: &str, file: &str, content: &str| {
            let config = format!("[core]\n\tworktree = \"{tree}\"\n");
            fs::write(private.join("config"), config).unwrap();
            fs::write(top.join(file), content).unwrap();
            Tree::find(&top, &private, &host).is_some()
        };
        let right = "gitdir: ../.git/modules/a\n";
        assert!(found("../../../dep", "dep/.git", right));
        assert!(!found("../../../dep", "dep/.git", "gitdir: ../.git/modules/b\n"));
        assert!(!found("../../../dep", "dep/.git", "gitdir: ../.git/modules/a/x\n"));
        assert!(!found("../../..", "dep/.git", right), "the top itself");
        assert!(!found("../../../../out", "../out/.git", "gitdir: ../w/.git/modules/a\n"));
        symlink("dep", top.join("link")).unwrap();
        assert!(!found("../../../link", "dep/.git", right), "a link");
        fs::remove_file(top.join("dep/.git")).unwrap();
        symlink(top.join("dep/other"), top.join("dep/.git")).unwrap();
        assert!(!found("../../../dep", "dep/other", right), "a `.git` link");
    }

    #[test]
    fn a_git_file_is_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("dep");
        fs::create_dir(&path).unwrap();
        fs::write(path.join(".git"), "gitdir: /elsewhere\n").unwrap();
        fs::hard_link(path.join(".git"), path.join("other")).unwrap();
        let tree = Tree { opened: open_directory(&path).unwrap(), path: path.clone() };
        tree.write(&dir.path().canonicalize().unwrap().join(".git/modules/a"), "s").unwrap();
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
        assert_eq!(read(".git"), "gitdir: ../.git/modules/a\n");
        assert_eq!(read("other"), "gitdir: /elsewhere\n");
        fs::remove_file(path.join(".git")).unwrap();
        fs::create_dir(path.join(".git")).unwrap();
        tree.write(Path::new("/x"), "s").unwrap_err();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
    }
}
