//! What is passed to an init that makes the sandbox itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_wire::{DecodeError, Reader, Wire, Writer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::namespace::Around;
use crate::plan::LaunchPlan;
use crate::systemd::Configuration;

/// The plan, and by what to see that its files are the ones that were meant.
#[derive(Debug)]
pub(crate) struct Errand {
    /// The paths of the host in it are those of the container.
    pub(crate) plan: LaunchPlan,
    pub(crate) looks: Vec<Look>,
    /// Whether the sandbox's files belong to another user on the host than its processes.
    pub(crate) owner_is_other: bool,
    /// Whether the kernel bounds the sandbox's memory, so that init need not watch it.
    pub(crate) memory_is_bounded: bool,
    /// The caller's soft limit of open files; most for no limit.
    pub(crate) open_files: u64,
    /// The user's configuration of the agent, where init keeps and writes it.
    pub(crate) configuration: Option<Configuration>,
}

/// A file or directory as it looks from everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Where it lies in the container.
    pub(crate) path: PathBuf,
    /// Its file system and its number there (stat(2)).
    pub(crate) identity: (u64, u64),
}

impl Look {
    /// Returns whether this is what lies there.
    pub(crate) fn is_true(&self) -> bool {
        let found = std::fs::symlink_metadata(&self.path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

impl Errand {
    /// Returns what init cannot see by itself.
    pub(crate) fn around(&self) -> Around {
        let Self { owner_is_other, memory_is_bounded, .. } = *self;
        Around { owner_is_other, memory_is_bounded, variables: Vec::new() }
    }

    /// Returns this process's soft limit of open files, for an errand.
    pub(crate) fn own_open_files() -> u64 {
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }

    /// Gives this process the caller's soft limit of open files, as far as it may have it. A program sizes tables by it.
    pub(crate) fn take_open_files(&self) {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let current = maximum.map_or(self.open_files, |most| most.min(self.open_files));
        let current = Some(current).filter(|current| *current != u64::MAX);
        // It is no wall: a program may raise it itself.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

impl Wire for Errand {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&self.plan.encode()).u8(self.owner_is_other.into());
        writer.u8(self.memory_is_bounded.into()).u64(self.open_files);
        writer.u8(self.configuration.is_some().into());
        if let Some(configuration) = &self.configuration {
            writer.bytes(&configuration.encode());
        }
        writer.u32(self.looks.len() as u32);
        for Look { path, identity: (device, number) } in &self.looks {
            writer.bytes(path.as_os_str().as_bytes()).u64(*device).u64(*number);
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let plan = LaunchPlan::decode(&reader.bytes()?)?;
        let owner_is_other = reader.u8()? != 0;
        let memory_is_bounded = reader.u8()? != 0;
        let open_files = reader.u64()?;
        let configuration = match reader.u8()? {
            0 => None,
            _ => Some(Configuration::decode(&reader.bytes()?)?),
        };
        let mut looks = Vec::new();
        for _ in 0..reader.u32()? {
            let path = reader.bytes()?;
            let path = Path::new(OsStr::from_bytes(&path)).to_owned();
            looks.push(Look { path, identity: (reader.u64()?, reader.u64()?) });
        }
        reader.finish()?;
        Ok(Self { plan, looks, owner_is_other, memory_is_bounded, open_files, configuration })
    }
}
