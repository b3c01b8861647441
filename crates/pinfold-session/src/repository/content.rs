//! The hash of what is trusted.
//!
//! It is SHA-256 (FIPS 180-4) over `pinfold-trust-1`, then for the settings file and for each file
//! that its commands name, in the order of their paths: the path, the length in bytes as decimal
//! text, the content; a NUL byte ends each path and each length. The settings file's path is its
//! format, `json` or `toml`, so that it is the same wherever it lies. Last comes a base that lies in
//! the repository, with a slash before its path and with its digest as content.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{BaseContent, RepositoryError};

const VERSION: &[u8] = b"pinfold-trust-1";

/// The hash of a content, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; SHA256_OUTPUT_LEN]);

/// A text is no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the 64 hexadecimal digits that `pinfold trust --hash` prints")]
pub struct InvalidHash;

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ContentHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        if text.len() != 2 * SHA256_OUTPUT_LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err(InvalidHash);
        }
        let mut hash = [0; SHA256_OUTPUT_LEN];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| InvalidHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidHash)?;
        }
        Ok(Self(hash))
    }
}

/// SHA-256 of a text, as hexadecimal digits: a name for a file about something with any name.
pub(crate) fn name_of(text: &[u8]) -> String {
    let digest = ring::digest::digest(&SHA256, text);
    digest.as_ref().iter().fold(String::new(), |mut name, byte| {
        // Writing to a string does not fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Hashes a settings file with what its commands name.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn hash<'a>(
    (path, bytes): (&Path, &[u8]),
    commands: impl Iterator<Item = &'a str>,
    base: Option<&BaseContent>,
    root: &Path,
) -> Result<ContentHash, RepositoryError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause: io::Error| RepositoryError::Read { path, cause }
    };
    let mut context = Context::new(&SHA256);
    context.update(VERSION);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    entry(&mut context, if is_json { b"json" } else { b"toml" }, bytes.len() as u64);
    context.update(bytes);
    let top = directory(root).map_err(|errno| failed(root)(errno.into()))?;
    for name in named_files(commands, root)? {
        let (file, length) = open(&top, &name)
            .map_err(|errno| failed(&root.join(&name))(errno.into()))?
            .ok_or_else(|| failed(&root.join(&name))(io::ErrorKind::NotFound.into()))?;
        entry(&mut context, name.as_os_str().as_bytes(), length);
        feed(&mut context, file.take(length)).map_err(failed(&root.join(&name)))?;
    }
    if let Some(BaseContent { path, digest }) = base {
        let name = [b"/", path.as_os_str().as_bytes()].concat();
        entry(&mut context, &name, digest.len() as u64);
        context.update(digest.as_bytes());
    }
    let digest = context.finish();
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest.as_ref());
    Ok(ContentHash(hash))
}

fn entry(context: &mut Context, name: &[u8], length: u64) {
    for part in [name, length.to_string().as_bytes()] {
        context.update(part);
        context.update(b"\0");
    }
}

pub(super) fn feed(context: &mut Context, mut content: impl io::Read) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(()),
            count => context.update(&buffer[..count]),
        }
    }
}

