//! What init says to the supervisor.

use super::Wire;
use crate::codec::{DecodeError, Reader, Writer};

/// A step of the start inside, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Step {
    /// Writing the id maps and taking the sandbox's identity.
    Identity = 1,
    /// Bringing the loopback interface up.
    Loopback = 2,
    /// Opening the doors' listeners.
    Listeners = 3,
    /// Mounting the fresh root.
    Root = 4,
    /// Attaching the grants.
    Grants = 5,
    /// Writing the generated files.
    Files = 6,
    /// Waiting for the supervisor's masks.
    Masks = 7,
    /// Leaving the old root.
    Pivot = 8,
    /// Applying resource limits.
    Limits = 9,
    /// Dropping privileges.
    Privileges = 10,
    /// Standing behind the second wall, Landlock.
    Landlock = 11,
    /// Loading the system call filter.
    Seccomp = 12,
    /// Opening the terminal.
    Terminal = 13,
    /// Executing the command.
    Execute = 14,
    /// Making a copy-on-write view.
    View = 15,
    /// Becoming the container engine, which starts init.
    Engine = 16,
    /// Looking whether a container is what was asked for.
    Container = 17,
    /// Entering the command's directory.
    Directory = 18,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 18] = [
        Self::Identity,
        Self::Loopback,
        Self::Listeners,
        Self::Root,
        Self::Grants,
        Self::Files,
        Self::Masks,
        Self::Pivot,
        Self::Limits,
        Self::Privileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Terminal,
        Self::Execute,
        Self::View,
        Self::Engine,
        Self::Container,
        Self::Directory,
    ];

    /// Words that read well after "failed while".
    pub fn words(self) -> &'static str {
        match self {
            Self::Identity => "taking the sandbox's identity",
            Self::Loopback => "bringing up the loopback interface",
            Self::Listeners => "opening the doors' listeners",
            Self::Root => "mounting the fresh root",
            Self::Grants => "attaching a grant",
            Self::Files => "writing a generated file",
            Self::Masks => "masking a protected path",
            Self::Pivot => "leaving the old root",
            Self::Limits => "applying resource limits",
            Self::Privileges => "dropping privileges",
            Self::Landlock => "standing behind Landlock",
            Self::Seccomp => "loading the system call filter",
            Self::Terminal => "opening the terminal",
            Self::Execute => "executing the command",
            Self::View => "making a copy-on-write view",
            Self::Engine => "starting the container engine",
            Self::Container => "looking the container over",
            Self::Directory => "entering the command's directory",
        }
    }

    fn from_wire(value: u8) -> Result<Self, DecodeError> {
        Self::ALL
            .into_iter()
            .find(|step| *step as u8 == value)
            .ok_or(DecodeError::Unknown { what: "step", value })
    }
}

/// A resource limit that init itself watches or enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Limit {
    /// Memory of the whole tree.
    Memory = 1,
    /// Number of tasks.
    Pids = 2,
    /// Size of the private file systems.
    Disk = 3,
    /// Open files of one process.
    Files = 4,
    /// Size of the private changes to views.
    Changes = 5,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It returned this status.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

/// Why a file is not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NotReturned {
    /// It does not exist.
    Missing = 1,
    /// It is a symbolic link.
    Link = 2,
    /// It is a directory, a FIFO, a socket or a device.
    Kind = 3,
    /// It holds more than it may.
    Size = 4,
    /// The system does not let it be read.
    System = 5,
}

impl NotReturned {
    const ALL: [Self; 5] = [Self::Missing, Self::Link, Self::Kind, Self::Size, Self::System];

    /// Words that read well after the file's name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Missing => "is missing",
            Self::Link => "is a symbolic link",
            Self::Kind => "is not a regular file",
            Self::Size => "is too large",
            Self::System => "cannot be read",
        }
    }
}

/// Bytes of a failure's detail: two paths of the longest kind (`PATH_MAX`).
const LONGEST_DETAIL: usize = 8192;

/// From init to the supervisor. Everything in it may be a lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The doors' sockets, as descriptors, in the order in which the plan names them.
    Listening {
        /// Whether connections to other addresses are handed to them.
        handed_over: bool,
        /// Whether the last descriptor is the view of the workspace.
        has_view: bool,
    },
    /// An engine has started init, which waits for what is left to do ([`super::LastSteps`]).
    Born,
    /// The terminal's controlling side, as a descriptor.
    Terminal,
    /// A socket that was asked for, as a descriptor.
    Socket,
    /// Everything that was ordered until then has been done; the command was executed.
    Finished,
    /// Monotonic nanoseconds at the end of each step of the start. Reported with the end: at the
    /// start it would wake the supervisor for nothing else.
    Times(Vec<(Step, u64)>),
    /// The command's process group was stopped by this signal.
    Stopped(i32),
    /// A limit was reached.
    Limit(Limit),
    /// A part of the file that is to be returned, in order.
    Part(Vec<u8>),
    /// The file that is to be returned is complete, or why it is not returned.
    Returned(Option<NotReturned>),
    /// The command ended; what it left is being ended.
    Ended(Ended),
    /// The controlling side of the terminal of a program next to the command, as a descriptor.
    TaskTerminal(u32),
    /// The process group of a program next to the command was stopped.
    TaskStopped(u32),
    /// A program next to the command has reached a limit of its own, and is being ended.
    TaskLimit {
        /// The number of the task.
        id: u32,
        limit: Limit,
    },
    /// A program that was to run next to the command could not be executed.
    TaskFailed {
        /// The number of the task.
        id: u32,
        /// Where it failed.
        step: Step,
        /// The system's error number.
        errno: i32,
        /// What it was about.
        detail: Vec<u8>,
    },
    /// A program that ran next to the command ended.
    TaskEnded {
        /// The number of the task.
        id: u32,
        /// How it ended.
        ended: Ended,
    },
    /// The start failed at a step.
    Failed {
        step: Step,
        /// The system's error number.
        errno: i32,
        /// The path or value that it was about.
        detail: Vec<u8>,
    },
}

