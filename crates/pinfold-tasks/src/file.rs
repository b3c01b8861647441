//! Task files: front matter in TOML (`+++`) or YAML (`---`), then the brief in Markdown.

mod front_matter;
mod keys;
mod read;
mod spec_file;
mod stored;
mod yaml;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use pinfold_host::Refusal;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::Escaped;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::spec::TaskSpec;

pub use front_matter::read_task;
pub use spec_file::{SpecFile, body_of, read_spec, set_status};
pub use stored::{from_stored, to_stored};

/// The longest file of a task or a specification, in bytes: the brief and the front matter.
pub const LONGEST_FILE: usize = TaskSpec::LONGEST_BRIEF + front_matter::LONGEST;

/// Reads a task from a file that the user names. A link is followed.
///
/// # Errors
/// Returns a refusal for a file that cannot be read, is not a regular file, is too long, or is not a task.
pub fn load_task(path: &Path) -> Result<TaskSpec, Refusal> {
    let cannot = || Refusal::new(format!("cannot read task {}", Escaped(path)));
    // A FIFO must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|errno| cannot().because(std::io::Error::from(errno)))?;
    let stat = rustix::fs::fstat(&opened)
        .map_err(|errno| cannot().because(std::io::Error::from(errno)))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(cannot().because("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let limit = LONGEST_FILE as u64 + 1;
    File::from(opened)
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot().because(error))?;
    if bytes.len() > LONGEST_FILE {
        let hint = "put long material into files of the repository, and name them in the brief";
        return Err(cannot()
            .because(format!("it has more than {} KiB", LONGEST_FILE >> 10))
            .with_hint(Some(hint.to_owned())));
    }
    read_task(SettingsFile { path, bytes: &bytes })
        .map_err(|error| Refusal::new("invalid task").because(error))
}

#[cfg(test)]
mod tests;
