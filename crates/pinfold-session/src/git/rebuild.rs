//! Rebuilding a repository that a session made, so that git on the host can be used in it.
//!
//! Nothing here decides whether a foreign git directory is harmless: only git knows what it does
//! with one. Git in a scratch sandbox reads the foreign one and hands out a pack of the objects
//! that its references reach, checked by `index-pack --strict`, and the names of branches, tags and
//! remotes. From these a new git directory is made: its configuration, HEAD and references are
//! written here from checked words, its index by the host's git. It takes the place of the foreign
//! one in a single rename. Hooks, reflogs, stopped operations and all other settings are left out.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::path::Escaped;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid, mkdirat, openat, renameat_with, statat,
};

use super::config::{Setting, write};
use super::host::HostGit;
use super::layout::REBUILT;
use super::read::{open_directory, read_bounded};
use super::refs::{is_branch, is_object, is_reference};
use super::remotes::remotes;
use crate::anchor::Anchor;
use crate::launcher::Launcher;
use crate::set_aside::SetAside;
use crate::state::remove_private;

/// A larger git directory is set aside instead: checking it would take more than some seconds.
const LARGEST: u64 = 64 << 20;
/// Entries that a git directory may have.
const MOST_ENTRIES: usize = 100_000;
/// Bytes of what git lists of a repository.
const LONGEST_LIST: u64 = 16 << 20;

/// Rebuilds repositories for one session.
pub(crate) struct Rebuild<'a> {
    /// The host's git, if there is one.
    pub(crate) git: Option<&'a Path>,
    /// The session, for names of temporary files.
    pub(crate) session: &'a str,
    /// Where a foreign repository goes of which something was left out.
    pub(crate) aside: &'a SetAside,
    /// A private directory of the session's for the results of scratch sandboxes.
    pub(crate) out: PathBuf,
    /// Objects that repositories in the sandbox may borrow: directories of the host, and where they
    /// were mounted.
    pub(crate) borrowed: Vec<(PathBuf, PathBuf)>,
}

/// A repository that was rebuilt.
pub(crate) struct Rebuilt {
    /// What the user should know of it.
    pub(crate) note: String,
    /// Whether nothing was left out that the user may miss.
    pub(crate) is_whole: bool,
}

impl Rebuild<'_> {
    /// Rebuilds the git directory at `path` in its place.
    ///
    /// # Errors
    /// Returns why it cannot be rebuilt; it is unchanged then, and must be set aside.
    pub(crate) fn at(&self, path: &Path) -> Result<Rebuilt, String> {
        let git = self.git.ok_or("there is no git on the host that could rebuild it")?;
        let (parent, name) = path.parent().zip(path.file_name()).ok_or("it has no name")?;
        let above = open_directory(parent).map_err(words)?;
        let owner = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).map_err(words)?;
        if FileType::from_raw_mode(owner.st_mode) != FileType::Directory {
            return Err("it is not a directory".to_owned());
        }
        let size = size_of(path, &mut MOST_ENTRIES.clone())?;
        if size > LARGEST {
            return Err(format!(
                "it is a new repository of {} MB, too large to be rebuilt by itself",
                size >> 20
            ));
        }
        let read = self.read(path)?;
        let new = format!(".pinfold-new-{}", self.session);
        // By descriptor: another session in the checkout may replace a directory on the way.
        let at = held(&above).join(&new);
        let is_bare = name != ".git";
        let _ = fs::remove_dir_all(&at);
        let is_root = rustix::process::geteuid().is_root();
        let owner = is_root.then_some((owner.st_uid, owner.st_gid));
        let made = New::below(&above, &new, owner)
            .and_then(|top| self.make(&top, &read, is_bare))
            .and_then(|()| if is_bare { Ok(()) } else { index(git, &parent.join(&new), &at) });
        let _ = fs::remove_dir_all(&self.out);
        let placed = made.and_then(|()| self.place(&above, path, Path::new(&new), &read));
        if placed.is_err() {
            let _ = fs::remove_dir_all(&at);
        }
        placed?;
        Ok(Rebuilt { note: read.note(path, size), is_whole: read.left_out.is_empty() })
    }

    /// Has git in a scratch sandbox read the foreign repository.
    fn read(&self, path: &Path) -> Result<Read, String> {
        let _ = fs::remove_dir_all(&self.out);
        DirBuilder::new().mode(0o700).create(&self.out).map_err(words)?;
        crate::guard::hand_over(&self.out).map_err(words)?;
        let own = std::env::current_exe().map_err(words)?;
        let mut argv: Vec<OsString> = vec![own.into(), "read-repository".into()];
        argv.extend([path.into(), self.out.clone().into_os_string()]);
        for (host, inside) in &self.borrowed {
            argv.extend([host.into(), inside.into()]);
        }
        let output = Launcher.run_to_end(&argv, &[], None).map_err(words)?;
        if output.code != Some(0) {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().last().unwrap_or_default();
            return Err(format!("it cannot be rebuilt: {}", last.escape_debug()));
        }
        Read::from(&self.out)
    }

    /// Puts the new git directory in the place of the foreign one. That is set aside if something
    /// was left out of it that the user may miss; otherwise it is removed.
    fn place(&self, above: &OwnedFd, path: &Path, new: &Path, read: &Read) -> Result<(), String> {
        let name = path.file_name().ok_or("it has no name")?;
        renameat_with(above, new, above, name, RenameFlags::EXCHANGE).map_err(words)?;
        if read.left_out.is_empty() {
            remove_private(&held(above).join(new));
            return Ok(());
        }
        self.aside.take(above, new, path).map_err(words)
    }

    /// Makes the new git directory from checked parts.
    fn make(&self, git: &New, read: &Read, is_bare: bool) -> Result<(), String> {
        let objects = git.directory("objects")?;
        let packs = objects.directory("pack")?;
        objects.directory("info")?;
        let refs = git.directory("refs")?;
        for kind in ["heads", "tags"] {
            refs.directory(kind)?;
        }
        let put = |name: &str, content: &[u8]| -> Result<(), String> {
            git.file(name, 0o644)?.write_all(content).map_err(words)
        };
        let out = open_directory(&self.out).map_err(words)?;
        for (from, to) in read.pack_files() {
            copy(&out, Path::new(&from), packs.file(&to, 0o444)?)?;
        }
        put("HEAD", read.head.as_bytes())?;
        put("packed-refs", read.packed_refs().as_bytes())?;
        put("config", &write(&read.config(is_bare)))?;
        if !read.shallow.is_empty() {
            put("shallow", read.shallow.as_bytes())?;
        }
        Ok(())
    }
}