impl Wire for Report {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Listening { handed_over, has_view } => {
                writer.u8(1).u8(u8::from(*handed_over)).u8(u8::from(*has_view));
            }
            Self::Born => {
                writer.u8(14);
            }
            Self::Terminal => {
                writer.u8(2);
            }
            Self::Socket => {
                writer.u8(9);
            }
            Self::Finished => {
                writer.u8(13);
            }
            Self::Times(times) => {
                writer.u8(3).u8(times.len().min(Step::ALL.len()) as u8);
                for (step, at) in times.iter().take(Step::ALL.len()) {
                    writer.u8(*step as u8).u64(*at);
                }
            }
            Self::Stopped(signal) => {
                writer.u8(4).i32(*signal);
            }
            Self::Limit(limit) => {
                writer.u8(5).u8(*limit as u8);
            }
            Self::Part(part) => {
                writer.u8(16).bytes(part);
            }
            Self::Returned(why) => {
                writer.u8(17).u8(why.map_or(0, |why| why as u8));
            }
            Self::Ended(ended) => write_ended(writer.u8(6), *ended),
            Self::TaskEnded { id, ended } => write_ended(writer.u8(7).u32(*id), *ended),
            Self::TaskTerminal(id) => {
                writer.u8(10).u32(*id);
            }
            Self::TaskStopped(id) => {
                writer.u8(11).u32(*id);
            }
            Self::TaskLimit { id, limit } => {
                writer.u8(15).u32(*id).u8(*limit as u8);
            }
            Self::TaskFailed { id, step, errno, detail } => {
                let detail = &detail[..detail.len().min(LONGEST_DETAIL)];
                writer.u8(12).u32(*id).u8(*step as u8).i32(*errno).bytes(detail);
            }
            Self::Failed { step, errno, detail } => {
                writer
                    .u8(8)
                    .u8(*step as u8)
                    .i32(*errno)
                    .bytes(&detail[..detail.len().min(LONGEST_DETAIL)]);
            }
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let report = match reader.u8()? {
            1 => Self::Listening { handed_over: reader.u8()? != 0, has_view: reader.u8()? != 0 },
            14 => Self::Born,
            2 => Self::Terminal,
            9 => Self::Socket,
            13 => Self::Finished,
            3 => {
                let count = reader.u8()?;
                if usize::from(count) > Step::ALL.len() {
                    return Err(DecodeError::TooMuch("steps"));
                }
                let times = (0..count).map(|_| Ok((Step::from_wire(reader.u8()?)?, reader.u64()?)));
                Self::Times(times.collect::<Result<_, _>>()?)
            }
            4 => Self::Stopped(reader.i32()?),
            5 => Self::Limit(read_limit(reader.u8()?)?),
            16 => Self::Part(reader.bytes()?),
            17 => Self::Returned(read_not_returned(reader.u8()?)?),
            6 => Self::Ended(read_ended(&mut reader)?),
            7 => Self::TaskEnded { id: reader.u32()?, ended: read_ended(&mut reader)? },
            10 => Self::TaskTerminal(reader.u32()?),
            11 => Self::TaskStopped(reader.u32()?),
            15 => Self::TaskLimit { id: reader.u32()?, limit: read_limit(reader.u8()?)? },
            12 => Self::TaskFailed {
                id: reader.u32()?,
                step: Step::from_wire(reader.u8()?)?,
                errno: reader.i32()?,
                detail: read_detail(&mut reader)?,
            },
            8 => Self::Failed {
                step: Step::from_wire(reader.u8()?)?,
                errno: reader.i32()?,
                detail: read_detail(&mut reader)?,
            },
            value => return Err(DecodeError::Unknown { what: "report", value }),
        };
        reader.finish()?;
        Ok(report)
    }
}

fn read_detail(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let detail = reader.bytes()?;
    if detail.len() > LONGEST_DETAIL { Err(DecodeError::TooMuch("detail")) } else { Ok(detail) }
}

pub(crate) fn write_ended(writer: &mut Writer, ended: Ended) {
    match ended {
        Ended::Code(code) => writer.u8(1).u8(code),
        Ended::Signal(signal) => writer.u8(2).u8(signal),
    };
}

pub(crate) fn read_ended(reader: &mut Reader<'_>) -> Result<Ended, DecodeError> {
    match reader.u8()? {
        1 => Ok(Ended::Code(reader.u8()?)),
        2 => Ok(Ended::Signal(reader.u8()?)),
        value => Err(DecodeError::Unknown { what: "end", value }),
    }
}

fn read_not_returned(value: u8) -> Result<Option<NotReturned>, DecodeError> {
    let why = NotReturned::ALL.into_iter().find(|why| *why as u8 == value);
    match (value, why) {
        (0, _) => Ok(None),
        (_, Some(why)) => Ok(Some(why)),
        (value, None) => Err(DecodeError::Unknown { what: "returned file", value }),
    }
}

fn read_limit(value: u8) -> Result<Limit, DecodeError> {
    match value {
        1 => Ok(Limit::Memory),
        2 => Ok(Limit::Pids),
        3 => Ok(Limit::Disk),
        4 => Ok(Limit::Files),
        5 => Ok(Limit::Changes),
        value => Err(DecodeError::Unknown { what: "limit", value }),
    }
}
