//! A file of the sandbox's that the supervisor gets when the command has ended.

use std::fs::File;
use std::io::Read as _;

use pinfold_wire::{Channel, NotReturned, Report};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// What one report holds of it: half of what a message can.
const PART: usize = 32 << 10;

/// A file that is to be returned.
pub(crate) struct Return {
    /// An absolute path.
    pub(crate) path: Vec<u8>,
    /// The most bytes that it may hold.
    pub(crate) most: u64,
}

impl Return {
    /// Reports what the file holds, or why it is not returned. A supervisor that is gone needs nothing any more.
    pub(crate) fn report(&self, supervisor: &Channel) {
        let why = match self.read() {
            Ok(bytes) => {
                for part in bytes.chunks(PART) {
                    let _ = supervisor.send(&Report::Part(part.to_vec()), &[]);
                }
                None
            }
            Err(why) => Some(why),
        };
        let _ = supervisor.send(&Report::Returned(why), &[]);
    }

    fn read(&self) -> Result<Vec<u8>, NotReturned> {
        // A FIFO must not make init wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Not by openat2(2), which gVisor's kernel does not have: what is above cannot be replaced.
        let flags = flags | OFlags::NOFOLLOW;
        let opened = rustix::fs::open(&*self.path, flags, Mode::empty());
        let opened = opened.map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => NotReturned::Missing,
            Errno::LOOP => NotReturned::Link,
            // What a socket answers to open(2).
            Errno::NXIO => NotReturned::Kind,
            _ => NotReturned::System,
        })?;
        let stat = rustix::fs::fstat(&opened).map_err(|_| NotReturned::System)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(NotReturned::Kind);
        }
        let mut bytes = Vec::new();
        let read = File::from(opened).take(self.most + 1).read_to_end(&mut bytes);
        read.map_err(|_| NotReturned::System)?;
        if bytes.len() as u64 > self.most { Err(NotReturned::Size) } else { Ok(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use pinfold_wire::{Channel, NotReturned, Report};
    use rustix::fs::{CWD, Mode};

    use super::{PART, Return};

    /// Returns what is reported of a file.
    fn returned(path: &Path, most: u64) -> Result<Vec<u8>, NotReturned> {
        let (ours, theirs) = Channel::pair().unwrap();
        Return { path: path.as_os_str().as_bytes().to_vec(), most }.report(&theirs);
        let mut all = Vec::new();
        loop {
            match ours.receive::<Report>().unwrap().unwrap().message {
                Report::Part(part) => all.extend(part),
                Report::Returned(why) => return why.map_or(Ok(all), Err),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn file_is_returned_in_parts_up_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let content: Vec<u8> = (0..2 * PART + 7).map(|at| at as u8).collect();
        fs::write(&file, &content).unwrap();
        assert_eq!(returned(&file, content.len() as u64), Ok(content.clone()));
        assert_eq!(returned(&file, content.len() as u64 - 1), Err(NotReturned::Size));
        fs::write(&file, "").unwrap();
        assert_eq!(returned(&file, 0), Ok(Vec::new()));
    }

    #[test]
    fn nothing_but_a_regular_file_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").unwrap();
        symlink("file", at("link")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        rustix::fs::mkfifoat(CWD, at("fifo"), Mode::from(0o600)).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (name, why) in [
            ("none", NotReturned::Missing),
            ("file/x", NotReturned::Missing),
            ("link", NotReturned::Link),
            ("directory", NotReturned::Kind),
            ("fifo", NotReturned::Kind),
            ("socket", NotReturned::Kind),
        ] {
            assert_eq!(returned(&at(name), 9), Err(why), "{name}");
        }
        assert_eq!(returned(Path::new("/dev/zero"), 9), Err(NotReturned::Kind));
    }
}