/// A new directory in a workspace, held open: another session there can put a link in the place of
/// any name, but what is written goes to this very directory.
struct New {
    opened: OwnedFd,
    /// Whose it is to be, where that is not the caller.
    owner: Option<(u32, u32)>,
}

impl New {
    fn below(
        above: &OwnedFd,
        name: impl AsRef<Path>,
        owner: Option<(u32, u32)>,
    ) -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = name.as_ref();
        mkdirat(above, name, Mode::from_raw_mode(0o777)).map_err(words)?;
        let opened = openat(above, name, flags, Mode::empty()).map_err(words)?;
        let is_empty = fs::read_dir(held(&opened)).map_err(words)?.next().is_none();
        let found = rustix::fs::fstat(&opened).map_err(words)?;
        if !is_empty || found.st_uid != rustix::process::geteuid().as_raw() {
            return Err("another directory took its place".to_owned());
        }
        let new = Self { opened, owner };
        new.give(&new.opened)?;
        Ok(new)
    }

    fn directory(&self, name: &str) -> Result<Self, String> {
        Self::below(&self.opened, name, self.owner)
    }

    fn file(&self, name: &str, mode: u32) -> Result<File, String> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&self.opened, name, flags, Mode::from_raw_mode(mode)).map_err(words)?;
        self.give(&made)?;
        Ok(File::from(made))
    }

    fn give(&self, made: &OwnedFd) -> Result<(), String> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::fchown(made, Some(uid), Some(gid)).map_err(words)
    }
}

/// Has the host's git write the index of the new repository, which lies at `at`.
fn index(git: &Path, path: &Path, at: &Path) -> Result<(), String> {
    let directory = Anchor::of(path).map_err(words)?;
    let opened = File::open(at).map_err(words)?;
    if Anchor::held(path, &opened).map_err(words)? != directory {
        return Err("another directory took its place".to_owned());
    }
    let host = HostGit { program: git, directory: &directory };
    if host.line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]).is_some() {
        host.run(&["read-tree", "HEAD"], None)?;
    }
    Ok(())
}

