//! What the supervisor says to init.

use super::Wire;
use super::streams::{Streams, Window, read_streams, read_window, write_streams, write_window};
use crate::codec::{DecodeError, Reader, Writer};

/// What a cover puts over a path inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoverKind {
    /// An empty file or directory that everybody may read and nobody may change.
    Hide,
    /// The file at this inside path, read-only, in the place of one that is hidden.
    HideWith(Vec<u8>),
    /// A file or directory that nobody may open.
    Close,
    /// What is there, read-only.
    ReadOnly,
    /// What is there, writable, but neither removable nor renamable: the path is a mount point.
    Pin,
    /// The file or directory at this inside path.
    Replace(Vec<u8>),
    /// The directory at this inside path, read-only, where nothing lies yet. The mount point is made in
    /// the sandbox's own root.
    Borrow(Vec<u8>),
}

impl CoverKind {
    /// Whether nothing of what lies on the host can be read behind it.
    #[must_use]
    pub fn hides(&self) -> bool {
        match self {
            Self::Hide | Self::HideWith(_) | Self::Close => true,
            Self::ReadOnly | Self::Pin | Self::Replace(_) | Self::Borrow(_) => false,
        }
    }
}

/// One path inside that looks different from what lies there on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// Absolute path inside.
    pub path: Vec<u8>,
    /// What is put over it.
    pub kind: CoverKind,
}

/// Something to be run. It can be longer than a message ([`crate::Channel::command`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// The complete environment, `NAME=VALUE`.
    pub env: Vec<Vec<u8>>,
    /// The working directory.
    pub cwd: Vec<u8>,
    /// Signals that it ignores from the beginning: bit n - 1 for signal n.
    pub ignored: u64,
}

impl Wire for Program {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        write_list(&mut writer, &self.argv);
        write_list(&mut writer, &self.env);
        writer.bytes(&self.cwd);
        writer.u64(self.ignored);
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let (argv, env) = (read_list(&mut reader)?, read_list(&mut reader)?);
        let cwd = reader.bytes()?;
        let ignored = reader.u64()?;
        reader.finish()?;
        Ok(Self { argv, env, cwd, ignored })
    }
}

/// What holds for one task in addition to the session's own limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Open files of each of its processes (`RLIMIT_NOFILE`, getrlimit(2)).
    pub files: Option<u64>,
    /// By how much others go before it (nice(2)).
    pub nice: u8,
    /// How many of the last descriptors are files of control groups that it joins (cgroups(7)).
    pub groups: u8,
    /// Bytes that its processes may hold, where init is to watch that.
    pub memory: Option<u64>,
    /// Processes and threads, where init is to watch that.
    pub pids: Option<u64>,
}

/// From the supervisor to init.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Covers to put in place before the command starts; may come several times.
    Cover(Vec<Cover>),
    /// The id maps are written; only a supervisor that is root writes them itself.
    Mapped,
    /// Put these last covers in place, close the root and drop every privilege.
    Seal(Vec<Cover>),
    /// Everything is recorded and in place: start the command, with these variables (`NAME=VALUE`)
    /// in addition to its others.
    Start(Vec<Vec<u8>>),
    /// A program that an order has no room for begins so; its rest follows.
    Part(Vec<u8>),
    /// Where init makes the sandbox itself: the plan, of which this is what follows the parts
    /// before.
    Plan(Vec<u8>),
    /// Where an engine has started init: what is left to do ([`super::LastSteps`]), of which this is what
    /// follows the parts before.
    LastSteps(Vec<u8>),
    /// This will be the command: the rest of its program, and its streams.
    Command {
        /// What follows the parts before.
        rest: Vec<u8>,
        /// With as many descriptors as they need.
        streams: Streams,
    },
    /// Run this next to the command.
    Run {
        /// The id that its end is reported with.
        id: u32,
        /// Its own limits.
        bounds: Bounds,
        /// What follows the parts before.
        rest: Vec<u8>,
        /// With as many descriptors as they need, before those of groups.
        streams: Streams,
    },
    /// Send this signal to the process group of a program that runs next to the command.
    SignalTask {
        /// Which.
        id: u32,
        /// The signal's number.
        signal: i32,
    },
    /// End a program that runs next to the command, with everything that it has started.
    EndTask(u32),
    /// Serve the session's tools on the socket that comes along.
    Tools {
        /// Where they may go: absolute paths inside.
        roots: Vec<Vec<u8>>,
        /// Where relative paths begin.
        cwd: Vec<u8>,
    },
    /// Say when all that was ordered before has been done.
    Finish,
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Make a TCP socket in the sandbox's network and pass it out, unconnected.
    Socket,
    /// Make a terminal outside for one inside that cannot leave it: what is typed and shown goes through
    /// the socket that comes along ([`super::LineIn`]).
    Terminal {
        /// Of which task, or of the command.
        task: Option<u32>,
        /// How large it is at first.
        window: Option<Window>,
    },
}

