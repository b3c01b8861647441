//! Reads the files of a bundle and says what is in them, one after the other, so that the caller
//! knows which file the reader ended at.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::finding::Spot;
use crate::walk::{Leads, is_manifest, lead, whole};
use crate::{Finding, inspect, manifest, position};

/// Bytes of a file that is still read: the largest that bundlers make are around ten million.
const LARGEST: u64 = 16 << 20;
/// Stack for a file. Code that was written or bundled needs a few megabytes of it.
const STACK: usize = 256 << 20;

/// Reasons of one file that are given: one is enough to refuse it.
const MOST_SPOTS: usize = 100;

/// One line of what is said.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A reason to refuse the file that is being read.
    Found(Finding),
    /// Another file that it loads as code.
    Loads(PathBuf),
    /// The file has been read.
    Read,
}

/// Reads files whose names are given, each ended by a NUL, and says what is in them: a line of JSON
/// each. On a thread of its own, because of its stack.
///
/// # Errors
/// Returns what reading the names, starting the thread and writing the answers say.
pub fn answer(root: &Path, names: &[u8], out: impl Write + Send) -> io::Result<()> {
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK);
        let reading = reader.spawn_scoped(scope, || answer_all(root, names, out))?;
        reading.join().map_err(|_| io::Error::other("the parser has panicked"))?
    })
}

fn answer_all(root: &Path, names: &[u8], mut out: impl Write) -> io::Result<()> {
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    for name in names {
        let file = Path::new(OsStr::from_bytes(name));
        let (findings, loads) = read(root, file);
        let found = findings.into_iter().map(Answer::Found);
        let loads = loads.into_iter().map(Answer::Loads);
        for answer in found.chain(loads).chain([Answer::Read]) {
            serde_json::to_writer(&mut out, &answer)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Reasons to refuse a file, and the code in the bundle that it loads under unusual names.
fn read(root: &Path, file: &Path) -> (Vec<Finding>, HashSet<PathBuf>) {
    let text = match text(&root.join(file)) {
        Ok(text) => text,
        Err(why) => return (vec![whole(file, &why)], HashSet::new()),
    };
    let (mut spots, files) = if is_manifest(file) {
        manifest::inspect(&text)
    } else {
        let inspected = inspect::inspect(file, &text);
        (inspected.spots, inspected.files)
    };
    spots.truncate(MOST_SPOTS);
    let mut loads = HashSet::new();
    for (offset, name) in files {
        match lead(root, file, &name) {
            Leads::ToCode(path) => {
                loads.insert(path);
            }
            Leads::Out if spots.len() < MOST_SPOTS => {
                spots.push(Spot::unclear(offset, "a file that is not in the bundle"));
            }
            Leads::Out | Leads::Nowhere => {}
        }
    }
    let bare = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let finding = |spot: Spot| {
        let (line, column) = position::of(bare, spot.offset);
        let (what, replacement) = (spot.what, spot.replacement.to_owned());
        Finding { file: file.to_string_lossy().into_owned(), line, column, what, replacement }
    };
    (spots.into_iter().map(finding).collect(), loads)
}

/// Returns a file's text, or why it cannot be read.
fn text(path: &Path) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    let file = opened.map_err(|errno| format!("what cannot be read: {errno}"))?;
    let data = file.metadata().map_err(|error| format!("what cannot be read: {error}"))?;
    if !data.is_file() {
        return Err("a name of code that is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("what cannot be read: {error}"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("a file of more than {LARGEST} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "text that is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests;
