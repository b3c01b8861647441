//! Setting aside what programs on the host must not execute.
//!
//! It goes out of the workspace, into pinfold's state, and loses every permission, so that neither
//! a program nor the next session meets it. A workspace on another file system keeps it, under
//! another name; a repository there stops being one. What is moved is written down first.
//! `pinfold adopt` lists it and puts it back.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_policy::path::Escaped;
use rustix::fs::{FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::places::Places;

/// What stays in the workspace has this added to its name.
const SUFFIX: &str = "pinfold-quarantine";
/// Names that are tried at most.
const MOST: u32 = 100_000;
/// Bytes of a record.
const LONGEST_RECORD: u64 = 64 << 10;

/// What one session sets aside.
#[derive(Debug)]
pub(crate) struct SetAside {
    directory: PathBuf,
}

/// What is written down of one file or directory.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Its path before, as bytes.
    path: Vec<u8>,
    /// Its path now, if it stayed in the workspace.
    stays: Option<Vec<u8>>,
    /// Its permissions before; none for a link.
    mode: Option<u32>,
    /// Whether its HEAD has another name now.
    is_broken: bool,
}

impl SetAside {
    /// For a session of this name.
    pub(crate) fn of(places: &Places, session: &str) -> Self {
        Self { directory: directory(places).join(session) }
    }

    /// Sets aside what lies at `path` beneath `root`.
    ///
    /// # Errors
    /// Returns the error of the call that failed. It may still be there, which the caller must say.
    pub(crate) fn take_beneath(&self, root: &OwnedFd, path: &Path, whole: &Path) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let parent = parent.unwrap_or(Path::new("."));
        let parent = rustix::fs::openat2(root, parent, flags, Mode::empty(), how)?;
        self.take(&parent, Path::new(name), whole)
    }

    /// Sets aside the entry `name` of a directory; `path` is what is written down of it.
    ///
    /// # Errors
    /// As [`Self::take_beneath`].
    pub(crate) fn take(&self, parent: &OwnedFd, name: &Path, path: &Path) -> io::Result<()> {
        let opened = rustix::fs::openat(parent, name, ENTRY, Mode::empty())?;
        let mode = rustix::fs::fstat(&opened)?.st_mode;
        let kind = FileType::from_raw_mode(mode);
        let is_link = kind == FileType::Symlink;
        if kind == FileType::Directory && mode & 0o700 != 0o700 {
            // Who moves a directory to another one writes to it.
            rustix::fs::chmod(held(&opened), Mode::from_raw_mode(mode & 0o777 | 0o700))?;
        }
        Places::make_private(&self.directory)?;
        let mut record = Record {
            path: path.as_os_str().as_bytes().to_vec(),
            stays: None,
            mode: (!is_link).then_some(mode & 0o777),
            is_broken: false,
        };
        let (number, file) = self.new_record()?;
        write(&file, &record)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let store = rustix::fs::open(&self.directory, flags, Mode::empty())?;
        let to = number.to_string();
        match rustix::fs::renameat_with(parent, name, &store, &to, RenameFlags::NOREPLACE) {
            Err(Errno::XDEV) => {
                let stays = rename_aside(parent, name)?;
                let whole = path.with_file_name(&stays);
                record.stays = Some(whole.into_os_string().into_vec());
                record.is_broken = kind == FileType::Directory && break_repository(&opened);
                write(&file, &record)?;
            }
            renamed => renamed?,
        }
        if !is_link {
            rustix::fs::chmod(held(&opened), Mode::empty())?;
        }
        Ok(())
    }

    fn new_record(&self) -> io::Result<(u32, fs::File)> {
        for number in 0..MOST {
            let path = self.directory.join(format!("{number}.json"));
            let options = &mut fs::OpenOptions::new();
            match options.write(true).create_new(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return Ok((number, opened?)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn directory(places: &Places) -> PathBuf {
    places.state.join("set-aside")
}

fn write(mut file: &fs::File, record: &Record) -> io::Result<()> {
    io::Seek::rewind(&mut file)?;
    file.write_all(&serde_json::to_vec(record)?)
}

/// The path of what a descriptor is open on.
fn held(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Renames an entry in its directory, so that another can have its name. Returns its new name.
///
/// # Errors
/// Returns the error of `renameat2(2)`.
pub(crate) fn rename_aside(parent: &OwnedFd, name: &Path) -> Result<OsString, Errno> {
    for number in 0..MOST {
        let mut aside = name.as_os_str().to_owned();
        aside.push(format!(".{SUFFIX}"));
        if number > 0 {
            aside.push(format!("-{number}"));
        }
        match rustix::fs::renameat_with(parent, name, parent, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            renamed => return renamed.map(|()| aside),
        }
    }
    Err(Errno::EXIST)
}

const HEAD: &str = "HEAD";
const BROKEN_HEAD: &str = "HEAD.pinfold-quarantine";

/// Takes the file away without which git takes no directory for a repository: permissions keep
/// nobody who is root from entering one.
fn break_repository(directory: &OwnedFd) -> bool {
    rustix::fs::renameat_with(directory, HEAD, directory, BROKEN_HEAD, RenameFlags::NOREPLACE)
        .is_ok()
}

/// Whether this is a name that something got which was set aside in the workspace.
pub(crate) fn is_set_aside(name: &[u8]) -> bool {
    let suffix = format!(".{SUFFIX}");
    let at = name.windows(suffix.len()).rposition(|part| part == suffix.as_bytes());
    at.is_some_and(|at| {
        let rest = &name[at + suffix.len()..];
        let number = rest.strip_prefix(b"-").unwrap_or(b"x");
        at > 0 && (rest.is_empty() || number.iter().all(u8::is_ascii_digit))
    })
}

/// Something that was set aside and not put back.
#[derive(Debug)]
pub struct Aside {
    /// Its path before.
    pub path: PathBuf,
    /// The session that had made it.
    pub session: String,
    /// When it was set aside.
    pub when: SystemTime,
    file: PathBuf,
    record: Record,
}

/// Lists what was set aside, the newest first.
#[must_use]
pub fn list(places: &Places) -> Vec<Aside> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<Aside> = entries(&directory(places))
        .flat_map(|session| entries(&session.path()))
        .filter_map(|entry| Aside::read(entry.path()))
        .collect();
    all.sort_by_key(|aside| (std::cmp::Reverse(aside.when), aside.file.clone()));
    all
}

/// Puts back what was set aside last from a path. Returns the path.
///
/// # Errors
/// Returns why it stays where it is, in words.
pub fn adopt(places: &Places, path: &Path) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", Escaped(path)))?;
    // What lies above may be reached through a link.
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let path =
        parent.zip(path.file_name()).map_or(path.clone(), |(parent, name)| parent.join(name));
    let found = list(places).into_iter().find(|aside| aside.path == path || aside.stays_at(&path));
    let aside = found.ok_or_else(|| format!("nothing was set aside from {}", Escaped(&path)))?;
    aside.put_back().map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} is there; move it away first", Escaped(&aside.path))
        }
        _ => format!("{} cannot be put back: {error}", Escaped(&aside.path)),
    })?;
    Ok(aside.path)
}