impl Wire for Order {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Cover(covers) => write_covers(writer.u8(1), covers),
            Self::Start(variables) => write_list(writer.u8(2), variables),
            Self::Part(part) => {
                writer.u8(8).bytes(part);
            }
            Self::Plan(rest) => {
                writer.u8(15).bytes(rest);
            }
            Self::LastSteps(rest) => {
                writer.u8(14).bytes(rest);
            }
            Self::Command { rest, streams } => {
                write_streams(writer.u8(9).bytes(rest), *streams);
            }
            Self::Run { id, bounds, rest, streams } => {
                write_bounds(writer.u8(7).u32(*id), *bounds);
                write_streams(writer.bytes(rest), *streams);
            }
            Self::SignalTask { id, signal } => {
                writer.u8(10).u32(*id).i32(*signal);
            }
            Self::EndTask(id) => {
                writer.u8(11).u32(*id);
            }
            Self::Tools { roots, cwd } => {
                write_list(writer.u8(13), roots);
                writer.bytes(cwd);
            }
            Self::Mapped => {
                writer.u8(4);
            }
            Self::Finish => {
                writer.u8(12);
            }
            Self::Seal(covers) => write_covers(writer.u8(5), covers),
            Self::Signal(signal) => {
                writer.u8(3).i32(*signal);
            }
            Self::Socket => {
                writer.u8(6);
            }
            Self::Terminal { task, window } => {
                writer.u8(16).u8(task.is_some().into()).u32(task.unwrap_or(0));
                write_window(&mut writer, *window);
            }
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let order = match reader.u8()? {
            1 => Self::Cover(read_covers(&mut reader)?),
            2 => Self::Start(read_list(&mut reader)?),
            7 => {
                let (id, bounds) = (reader.u32()?, read_bounds(&mut reader)?);
                let rest = reader.bytes()?;
                Self::Run { id, bounds, rest, streams: read_streams(&mut reader)? }
            }
            10 => Self::SignalTask { id: reader.u32()?, signal: reader.i32()? },
            11 => Self::EndTask(reader.u32()?),
            12 => Self::Finish,
            13 => Self::Tools { roots: read_list(&mut reader)?, cwd: reader.bytes()? },
            8 => Self::Part(reader.bytes()?),
            14 => Self::LastSteps(reader.bytes()?),
            15 => Self::Plan(reader.bytes()?),
            9 => {
                let rest = reader.bytes()?;
                Self::Command { rest, streams: read_streams(&mut reader)? }
            }
            3 => Self::Signal(reader.i32()?),
            6 => Self::Socket,
            16 => {
                let (has_task, task) = (reader.u8()? != 0, reader.u32()?);
                let window = read_window(&mut reader)?;
                Self::Terminal { task: has_task.then_some(task), window }
            }
            4 => Self::Mapped,
            5 => Self::Seal(read_covers(&mut reader)?),
            value => return Err(DecodeError::Unknown { what: "order", value }),
        };
        reader.finish()?;
        Ok(order)
    }
}

fn write_bounds(writer: &mut Writer, bounds: Bounds) {
    let Bounds { files, nice, groups, memory, pids } = bounds;
    writer.u8(nice).u8(groups);
    [files, memory, pids].into_iter().for_each(|number| write_number(writer, number));
}

fn read_bounds(reader: &mut Reader<'_>) -> Result<Bounds, DecodeError> {
    let (nice, groups) = (reader.u8()?, reader.u8()?);
    let mut number = || read_number(reader);
    Ok(Bounds { nice, groups, files: number()?, memory: number()?, pids: number()? })
}

/// A number that need not be there.
pub(crate) fn write_number(writer: &mut Writer, number: Option<u64>) {
    writer.u8(number.is_some().into()).u64(number.unwrap_or(0));
}

pub(crate) fn read_number(reader: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    Ok(read_truth(reader)?.then_some(reader.u64()?))
}

pub(crate) fn read_truth(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::Unknown { what: "truth", value }),
    }
}

pub(crate) fn write_list(writer: &mut Writer, list: &[Vec<u8>]) {
    writer.u32(list.len() as u32);
    for item in list {
        writer.bytes(item);
    }
}

pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, DecodeError> {
    let count = reader.u32()?;
    (0..count).map(|_| reader.bytes()).collect()
}

fn write_covers(writer: &mut Writer, covers: &[Cover]) {
    writer.u32(covers.len() as u32);
    for cover in covers {
        writer.bytes(&cover.path);
        match &cover.kind {
            CoverKind::Hide => writer.u8(1),
            CoverKind::ReadOnly => writer.u8(2),
            CoverKind::Pin => writer.u8(3),
            CoverKind::Replace(from) => writer.u8(4).bytes(from),
            CoverKind::HideWith(from) => writer.u8(5).bytes(from),
            CoverKind::Close => writer.u8(6),
            CoverKind::Borrow(from) => writer.u8(7).bytes(from),
        };
    }
}

fn read_covers(reader: &mut Reader<'_>) -> Result<Vec<Cover>, DecodeError> {
    let count = reader.u32()?;
    (0..count).map(|_| read_cover(reader)).collect()
}

fn read_cover(reader: &mut Reader<'_>) -> Result<Cover, DecodeError> {
    let path = reader.bytes()?;
    let kind = match reader.u8()? {
        1 => CoverKind::Hide,
        2 => CoverKind::ReadOnly,
        3 => CoverKind::Pin,
        4 => CoverKind::Replace(reader.bytes()?),
        5 => CoverKind::HideWith(reader.bytes()?),
        6 => CoverKind::Close,
        7 => CoverKind::Borrow(reader.bytes()?),
        value => return Err(DecodeError::Unknown { what: "cover", value }),
    };
    Ok(Cover { path, kind })
}
