//! A copy of a git directory as it is written down, for who settles it when its session is gone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use pinfold_git::baseline::Start;
use pinfold_git::stamp::Stamps;
use pinfold_host::anchor::Anchor;
use serde::{Deserialize, Serialize};

use super::bytes;
use super::private::Copied;

/// A path: any bytes.
pub(crate) type Bytes = Vec<u8>;

pub(crate) fn path(bytes: Bytes) -> PathBuf {
    OsString::from_vec(bytes).into()
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Copy {
    host: Bytes,
    identity: (u64, u64),
    private: Bytes,
    base: Bytes,
    number: usize,
    start: Start,
    stamps: Stamps,
    own_stamps: Option<Stamps>,
}

impl Copy {
    pub(crate) fn of(copied: &Copied) -> Self {
        Self {
            host: bytes(copied.host.path()),
            identity: copied.host.identity(),
            private: bytes(&copied.private),
            base: bytes(&copied.base),
            number: copied.number,
            start: copied.start.clone(),
            stamps: copied.stamps.clone(),
            own_stamps: copied.own_stamps.clone(),
        }
    }

    pub(crate) fn read(self) -> Copied {
        Copied {
            host: Anchor::written(path(self.host), self.identity.0, self.identity.1),
            private: path(self.private),
            base: path(self.base),
            number: self.number,
            start: self.start,
            stamps: self.stamps,
            own_stamps: self.own_stamps,
        }
    }
}
