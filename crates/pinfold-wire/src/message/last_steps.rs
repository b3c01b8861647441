//! What is left to do where an engine has started init.

use super::order::{read_number, read_truth, write_number};
use super::{Wire, read_list, write_list};
use crate::codec::{DecodeError, Reader, Writer};

/// What init has to do before it runs anything, where it is not a copy of who planned the sandbox.
/// It can be longer than a message ([`crate::Channel::last_steps`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastSteps {
    /// Whether the sandbox is root by name.
    pub root_by_name: bool,
    /// The Landlock ABI to use; 0 for none.
    pub landlock: u32,
    /// Absolute paths that Landlock lets the sandbox write below.
    pub writable: Vec<Vec<u8>>,
    /// Bytes that the tree may hold in memory, where init watches them.
    pub memory: Option<u64>,
    /// Tasks (`RLIMIT_NPROC`), where no control group counts them.
    pub pids: Option<u64>,
    /// Open files of one process (`RLIMIT_NOFILE`).
    pub files: Option<u64>,
    /// A private directory whose file system is bounded.
    pub disk: Option<Vec<u8>>,
    /// A directory in whose file system changes to views land.
    pub changes: Option<Vec<u8>>,
    /// Whether the sandbox may make namespaces of its own.
    pub nested: bool,
    /// Whether nobody outside can execute what it writes, now or later.
    pub leaves_nothing: bool,
    /// Whether its files belong to another user on the host.
    pub owner_is_other: bool,
    /// Whether it has views in which init moves directories.
    pub moves: bool,
    /// Whether an engine's own kernel answers its system calls.
    pub own_kernel: bool,
}

impl Wire for LastSteps {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.landlock);
        write_list(&mut writer, &self.writable);
        for number in [self.memory, self.pids, self.files] {
            write_number(&mut writer, number);
        }
        for path in [&self.disk, &self.changes] {
            writer.u8(path.is_some().into()).bytes(path.as_deref().unwrap_or_default());
        }
        let Self {
            root_by_name, nested, leaves_nothing, owner_is_other, moves, own_kernel, ..
        } = *self;
        for is in [root_by_name, nested, leaves_nothing, owner_is_other, moves, own_kernel] {
            writer.u8(is.into());
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let landlock = reader.u32()?;
        let writable = read_list(&mut reader)?;
        let mut number = || read_number(&mut reader);
        let (memory, pids, files) = (number()?, number()?, number()?);
        let mut path = || -> Result<Option<Vec<u8>>, DecodeError> {
            Ok(read_truth(&mut reader)?.then_some(reader.bytes()?))
        };
        let (disk, changes) = (path()?, path()?);
        let mut truth = || read_truth(&mut reader);
        let (root_by_name, nested, leaves_nothing) = (truth()?, truth()?, truth()?);
        let owner_is_other = truth()?;
        let (moves, own_kernel) = (truth()?, truth()?);
        reader.finish()?;
        Ok(Self {
            root_by_name,
            landlock,
            writable,
            memory,
            pids,
            files,
            disk,
            changes,
            nested,
            leaves_nothing,
            owner_is_other,
            moves,
            own_kernel,
        })
    }
}
