//! The program that runs inside: it tries what it is asked to try and says what the kernel said.
//! What it changes it puts back, so that one launch answers for many paths.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::inotify;

/// One thing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// stat(2).
    Stat,
    /// Read a file.
    Read,
    /// Read a directory's names.
    List,
    /// Open a file for writing.
    Write,
    /// Make a file, which is removed again under its second path.
    Create,
    /// Set the mode that the file has.
    Chmod,
    /// Run a file.
    Execute,
    /// Watch it (inotify(7)).
    Watch,
    /// Remove a name.
    Delete,
    /// Give it another name.
    Move,
    /// Give it a second name.
    Link,
}

impl Op {
    pub(crate) const ALL: [Self; 11] = [
        Self::Stat,
        Self::Read,
        Self::List,
        Self::Write,
        Self::Create,
        Self::Chmod,
        Self::Execute,
        Self::Watch,
        Self::Delete,
        Self::Move,
        Self::Link,
    ];
}

/// What to try on which path; the second one is where a name goes.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) path: PathBuf,
    pub(crate) to: PathBuf,
}

/// What the kernel said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// 0, or why not.
    pub(crate) errno: i32,
    /// Device and inode, for `Stat`.
    pub(crate) identity: (u64, u64),
    /// What was read: a file, a directory's names, or everything readable beneath what was moved.
    pub(crate) content: Vec<u8>,
}

/// Stands for the error number where what was changed could not be put back.
const NOT_PUT_BACK: i32 = 4095;

impl Answer {
    pub(crate) fn is_put_back(&self) -> bool {
        self.errno != NOT_PUT_BACK
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.errno == 0
    }
}

pub(crate) fn write_requests(requests: &[Request], mut to: impl Write) -> io::Result<()> {
    let mut text = Vec::new();
    for Request { op, path, to } in requests {
        let (path, to) = (hex(path.as_os_str().as_bytes()), hex(to.as_os_str().as_bytes()));
        writeln!(text, "{}\t{path}\t{to}", *op as usize)?;
    }
    to.write_all(&text)
}

fn read_request(line: &str) -> Option<Request> {
    let mut words = line.split('\t');
    let op = Op::ALL.get(words.next()?.parse::<usize>().ok()?).copied()?;
    let mut path = || Some(PathBuf::from(std::ffi::OsString::from_vec(unhex(words.next()?)?)));
    Some(Request { op, path: path()?, to: path()? })
}

fn write_answer(answer: &Answer, text: &mut Vec<u8>) -> io::Result<()> {
    let Answer { errno, identity: (device, inode), content } = answer;
    writeln!(text, "{errno}\t{device}\t{inode}\t{}", hex(content))
}

pub(crate) fn read_answers(text: &str) -> Option<Vec<Answer>> {
    let answer = |line: &str| {
        let mut words = line.split('\t');
        Some(Answer {
            errno: words.next()?.parse().ok()?,
            identity: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
            content: unhex(words.next()?)?,
        })
    };
    text.lines().map(answer).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Reads requests from standard input and answers them on standard output.
pub(crate) fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let watcher = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let mut answers = Vec::new();
    for line in text.lines() {
        let request = read_request(line).ok_or(io::ErrorKind::InvalidData)?;
        let answer = attempt(&request, &watcher).unwrap_or_else(|error| Answer {
            errno: error.raw_os_error().unwrap_or(-1),
            ..Answer::default()
        });
        write_answer(&answer, &mut answers)?;
    }
    io::stdout().write_all(&answers)
}

fn attempt(request: &Request, watcher: &OwnedFd) -> io::Result<Answer> {
    let Request { op, path, to } = request;
    let done = |()| Answer::default();
    match op {
        Op::Stat => fs::metadata(path)
            .map(|found| Answer { identity: (found.dev(), found.ino()), ..Answer::default() }),
        Op::Read => read(path).map(|content| Answer { content, ..Answer::default() }),
        Op::List => list(path).map(|content| Answer { content, ..Answer::default() }),
        Op::Write => OpenOptions::new().write(true).open(path).map(|_| Answer::default()),
        Op::Create => {
            OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            put_back(fs::remove_file(to)).map(done)
        }
        Op::Chmod => {
            // A mode that cannot be seen is not what is asked about.
            let mode = fs::metadata(path).map_or(0o644, |found| found.permissions().mode());
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map(done)
        }
        Op::Execute => execute(path).map(done),
        Op::Watch => {
            let watch = inotify::add_watch(watcher, path, inotify::WatchFlags::MODIFY)?;
            Ok(inotify::remove_watch(watcher, watch).map(done)?)
        }
        Op::Delete => delete(path, to).map(done),
        Op::Move => {
            fs::rename(path, to)?;
            let content = read_all_beneath(to);
            put_back(fs::rename(to, path))?;
            Ok(Answer { content, ..Answer::default() })
        }
        Op::Link => {
            fs::hard_link(path, to)?;
            put_back(fs::remove_file(to)).map(done)
        }
    }
}

/// Does not wait on what is no file.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    File::read_to_end(&mut { file }, &mut content)?;
    Ok(content)
}

fn list(path: &Path) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend_from_slice(entry?.file_name().as_bytes());
    }
    Ok(names)
}

fn read_all_beneath(path: &Path) -> Vec<u8> {
    let Ok(found) = fs::symlink_metadata(path) else { return Vec::new() };
    if found.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.flat_map(|entry| read_all_beneath(&entry.path())).collect();
    }
    if found.is_file() { read(path).unwrap_or_default() } else { Vec::new() }
}

/// What executed is this very program, by the first line of the script.
#[expect(clippy::disallowed_methods, reason = "runs inside, where nothing else starts programs")]
fn execute(path: &Path) -> io::Result<()> {
    let status = std::process::Command::new(path).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOEXEC)) }
}

/// A change that was possible and cannot be undone is neither an answer of yes nor of no.
fn put_back(done: io::Result<()>) -> io::Result<()> {
    done.map_err(|_| io::Error::from_raw_os_error(NOT_PUT_BACK))
}

/// Removes a name and puts it back. That a directory is not empty is the directory's answer, not
/// the wall's.
fn delete(path: &Path, second: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Ok(()) => return put_back(fs::create_dir(path)),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(error) => return Err(error),
    }
    let kept = fs::hard_link(path, second);
    match fs::remove_file(path) {
        Ok(()) => put_back(kept.and_then(|()| fs::rename(second, path))),
        Err(error) => {
            if kept.is_ok() {
                put_back(fs::remove_file(second))?;
            }
            Err(error)
        }
    }
}

/// A name for what is made and removed again.
pub(crate) fn scratch(directory: &Path) -> PathBuf {
    directory.join(OsStr::new("scratch of the prober"))
}