/// The regular files of the repository that the commands run, relative to its root: files that a
/// word names, relative to the root, to a directory that another word names (`cd web &&
/// ./build.sh`) or by one of the variables that hold the workspace, and that are programs: by their
/// mode, their first two bytes or their ending, or because the word before is an interpreter's. What
/// such a file runs in turn is not followed.
///
/// # Errors
/// A root that cannot be opened.
pub(super) fn named_files<'a>(
    commands: impl Iterator<Item = &'a str>,
    root: &Path,
) -> Result<Vec<PathBuf>, RepositoryError> {
    let failed =
        |errno: Errno| RepositoryError::Read { path: root.to_owned(), cause: errno.into() };
    let mut files = BTreeSet::new();
    let mut top = None;
    for command in commands {
        let top = match &top {
            Some(top) => top,
            None => top.insert(directory(root).map_err(failed)?),
        };
        let words: Vec<Word> = words(command, root).collect();
        let paths = words.iter().map(|word| word.path.as_path());
        let directories = paths.filter(|path| is_directory(top, path));
        let bases: Vec<&Path> = directories.chain([Path::new("")]).collect();
        for word in words.iter().filter(|word| !word.is_written) {
            for base in &bases {
                let Some(path) = below(base, &word.path) else { continue };
                match open(top, &path) {
                    Ok(Some((file, _))) if word.is_script || is_program(&path, &file) => {
                        files.insert(path);
                    }
                    // One that cannot be opened is told when it is hashed.
                    Err(_) => {
                        files.insert(path);
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// What could be a path in a command.
struct Word {
    path: PathBuf,
    /// Whether the command writes there.
    is_written: bool,
    /// Whether the word before reads programs.
    is_script: bool,
}

/// The words of a command for a shell: what stands between blanks, quotes and the shell's own
/// characters.
fn words<'a>(command: &'a str, root: &'a Path) -> impl Iterator<Item = Word> + 'a {
    const VARIABLES: [&str; 3] = ["MOLTNET_GUEST_WORKSPACE", "PINFOLD_WORKSPACE", "PWD"];
    let between = |c: char| c.is_whitespace() || "\"'`;|&()<>{}$=,\\".contains(c);
    let mut last = "";
    let words = command.split(between).filter(|word| !word.is_empty());
    words.filter_map(move |word| {
        let start = word.as_ptr() as usize - command.as_ptr() as usize;
        let before = command[..start].trim_end();
        let is_script = before.ends_with('<') || reads_programs(last);
        // `bash -x script`: the interpreter is still meant.
        if !word.starts_with('-') && !VARIABLES.contains(&word) {
            last = word;
        }
        let path = Path::new(word);
        let own = VARIABLES.iter().find_map(|name| path.strip_prefix(name).ok());
        let path = own.or_else(|| path.strip_prefix(root).ok()).unwrap_or(path);
        // After a variable in braces or quotes the rest begins with a slash.
        let path = path.strip_prefix("/").unwrap_or(path).to_owned();
        let is_written = before.ends_with('>');
        (!path.as_os_str().is_empty()).then_some(Word { path, is_written, is_script })
    })
}

/// Whether a word names what runs the file that comes next.
fn reads_programs(word: &str) -> bool {
    const INTERPRETERS: [&str; 19] = [
        ".", "source", "sh", "bash", "dash", "zsh", "ksh", "fish", "node", "ruby", "perl", "php",
        "lua", "deno", "bun", "npx", "tsx", "Rscript", "awk",
    ];
    let name = word.rsplit('/').next().unwrap_or(word);
    INTERPRETERS.contains(&name) || name.starts_with("python")
}

/// Whether a file is a program by its mode, its first bytes (execve(2)) or its name.
fn is_program(path: &Path, mut file: &File) -> bool {
    const ENDINGS: [&str; 16] = [
        "sh", "bash", "zsh", "fish", "py", "js", "mjs", "cjs", "ts", "mts", "rb", "pl", "php",
        "lua", "mk", "ps1",
    ];
    let by_name =
        path.extension().and_then(OsStr::to_str).is_some_and(|end| ENDINGS.contains(&end));
    let by_mode = rustix::fs::fstat(file).is_ok_and(|stat| stat.st_mode & 0o111 != 0);
    let mut first = [0; 2];
    by_name || by_mode || file.read_exact(&mut first).is_ok() && first == *b"#!"
}

/// A path below a base, without `.` and `..`; none if it leads out.
fn below(base: &Path, word: &Path) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in base.components().chain(word.components()) {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path).filter(|path| path.as_os_str() != OsStr::new(""))
}

fn directory(root: &Path) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty())
}

fn is_directory(top: impl rustix::fd::AsFd, path: &Path) -> bool {
    let Some(path) = below(Path::new(""), path) else { return false };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(top, path, flags, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

/// A regular file with its length, by a path that stays below the root; none if something else, or
/// nothing, lies there.
fn open(top: impl rustix::fd::AsFd, path: &Path) -> Result<Option<(File, u64)>, Errno> {
    // A FIFO that somebody put there is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(top, path, flags, Mode::empty(), how) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NXIO) => {
            return Ok(None);
        }
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    Ok(Some((file.into(), u64::try_from(stat.st_size).unwrap_or(0))))
}
