//! Looks into a bundle of extensions (requirement 8.4), by a reader in a process of its own: what is in
//! a bundle may overflow the parser's stack, fill the memory or take forever, and costs the reader
//! then, and its file a refusal.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::Duration;

pub use pinfold_bundle::NodeModules;
use pinfold_bundle::{Answer, Bundle, BundleError, Finding};
use pinfold_host::launcher::start_reader;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Resource, Rlimit};

/// The hidden command that reads for [`check`].
pub const READER: &str = "read-bundle";
/// How long a file may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Readers that may be lost before the rest is not looked at.
const MOST_LOST: usize = 20;
/// Bytes that a reader may have: some hundred times the largest file.
const MEMORY: u64 = 4 << 30;
/// Bytes of an answer.
const LONGEST: usize = 1 << 20;

/// What a bundle is.
#[derive(Debug)]
pub struct Checked {
    /// Files that were looked into.
    pub files: usize,
    /// Reasons to refuse it, by file and place.
    pub findings: Vec<Finding>,
}

/// Why a bundle could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It cannot be listed.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The reader cannot be started.
    #[error("the reader of bundles cannot be started: {0}")]
    Reader(#[source] io::Error),
}

impl CheckError {
    /// Returns what the user can do about it. The errors name it themselves.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        None
    }
}

/// Looks into a bundle. Nothing of it is run.
///
/// # Errors
/// Returns an error for a directory that cannot be listed, a reader that cannot be started.
pub fn check(directory: &Path, packages: NodeModules) -> Result<Checked, CheckError> {
    let bundle = Bundle::open(directory, packages)?;
    let mut seen: HashSet<PathBuf> = bundle.files.iter().cloned().collect();
    let mut waiting = VecDeque::from(bundle.files);
    let mut findings = bundle.findings;
    let mut lost = 0;
    while !waiting.is_empty() {
        let mut reader = Reader::start(&bundle.root, &waiting).map_err(CheckError::Reader)?;
        let mut loaded = Vec::new();
        while let Some(answer) = reader.next() {
            match answer {
                Answer::Found(finding) => findings.push(finding),
                Answer::Loads(file) if seen.insert(file.clone()) => loaded.push(file),
                Answer::Loads(_) => {}
                Answer::Read => drop(waiting.pop_front()),
            }
        }
        if let Some(file) = waiting.pop_front() {
            findings.push(whole(&file, "what the parser does not get through"));
            lost += 1;
        }
        waiting.extend(loaded);
        if lost >= MOST_LOST
            && let Some(file) = waiting.pop_front()
        {
            findings.push(whole(&file, "what was not looked at any more, like all that follows"));
            break;
        }
    }
    findings.sort_by(|one, other| {
        (&one.file, one.line, one.column).cmp(&(&other.file, other.line, other.column))
    });
    Ok(Checked { files: seen.len(), findings })
}

fn whole(file: &Path, what: &str) -> Finding {
    let file = file.to_string_lossy().into_owned();
    let (what, replacement) = (what.to_owned(), "leave the file out of the bundle".to_owned());
    Finding { file, line: 1, column: 1, what, replacement }
}

/// Reads the files that standard input names, for [`check`]. Its memory is bounded, and its end
/// leaves no image of it.
///
/// # Errors
/// Returns what the limits, standard input and output say.
pub fn read(root: &Path) -> io::Result<()> {
    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    rustix::process::setrlimit(Resource::Core, limit(0))?;
    rustix::process::setrlimit(Resource::As, limit(MEMORY))?;
    let mut names = Vec::new();
    io::stdin().read_to_end(&mut names)?;
    pinfold_bundle::answer(root, &names, io::stdout())
}

struct Reader {
    process: Child,
    output: Option<ChildStdout>,
    said: VecDeque<u8>,
}

impl Reader {
    fn start(root: &Path, files: &VecDeque<PathBuf>) -> io::Result<Self> {
        let mut process = start_reader(&[OsStr::new(READER), root.as_os_str()])?;
        if let Some(mut input) = process.stdin.take() {
            let names = files.iter().flat_map(|file| [file.as_os_str().as_bytes(), b"\0"]);
            // One that does not listen says nothing, either.
            let _ = input.write_all(&names.collect::<Vec<_>>().concat());
        }
        let output = process.stdout.take();
        Ok(Self { process, output, said: VecDeque::new() })
    }

    /// Returns what it says next; nothing more from one that has ended, or takes too long for an answer.
    fn next(&mut self) -> Option<Answer> {
        let output = self.output.as_mut()?;
        loop {
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.said.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            let patience = Timespec::try_from(PATIENCE).ok()?;
            let mut ready = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
            let waited =
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&patience)));
            let mut buffer = [0; 16 << 10];
            let count = match waited {
                Ok(1) if self.said.len() < LONGEST => output.read(&mut buffer).ok()?,
                _ => 0,
            };
            if count == 0 {
                return None;
            }
            self.said.extend(&buffer[..count]);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It has not been waited for, so the id is its own.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
