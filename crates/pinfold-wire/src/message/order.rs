//! What the supervisor says to init.

use super::Wire;
use super::streams::{Streams, Window, read_streams, read_window, write_streams, write_window};
use crate::codec::{DecodeError, Reader, Writer};

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

/// From the supervisor to init, once the sandbox is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Everything is recorded and in place: start the command, with these variables (`NAME=VALUE`) in
    /// addition to its own.
    Start(Vec<Vec<u8>>),
    /// The beginning of a program that an order has no room for. The rest follows.
    Part(Vec<u8>),
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
        /// The number of the task.
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
    /// Report what this file holds when the command has ended ([`super::Report::Part`]).
    Return {
        /// An absolute path inside.
        path: Vec<u8>,
        /// The most bytes that it may hold.
        most: u64,
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
            Self::Start(variables) => write_list(writer.u8(2), variables),
            Self::Part(part) => {
                writer.u8(8).bytes(part);
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
            Self::Return { path, most } => {
                writer.u8(14).bytes(path).u64(*most);
            }
            Self::Finish => {
                writer.u8(12);
            }
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
            14 => Self::Return { path: reader.bytes()?, most: reader.u64()? },
            8 => Self::Part(reader.bytes()?),
            3 => Self::Signal(reader.i32()?),
            6 => Self::Socket,
            16 => {
                let (has_task, task) = (reader.u8()? != 0, reader.u32()?);
                let window = read_window(&mut reader)?;
                Self::Terminal { task: has_task.then_some(task), window }
            }
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

/// Writes a number that need not be there.
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