impl Aside {
    fn read(file: PathBuf) -> Option<Self> {
        if file.extension() != Some(OsStr::new("json")) {
            return None;
        }
        let found = fs::metadata(&file).ok().filter(|found| found.len() <= LONGEST_RECORD)?;
        let record: Record = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        let session = file.parent()?.file_name()?.to_string_lossy().into_owned();
        let path = PathBuf::from(OsString::from_vec(record.path.clone()));
        let aside = Self { path, session, when: found.modified().ok()?, file, record };
        // A session that was killed may have written down what it did not move any more.
        fs::symlink_metadata(aside.now()).is_ok().then_some(aside)
    }

    fn stays_at(&self, path: &Path) -> bool {
        self.record.stays.as_deref() == Some(path.as_os_str().as_bytes())
    }

    /// Where it lies now.
    fn now(&self) -> PathBuf {
        match &self.record.stays {
            Some(stays) => PathBuf::from(OsStr::from_bytes(stays)),
            None => self.file.with_extension(""),
        }
    }

    fn put_back(&self) -> io::Result<()> {
        let now = self.now();
        let opened = rustix::fs::open(&now, ENTRY, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
        let is_directory = kind == FileType::Directory;
        if is_directory {
            rustix::fs::chmod(held(&opened), Mode::RWXU)?;
        }
        let cwd = rustix::fs::CWD;
        let renamed = rustix::fs::renameat_with(cwd, &now, cwd, &self.path, RenameFlags::NOREPLACE);
        if let Err(errno) = renamed {
            if is_directory {
                rustix::fs::chmod(held(&opened), Mode::empty())?;
            }
            return Err(errno.into());
        }
        if self.record.is_broken {
            let flags = RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(&opened, BROKEN_HEAD, &opened, HEAD, flags)?;
        }
        if let Some(mode) = self.record.mode {
            rustix::fs::chmod(held(&opened), Mode::from_raw_mode(mode))?;
        }
        fs::remove_file(&self.file)?;
        // The session's directory goes with its last record.
        let _ = self.file.parent().map(fs::remove_dir);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    struct Case {
        dir: tempfile::TempDir,
        places: Places,
    }

    impl Case {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let at = |name: &str| root.join(name);
            fs::create_dir(at("work")).unwrap();
            let (home, config) = (root.clone(), at("config"));
            let places = Places { home, config, state: at("state"), cache: at("cache") };
            Self { dir, places }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join("work").join(name)
        }

        fn take(&self, name: &str) {
            let root = fs::File::open(self.path("")).unwrap().into();
            let aside = SetAside::of(&self.places, "s");
            aside.take_beneath(&root, Path::new(name), &self.path(name)).unwrap();
        }
    }

    #[test]
    fn what_is_set_aside_leaves_the_workspace_and_comes_back_as_it_was() {
        let case = Case::new();
        fs::write(case.path("run.sh"), "x").unwrap();
        fs::set_permissions(case.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::create_dir_all(case.path("d/e")).unwrap();
        fs::set_permissions(case.path("d"), fs::Permissions::from_mode(0o311)).unwrap();
        case.take("run.sh");
        case.take("d");
        assert_eq!(fs::read_dir(case.path("")).unwrap().count(), 0);
        assert_eq!(list(&case.places).len(), 2);
        fs::write(case.path("run.sh"), "other").unwrap();
        let said = adopt(&case.places, &case.path("run.sh")).unwrap_err();
        assert!(said.ends_with("run.sh is there; move it away first"), "{said}");
        fs::remove_file(case.path("run.sh")).unwrap();
        assert_eq!(adopt(&case.places, &case.path("run.sh")).unwrap(), case.path("run.sh"));
        let mode = |name| fs::metadata(case.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (fs::read(case.path("run.sh")).unwrap(), mode("run.sh")),
            (b"x".to_vec(), 0o750)
        );
        adopt(&case.places, &case.path("d")).unwrap();
        assert_eq!(mode("d"), 0o311);
        let said = adopt(&case.places, &case.path("d")).unwrap_err();
        assert!(said.starts_with("nothing was set aside"), "{said}");
        assert!(list(&case.places).is_empty());
    }

    #[test]
    fn a_link_is_moved_and_what_it_leads_to_stays() {
        let case = Case::new();
        fs::write(case.path("file"), "x").unwrap();
        symlink("file", case.path("link")).unwrap();
        let before = fs::metadata(case.path("file")).unwrap().permissions();
        case.take("link");
        assert!(!case.path("link").is_symlink());
        assert_eq!(fs::metadata(case.path("file")).unwrap().permissions(), before);
        adopt(&case.places, &case.path("link")).unwrap();
        assert!(case.path("link").is_symlink());
    }

    #[test]
    fn nothing_is_taken_through_a_link() {
        let case = Case::new();
        fs::create_dir(case.path("real")).unwrap();
        fs::write(case.path("real/file"), "x").unwrap();
        symlink("real", case.path("link")).unwrap();
        let root = fs::File::open(case.path("")).unwrap().into();
        let aside = SetAside::of(&case.places, "s");
        aside.take_beneath(&root, Path::new("link/file"), &case.path("link/file")).unwrap_err();
        assert!(case.path("real/file").exists());
    }

    #[test]
    fn a_name_in_the_workspace_tells_what_it_is() {
        for name in [".envrc.pinfold-quarantine", "a.pinfold-quarantine-12"] {
            assert!(is_set_aside(name.as_bytes()), "{name}");
        }
        for name in ["a", ".pinfold-quarantine", "a.pinfold-quarantine-x", "a.pinfold-quarantine.b"]
        {
            assert!(!is_set_aside(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_repository_that_stays_is_none_any_more() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("git/objects")).unwrap();
        fs::write(dir.path().join("git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let opened = fs::File::open(dir.path().join("git")).unwrap().into();
        assert!(break_repository(&opened));
        assert!(!dir.path().join("git/HEAD").exists());
    }
}