/// The path of what a descriptor is open on.
fn held(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// What git said of a foreign repository, checked word by word.
struct Read {
    /// The content of HEAD.
    head: String,
    /// References with their objects.
    refs: Vec<(String, String)>,
    /// Objects from which a shallow clone begins, one a line.
    shallow: String,
    /// The settings that lead to other repositories.
    remotes: Vec<Setting>,
    /// The name of the hash function.
    format: String,
    /// The pack's name without its ending, if there are objects.
    pack: Option<String>,
    /// What the new one lacks and the user may miss.
    left_out: Vec<String>,
}

impl Read {
    fn from(out: &Path) -> Result<Self, String> {
        let directory = open_directory(out).map_err(words)?;
        let bytes = |name: &str| -> Result<Vec<u8>, String> {
            let content = read_bounded(&directory, Path::new(name), LONGEST_LIST);
            let content = content.map_err(|unread| format!("{name} {unread}"))?;
            Ok(content.map(|content| content.bytes).unwrap_or_default())
        };
        let text =
            |name: &str| Ok::<_, String>(String::from_utf8_lossy(&bytes(name)?).into_owned());
        let format = text("format")?.trim().to_owned();
        if !matches!(format.as_str(), "sha1" | "sha256") {
            return Err("it cannot be rebuilt: its hash function is unknown".to_owned());
        }
        let refs = text("refs")?;
        let refs = refs.lines().filter_map(|line| {
            let (object, name) = line.split_once(' ')?;
            (is_object(object) && is_reference(name)).then(|| (name.to_owned(), object.to_owned()))
        });
        let head = text("head")?;
        let head = match head.trim() {
            branch if is_branch(branch) => format!("ref: {branch}\n"),
            commit if is_object(commit) => format!("{commit}\n"),
            _ => "ref: refs/heads/main\n".to_owned(),
        };
        let shallow: String = text("shallow")?
            .lines()
            .filter(|line| is_object(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let pack = text("pack-name")?.trim().to_owned();
        let is_pack = !pack.is_empty() && pack.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (remotes, dropped) = remotes(&bytes("settings")?);
        let mut left_out: Vec<String> = text("left-out")?
            .lines()
            .take(16)
            .map(|line| line.escape_debug().to_string())
            .collect();
        left_out.extend(dropped);
        let mut refs: Vec<(String, String)> = refs.collect();
        refs.sort();
        refs.dedup_by(|one, other| one.0 == other.0);
        Ok(Self { head, refs, shallow, remotes, format, pack: is_pack.then_some(pack), left_out })
    }

    fn pack_files(&self) -> Vec<(String, String)> {
        let name = |pack: &String| {
            ["pack", "idx"].map(|end| (format!("pack.{end}"), format!("pack-{pack}.{end}")))
        };
        self.pack.iter().flat_map(name).collect()
    }

    /// The references as git packs them (git-pack-refs(1)).
    fn packed_refs(&self) -> String {
        let lines = self.refs.iter().map(|(name, object)| format!("{object} {name}\n"));
        std::iter::once("# pack-refs with: sorted \n".to_owned()).chain(lines).collect()
    }

    fn config(&self, is_bare: bool) -> Vec<Setting> {
        let is_sha1 = self.format == "sha1";
        let mut own = vec![
            ("core.repositoryformatversion", if is_sha1 { "0" } else { "1" }),
            ("core.filemode", "true"),
            ("core.bare", if is_bare { "true" } else { "false" }),
        ];
        if !is_bare {
            own.push(("core.logallrefupdates", "true"));
        }
        // Its commits are not the user's.
        own.push((REBUILT, "true"));
        if !is_sha1 {
            own.push(("extensions.objectformat", self.format.as_str()));
        }
        let setting = |(key, value): (&str, &str)| Setting {
            key: key.to_owned(),
            value: Some(value.as_bytes().to_vec()),
        };
        own.into_iter().map(setting).chain(self.remotes.iter().cloned()).collect()
    }

    fn note(&self, path: &Path, size: u64) -> String {
        let urls = self.remotes.iter().filter(|setting| setting.key.ends_with(".url"));
        let urls = urls.filter_map(|setting| String::from_utf8(setting.value.clone()?).ok());
        let mut parts = vec![format!("{:.1} MB", size as f64 / f64::from(1 << 20))];
        parts.extend(urls.take(3).map(|url| url.escape_debug().to_string()));
        let mut note = format!("new repository {} ({})", Escaped(path), parts.join(", "));
        if !self.left_out.is_empty() {
            note.push_str("; left out: ");
            note.push_str(&self.left_out.join(", "));
        }
        note
    }
}

/// Bytes of the files in a directory that may hold anything, following no link.
fn size_of(directory: &Path, left: &mut usize) -> Result<u64, String> {
    let mut size = 0;
    for entry in fs::read_dir(directory).map_err(words)? {
        let entry = entry.map_err(words)?;
        *left = left.checked_sub(1).ok_or("it holds too many files to be rebuilt by itself")?;
        let found = entry.metadata().map_err(words)?;
        size += if found.is_dir() { size_of(&entry.path(), left)? } else { found.len() };
    }
    Ok(size)
}

/// Copies a file that a scratch sandbox wrote.
fn copy(from: &OwnedFd, name: &Path, mut to: File) -> Result<(), String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(from, name, flags, Mode::empty()).map_err(words)?);
    if !file.metadata().map_err(words)?.is_file() {
        return Err("the scratch sandbox left no file".to_owned());
    }
    // Objects of a shallow clone may be packed less tightly than they were.
    let copied = io::copy(&mut io::Read::take(file, 4 * LARGEST), &mut to).map_err(words)?;
    if copied == 4 * LARGEST { Err("its objects are too large".to_owned()) } else { Ok(()) }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link_that_took_a_place() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("work")).unwrap();
        fs::create_dir_all(top.join("elsewhere/objects")).unwrap();
        let above = open_directory(&top.join("work")).unwrap();
        let new = New::below(&above, "new", None).unwrap();
        let objects = new.directory("objects").unwrap();
        fs::rename(top.join("work/new"), top.join("work/moved")).unwrap();
        symlink(top.join("elsewhere"), top.join("work/new")).unwrap();
        new.file("config", 0o644).unwrap();
        objects.directory("pack").unwrap();
        assert!(New::below(&above, "new", None).is_err());
        assert_eq!(fs::read_dir(top.join("elsewhere")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(top.join("elsewhere/objects")).unwrap().count(), 0);
        assert!(top.join("work/moved/config").exists());
        symlink(top.join("elsewhere/config"), top.join("work/moved/HEAD")).unwrap();
        assert!(new.file("HEAD", 0o644).is_err());
    }
}
