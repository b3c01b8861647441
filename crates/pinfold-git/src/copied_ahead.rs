//! A large index is copied while the workspace is scanned, on a thread of its own. That of 400 000
//! files has 30 MB.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use pinfold_host::file_id::Moment;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// An index of more bytes is not copied ahead.
const LARGEST: u64 = 512 << 20;
/// A file of fewer bytes is copied as fast as a thread starts.
const SMALLEST: u64 = 1 << 20;

/// A copy that was begun. It is gone when this is dropped.
#[derive(Debug)]
pub struct CopiedAhead {
    /// What is copied, as it was before.
    source: Moment,
    to: PathBuf,
    copying: Option<JoinHandle<io::Result<u64>>>,
}

impl CopiedAhead {
    /// Begins to copy the index of the repository at `top` to `to`, if it is large. Whether the sandbox gets
    /// it is not decided yet.
    pub fn begin(top: &Path, to: PathBuf) -> Option<Self> {
        let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = top.join(".git/index");
        let file = File::from(rustix::fs::openat2(CWD, &path, flags, Mode::empty(), how).ok()?);
        let about = file.metadata().ok()?;
        if !about.is_file() || !(SMALLEST..=LARGEST).contains(&about.len()) {
            return None;
        }
        let source = Moment::held(&file).ok()?;
        let copy = to.clone();
        let run = move || {
            let mut copy = File::create_new(copy)?;
            io::copy(&mut io::Read::take(file, LARGEST), &mut copy)
        };
        let copying = thread::Builder::new().name("index".to_owned()).spawn(run).ok();
        Some(Self { source, to, copying })
    }

    /// Returns whether this very file is copied, and has not changed since.
    pub fn is_of(&self, file: &File) -> bool {
        Moment::held(file).is_ok_and(|now| now == self.source)
    }

    /// Moves the copy to `to` and returns how long it is, if the file has not changed.
    pub fn take(mut self, file: &File, to: &Path) -> Option<u64> {
        let copied = self.copying.take()?.join().ok()?.ok()?;
        (self.is_of(file) && fs::rename(&self.to, to).is_ok()).then_some(copied)
    }
}

impl Drop for CopiedAhead {
    fn drop(&mut self) {
        if let Some(copying) = self.copying.take() {
            let _ = copying.join();
        }
        let _ = fs::remove_file(&self.to);
    }
}
