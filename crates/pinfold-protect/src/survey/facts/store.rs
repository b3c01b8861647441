//! Facts are written down.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

use pinfold_host::directories::Places;
use pinfold_host::owned;

use super::{Facts, HEAD, LARGEST, Record};

/// Fewer directories are read again as fast.
const FEWEST: usize = 256;
/// Files that are kept.
const MOST: usize = 64;
/// Where in a record the offset of its other entries lies.
const OFFSET: std::ops::Range<usize> = HEAD - 16..HEAD - 8;

impl Facts {
    /// Reads the entries that are not notable. Without them no directory is known.
    pub(super) fn read_rest(&mut self) {
        self.rest = self.rest_of_file().unwrap_or_default();
    }

    fn rest_of_file(&self) -> Option<Vec<u8>> {
        let file = self.file.as_ref()?;
        let length = file.metadata().ok()?.len().checked_sub(self.rest_at)?;
        let mut rest = vec![0; usize::try_from(length).ok().filter(|it| *it <= LARGEST)?];
        file.read_exact_at(&mut rest, self.rest_at).ok()?;
        Some(rest)
    }

    /// Writes down what is known now, if much of it had to be read. What cannot be written is read
    /// again at the next start.
    pub(crate) fn store(&mut self) {
        let total = self.used.len() + self.read;
        if total < FEWEST || self.read < total / 16 {
            return;
        }
        if self.rest.is_empty() {
            self.read_rest();
        }
        if let Some(path) = &self.path {
            let _ = self.write(path);
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        owned::check_directory(directory).map_err(io::Error::other)?;
        forget_old(directory)?;
        let (mut known, mut rest) = (Vec::new(), Vec::new());
        for start in &self.used {
            let record = Record::at(&self.known, *start);
            let Some((record, others)) = record.and_then(|it| Some((it, it.others(&self.rest)?)))
            else {
                continue;
            };
            append(&mut known, record.bytes, rest.len());
            rest.extend_from_slice(others.bytes);
        }
        let moved = rest.len();
        rest.extend_from_slice(&self.new_rest);
        let mut at = 0;
        while let Some(record) = Record::at(&self.new, at).filter(|it| it.bytes.len() >= HEAD) {
            let offset = record.others_at().map_or(usize::MAX, |offset| moved + offset);
            append(&mut known, record.bytes, offset);
            at += record.bytes.len();
        }
        if known.len() > LARGEST || rest.len() > LARGEST {
            return Ok(());
        }
        let now = u64::try_from(self.now.as_nanos()).unwrap_or(u64::MAX);
        let length = (known.len() as u64).to_le_bytes();
        let bytes = [&self.key[..], &now.to_le_bytes(), &length, &known, &rest].concat();
        // Of another start at the same moment, the one that is finished last stays.
        let new = path.with_extension(format!("new-{}", std::process::id()));
        Places::write_private(&new, &bytes)?;
        fs::rename(&new, path)
    }
}

/// Appends a record whose other entries lie at `offset`.
fn append(known: &mut Vec<u8>, record: &[u8], offset: usize) {
    let start = known.len();
    known.extend_from_slice(record);
    known[start..][OFFSET].copy_from_slice(&(offset as u64).to_le_bytes());
}

/// Makes room for one more file: those go first that were written first.
fn forget_old(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(MOST);
    files.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
}
