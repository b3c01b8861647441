//! At the end of a session in `git = quarantine`: commits, branches and tags come out of the
//! inside's copy, nothing else does.
//!
//! A branch that the host can fast-forward is moved, a new one is made; where the two sides
//! differ, the inside's is kept as `refs/pinfold/<session>/…` and a message says so. The working
//! tree is shared, so when the inside moved what is checked out, the host's HEAD follows and its
//! index becomes that commit's, as `git reset` (mixed) would leave it: `git status` then shows
//! what differs in the working tree.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::quarantine::Copied;
use super::read::{open_directory, read_beneath};
use super::settle::{Kept, Settled, owner};
use crate::launcher::Launcher;
use crate::survey::walk;

/// Which repository, and with which programs.
pub(crate) struct Collect<'a> {
    pub(crate) copied: &'a Copied,
    pub(crate) git: &'a Path,
    pub(crate) session: &'a str,
    pub(crate) out: PathBuf,
}

/// A reference and the object that it names.
type Refs = HashMap<String, String>;

impl Collect<'_> {
    /// Takes over what is new.
    ///
    /// # Errors
    /// What went wrong, in words; then nothing was moved.
    pub(crate) fn collect(&self, settled: &mut Settled) -> Result<(), String> {
        // The inside could put a link in its place.
        open_directory(&self.copied.private).map_err(|errno| format!("the copy: {errno}"))?;
        if self.is_unchanged() {
            return Ok(());
        }
        self.refuse_pipes()?;
        let ours = self.host_refs()?;
        fs::create_dir(&self.out).map_err(|error| error.to_string())?;
        crate::guard::hand_over(&self.out).map_err(|error| error.to_string())?;
        let tips: String = ours.values().map(|object| format!("{object}\n")).collect();
        self.write("tips", &tips)?;
        self.helper("export")?;
        let theirs = parse_refs(&self.read("refs")?);
        let moved: Vec<(&String, &String)> =
            theirs.iter().filter(|(name, object)| ours.get(*name) != Some(object)).collect();
        let updates: String = moved
            .iter()
            .filter_map(|(name, new)| Some(format!("{} {new} {name}\n", ours.get(*name)?)))
            .collect();
        self.write("updates", &updates)?;
        self.helper("check")?;
        let forward = self.read("forward")?;
        let forward: Vec<&str> = forward.lines().collect();
        let mut commands = String::new();
        for (name, new) in moved {
            match ours.get(name) {
                None => commands.push_str(&format!("create {name} {new}\n")),
                Some(old) if forward.contains(&name.as_str()) => {
                    commands.push_str(&format!("update {name} {new} {old}\n"));
                }
                Some(_) => {
                    let kept = format!("refs/pinfold/{}/{}", self.session, &name["refs/".len()..]);
                    commands.push_str(&format!("update {kept} {new}\n"));
                    let what = format!("{name} in {}, kept as {kept}", self.copied.host.display());
                    settled.kept.push(Kept::new(what, "it is no fast-forward of the host's"));
                }
            }
        }
        self.git(&["update-ref", "--stdin"], Some(commands.as_bytes()))?;
        self.follow_head(&theirs)
    }

    /// A git that opens a FIFO waits for ever.
    fn refuse_pipes(&self) -> Result<(), String> {
        let mut found = false;
        let walked = walk(&self.copied.private, (), &mut |listing, (), below| {
            for (name, kind) in listing.entries() {
                match kind {
                    FileType::Directory => below.push((name.to_vec(), ())),
                    FileType::RegularFile | FileType::Symlink => {}
                    _ => found = true,
                }
            }
        });
        walked.map_err(|errno| format!("the copy: {errno}"))?;
        if found { Err("the copy holds what is no file".to_owned()) } else { Ok(()) }
    }

    /// Whether HEAD and every reference are byte for byte what the host has.
    fn is_unchanged(&self) -> bool {
        let same =
            |name: &str| is_same(&self.copied.private.join(name), &self.copied.host.join(name));
        same("HEAD")
            && same("packed-refs")
            && !self.copied.host.join("reftable").exists()
            && same_tree(&self.copied.private.join("refs"), &self.copied.host.join("refs"), 0)
    }

    fn host_refs(&self) -> Result<Refs, String> {
        let format = "--format=%(objectname) %(refname)";
        let listed =
            self.git(&["for-each-ref", format, "refs/heads", "refs/tags", "refs/notes"], None)?;
        Ok(parse_refs(&listed))
    }

    /// Brings the host's HEAD and index to what the working tree is at.
    fn follow_head(&self, theirs: &Refs) -> Result<(), String> {
        let (head, object) = (self.read("head")?, self.read("oid")?);
        let (head, object) = (head.trim(), object.trim());
        let symbolic = self.git(&["symbolic-ref", "-q", "HEAD"], None).unwrap_or_default();
        if head.is_empty() && is_object(object) {
            self.git(&["update-ref", "--no-deref", "HEAD", object], None)?;
        } else if theirs.contains_key(head) && is_name(head) {
            // Only where the host's branch is the same: HEAD must not skip what the host has.
            let now = self.git(&["rev-parse", "-q", "--verify", head], None).unwrap_or_default();
            if now.trim() != object {
                return Ok(());
            }
            if symbolic.trim() != head {
                self.git(&["symbolic-ref", "HEAD", head], None)?;
            }
        } else {
            return Ok(());
        }
        self.take_index()
    }

    fn take_index(&self) -> Result<(), String> {
        let said = |error: std::io::Error| format!("cannot write the index: {error}");
        let host = &self.copied.host;
        let new = host.join(format!("index.pinfold-{}", self.session));
        let private = open_directory(&self.out).map_err(|errno| errno.to_string())?;
        let Ok(index) = rustix::fs::openat2(
            private,
            "index",
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
            rustix::fs::ResolveFlags::BENEATH | rustix::fs::ResolveFlags::NO_SYMLINKS,
        ) else {
            return Ok(());
        };
        let mut index = fs::File::from(index);
        let mut file = fs::File::create_new(&new).map_err(said)?;
        std::io::copy(&mut index, &mut file).map_err(said)?;
        if let Some((uid, gid)) = owner(&host.join("HEAD")) {
            std::os::unix::fs::chown(&new, Some(uid), Some(gid)).map_err(said)?;
        }
        fs::rename(&new, host.join("index")).map_err(said)
    }

    /// Runs one half of the import, in a process of its own.
    fn helper(&self, half: &str) -> Result<(), String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let paths = [&self.copied.host, &self.copied.private, &self.copied.base, &self.out];
        let mut argv: Vec<OsString> = vec![own.into(), "import-objects".into(), half.into()];
        argv.extend(paths.map(|path| path.into()));
        let output = Launcher.run_as(None, &argv, &[], None).map_err(|error| error.to_string())?;
        match output.code {
            Some(0) => Ok(()),
            _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Runs the host's git on the host's repository, without hooks.
    fn git(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, String> {
        let mut argv: Vec<OsString> = vec![self.git.into(), "--git-dir".into()];
        argv.push(self.copied.host.clone().into());
        argv.extend(["-c", "core.hooksPath=/dev/null"].map(Into::into));
        argv.extend(arguments.iter().map(Into::into));
        let variables = [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")];
        let output =
            Launcher.run_as(owner(&self.copied.host.join("HEAD")), &argv, &variables, input);
        let output = output.map_err(|error| error.to_string())?;
        if output.code == Some(0) {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().escape_debug().to_string())
    }

    fn write(&self, name: &str, content: &str) -> Result<(), String> {
        fs::write(self.out.join(name), content).map_err(|error| error.to_string())
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let out = open_directory(&self.out).map_err(|errno| errno.to_string())?;
        let content =
            read_beneath(out, Path::new(name)).map_err(|unread| format!("{name} {unread}"))?;
        Ok(content.map_or_else(String::new, |it| String::from_utf8_lossy(&it.bytes).into_owned()))
    }
}

/// Lines of object and reference; what is neither is left out.
fn parse_refs(listed: &str) -> Refs {
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    let valid = pairs.filter(|(object, name)| is_object(object) && is_name(name));
    valid.map(|(object, name)| (name.to_owned(), object.to_owned())).collect()
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A reference of the kinds that are taken over, by the strict part of git-check-ref-format(1).
fn is_name(name: &str) -> bool {
    let kinds = ["refs/heads/", "refs/tags/", "refs/notes/"];
    let component =
        |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with(".lock");
    kinds.iter().any(|kind| name.starts_with(kind))
        && name.split('/').all(component)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.contains(|c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c))
}

/// Whether two files hold the same, or are both missing.
fn is_same(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| {
        let directory = open_directory(path.parent()?).ok()?;
        Some(read_beneath(directory, Path::new(path.file_name()?)).ok()?.map(|it| it.bytes))
    };
    let (here, there) = (read(one), read(other));
    here.is_some() && here == there
}

/// Whether two directories of references hold the same files.
fn same_tree(one: &Path, other: &Path, depth: usize) -> bool {
    const DEEPEST: usize = 64;
    let list = |path: &Path| -> Option<Vec<(OsString, bool)>> {
        let entries = fs::read_dir(path).ok()?.flatten();
        let pairs = entries
            .map(|entry| (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir())));
        let mut list: Vec<_> = pairs.collect();
        list.sort();
        Some(list)
    };
    let (Some(here), Some(there)) = (list(one), list(other)) else { return false };
    depth < DEEPEST
        && here == there
        && here.iter().all(|(name, is_directory)| {
            let (one, other) = (one.join(name), other.join(name));
            if *is_directory { same_tree(&one, &other, depth + 1) } else { is_same(&one, &other) }
        })
}
