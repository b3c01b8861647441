//! A specification in a file of the user's.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{owner_at, read_bounded};
use pinfold_policy::path::Escaped;
use pinfold_tasks::{LONGEST_FILE, SpecStatus, TaskId};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::document::Document;
use crate::home::{Comment, Home};

/// A specification in a file.
pub struct FileHome {
    path: PathBuf,
    /// The directory that it was found in.
    directory: Anchor,
    name: OsString,
    /// Whether it is a file of the repository, in which sessions may have written.
    is_of_repository: bool,
}

impl FileHome {
    /// Finds the file. A link is followed, now and never again.
    ///
    /// # Errors
    /// Returns a refusal if there is no such file.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        let cannot = |error: io::Error| {
            Refusal::new(format!("cannot read specification {}", Escaped(path))).because(error)
        };
        let whole = std::fs::canonicalize(path).map_err(cannot)?;
        let (Some(above), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(cannot(io::ErrorKind::IsADirectory.into()));
        };
        let directory = Anchor::of(above).map_err(cannot)?;
        let name = name.to_owned();
        Ok(Self { directory, name, path: whole, is_of_repository: false })
    }

    /// Takes it for a file of the repository if it lies in this directory. Sessions may have written in it, so it decides
    /// nothing of this machine.
    #[must_use]
    pub fn in_repository(mut self, top: &Path) -> Self {
        self.is_of_repository = self.path.starts_with(top);
        self
    }

    /// Returns where it is, through no link.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn cannot(&self, what: &str) -> impl Fn(io::Error) -> Refusal {
        let what = format!("cannot {what} specification {}", Escaped(&self.path));
        move |error| Refusal::new(&what).because(error)
    }

    fn content(&self, directory: &OwnedFd, name: &Path) -> Result<(Vec<u8>, u32), Refusal> {
        let read = read_bounded(directory, name, LONGEST_FILE as u64);
        let content = read
            .map_err(|why| {
                Refusal::new(format!("cannot read specification {}: it {why}", Escaped(&self.path)))
            })?
            .ok_or_else(|| self.cannot("read")(io::ErrorKind::NotFound.into()))?;
        Ok((content.bytes, content.mode))
    }

    /// Returns what the names of files begin with that are to take the specification's place.
    fn name_of_next(&self) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".");
        name
    }

    /// Writes a file next to the specification, with its owner and mode, and returns its name.
    fn write_next(&self, directory: &OwnedFd, text: &str, mode: u32) -> io::Result<OsString> {
        let mut name = self.name_of_next();
        name.push(TaskId::generate()?.to_string());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        let written = file.write_all(text.as_bytes()).and_then(|()| {
            if let Some((uid, gid)) = owner_at(directory, &self.name.to_string_lossy())
                && rustix::process::geteuid().is_root()
            {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                rustix::fs::fchown(&file, Some(uid), Some(gid))?;
            }
            rustix::fs::fchmod(&file, Mode::from(mode))?;
            file.sync_all()
        });
        if let Err(error) = written {
            let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
            return Err(error);
        }
        Ok(name)
    }

    /// Puts a file in the specification's place, and returns whether what was there is what is known. Else it is put
    /// back. Nothing that somebody else saves is lost.
    fn exchange(
        &self,
        directory: &OwnedFd,
        next: &OsString,
        known: &str,
        new: &str,
    ) -> Result<bool, Refusal> {
        let failed = self.cannot("write");
        let swap = || {
            rustix::fs::renameat_with(directory, next, directory, &self.name, RenameFlags::EXCHANGE)
        };
        match swap() {
            Ok(()) => {}
            // A file system without it, of another machine's (rename(2)): what was read just before counts.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let renamed = rustix::fs::renameat(directory, next, directory, &self.name);
                return renamed.map(|()| true).map_err(|errno| failed(errno.into()));
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        let holds = |text: &str| {
            let read = read_bounded(directory, Path::new(next), LONGEST_FILE as u64);
            read.is_ok_and(|read| read.is_some_and(|read| read.bytes == text.as_bytes()))
        };
        let is_known = holds(known);
        if !is_known {
            swap().map_err(|errno| failed(errno.into()))?;
            if !holds(new) {
                let kept = self.path.with_file_name(next);
                let what = format!(
                    "specification {} is being written by others; a version of it is kept in {}",
                    Escaped(&self.path),
                    Escaped(&kept)
                );
                return Err(Refusal::new(what));
            }
        }
        rustix::fs::unlinkat(directory, next, AtFlags::empty())
            .map_err(|errno| failed(errno.into()))?;
        Ok(is_known)
    }
}

impl Home for FileHome {
    fn name(&self) -> String {
        Escaped(&self.path).to_string()
    }

    fn leftovers(&self) -> Vec<PathBuf> {
        let beginning = self.name_of_next();
        // They are only named.
        let entries = self.path.parent().and_then(|above| above.read_dir().ok());
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let is_left = |name: &OsString| {
            let id = name.as_bytes().strip_prefix(beginning.as_bytes());
            id.and_then(|id| str::from_utf8(id).ok()).is_some_and(|id| id.parse::<TaskId>().is_ok())
        };
        names.filter(is_left).map(|name| self.path.with_file_name(name)).collect()
    }

    fn most(&self) -> usize {
        LONGEST_FILE
    }

