//! Making a file, whole or not at all.
//!
//! So a file that is empty is one that was cut off, and never taken for a new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;

/// Makes a file of this content, if the path is free. Only its owner may read it. A file that is there by now,
/// since another process was faster, stays.
///
/// # Errors
/// Returns the error of writing it, or of giving it its name.
pub(crate) fn whole(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    match write(directory, path, content) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn write(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(unnamed) => {
            let mut file = File::from(unnamed);
            fill(&mut file, content)?;
            let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        }
        // File systems without `O_TMPFILE`, such as NFS.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let other = directory.join(format!(".{name}.{}", std::process::id()));
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&other)?;
            let linked = fill(&mut file, content).and_then(|()| fs::hard_link(&other, path));
            fs::remove_file(&other)?;
            linked?;
        }
        Err(errno) => return Err(errno.into()),
    }
    File::open(directory)?.sync_all()
}

fn fill(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}