    fn read(&mut self) -> Result<Document, Refusal> {
        let directory = self.directory.open().map_err(self.cannot("read"))?;
        let (bytes, _) = self.content(&directory, Path::new(&self.name))?;
        let read = Document::read(&self.path, &bytes)?;
        if self.is_of_repository {
            read.refuse_words_of_host("the specification, a file of the repository,")?;
        }
        Ok(read)
    }

    fn write(&mut self, known: &Document, new: &Document) -> Result<bool, Refusal> {
        let directory = self.directory.open().map_err(self.cannot("write"))?;
        let (bytes, mode) = self.content(&directory, Path::new(&self.name))?;
        if bytes != known.text().as_bytes() {
            return Ok(false);
        }
        let next = self.write_next(&directory, new.text(), mode).map_err(self.cannot("write"))?;
        let written = self.exchange(&directory, &next, known.text(), new.text());
        if written.is_err() {
            // A version of somebody else's is not what was to be written.
            let own = read_bounded(&directory, Path::new(&next), LONGEST_FILE as u64);
            if own.is_ok_and(|it| it.is_some_and(|it| it.bytes == new.text().as_bytes())) {
                let _ = rustix::fs::unlinkat(&directory, &next, AtFlags::empty());
            }
        }
        written
    }

    fn status(&self, known: &Document) -> Option<SpecStatus> {
        known.spec().status
    }

    fn set_status(&mut self, _: &Document, status: SpecStatus) -> Result<Document, Refusal> {
        // Each turn somebody else has changed it in between.
        for _ in 0..3 {
            let now = self.read()?;
            if now.spec().status == Some(status) {
                return Ok(now);
            }
            let new = now.with_status(status)?;
            if self.write(&now, &new)? {
                return Ok(new);
            }
        }
        let why = "it is being written by others";
        Err(Refusal::new(format!("cannot write specification {}: {why}", Escaped(&self.path))))
    }

    fn comments(&self) -> &[Comment] {
        &[]
    }

    fn unmet(&self, depends: &[String]) -> Result<Vec<String>, Refusal> {
        let is_done = |name: &&String| -> Result<bool, Refusal> {
            let mut other = Self::open(&self.path.with_file_name(name.as_str()))?;
            Ok(other.read()?.spec().status == Some(SpecStatus::Done))
        };
        let mut unmet = Vec::new();
        for name in depends {
            if !is_done(&name)? {
                unmet.push(name.clone());
            }
        }
        Ok(unmet)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pinfold_tasks::SpecStatus;
    use rustix::fs::{CWD, Mode};

    use super::FileHome;
    use crate::home::Home as _;

    #[test]
    fn file_is_replaced_only_if_it_is_as_it_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spec.md");
        fs::write(&file, "# One\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("spec.md", dir.path().join("link.md")).unwrap();
        let mut home = FileHome::open(&dir.path().join("link.md")).unwrap();
        let known = home.read().unwrap();
        let new = known.with_body("# Two\n").unwrap();
        assert!(home.write(&known, &new).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "# Two\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!home.write(&known, &new).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        home.set_status(&known, SpecStatus::Done).unwrap();
        let text = "---\nstatus: done\n---\n# Two\n";
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn version_that_was_saved_at_the_last_moment_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spec.md");
        fs::write(&file, "saved\n").unwrap();
        let home = FileHome::open(&file).unwrap();
        let directory = home.directory.open().unwrap();
        let next = home.write_next(&directory, "new\n", 0o600).unwrap();
        // This is where a loop may be killed.
        assert_eq!(home.leftovers(), [dir.path().canonicalize().unwrap().join(&next)]);
        fs::write(dir.path().join(".spec.md.swp"), "an editor's").unwrap();
        assert_eq!(home.leftovers().len(), 1);
        fs::remove_file(dir.path().join(".spec.md.swp")).unwrap();
        assert!(!home.exchange(&directory, &next, "known\n", "new\n").unwrap());
        assert!(home.leftovers().is_empty());
        assert_eq!(fs::read_to_string(&file).unwrap(), "saved\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn file_that_was_replaced_by_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spec.md");
        fs::write(&file, "# One\n").unwrap();
        let mut home = FileHome::open(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(home.read().unwrap_err().to_string().contains("entity not found"));
        symlink("/etc/passwd", &file).unwrap();
        assert!(home.read().unwrap_err().to_string().ends_with("it is a symbolic link"));
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(CWD, &file, Mode::from(0o600)).unwrap();
        assert!(home.read().unwrap_err().to_string().ends_with("it is not a regular file"));
    }

    #[test]
    fn file_of_the_repository_decides_nothing_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let file = top.join("spec.md");
        for line in ["sealed: /etc", "identity: me", "group: main", "repository: /srv"] {
            fs::write(&file, format!("---\n{line}\n---\nWork\n")).unwrap();
            assert!(FileHome::open(&file).unwrap().in_repository(&top).read().is_err(), "{line}");
            let elsewhere = top.join("elsewhere");
            FileHome::open(&file).unwrap().in_repository(&elsewhere).read().unwrap();
        }
    }

    #[test]
    fn other_specifications_are_looked_for_next_to_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.md"), "A\n").unwrap();
        fs::write(dir.path().join("b.md"), "---\nstatus: done\n---\nB\n").unwrap();
        let home = FileHome::open(&dir.path().join("a.md")).unwrap();
        let names = ["a.md", "b.md"].map(str::to_owned);
        assert_eq!(home.unmet(&names).unwrap(), ["a.md"]);
        assert!(home.unmet(&["c.md".to_owned()]).is_err());
    }
}
