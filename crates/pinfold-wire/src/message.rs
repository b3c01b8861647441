//! What the two ends say to each other.

use crate::codec::{DecodeError, Reader, Writer};

/// A message that can cross the channel.
pub trait Wire: Sized {
    /// The message as bytes.
    fn encode(&self) -> Vec<u8>;

    /// Reads a message back.
    ///
    /// # Errors
    /// Whatever is not exactly one well-formed message.
    fn decode(message: &[u8]) -> Result<Self, DecodeError>;
}

/// What a cover puts over a path inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoverKind {
    /// Nothing can be read there: an empty, inaccessible file or directory.
    Hide,
    /// What is there, read-only.
    ReadOnly,
    /// What is there, writable, but neither removable nor renamable: the path is a mount point.
    Pin,
    /// A symbolic link to this inside path, so that writers who replace the file by renaming
    /// (git does) write beside the link's target.
    Link(Vec<u8>),
    /// The file or directory at this inside path.
    Replace(Vec<u8>),
}

/// One path inside that looks different from what lies there on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// Absolute path inside.
    pub path: Vec<u8>,
    /// What is put over it.
    pub kind: CoverKind,
}

/// Something to be run beside the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// By what its end is told.
    pub id: u32,
    /// The program and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// The complete environment, `NAME=VALUE`.
    pub env: Vec<Vec<u8>>,
    /// The working directory.
    pub cwd: Vec<u8>,
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
    /// beside its others.
    Start(Vec<Vec<u8>>),
    /// Run this beside the command, with the three descriptors that come along as its streams.
    Run(Task),
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Make a TCP socket in the inside's network and pass it out, unconnected.
    Socket,
}

/// A step of the start inside, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Step {
    /// Writing the id maps and taking the inside's identity.
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
    /// Waiting for the supervisor's covers.
    Covers = 7,
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
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 15] = [
        Self::Identity,
        Self::Loopback,
        Self::Listeners,
        Self::Root,
        Self::Grants,
        Self::Files,
        Self::Covers,
        Self::Pivot,
        Self::Limits,
        Self::Privileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Terminal,
        Self::Execute,
        Self::View,
    ];

    /// Words that read well after "failed while".
    pub fn words(self) -> &'static str {
        match self {
            Self::Identity => "taking the inside's identity",
            Self::Loopback => "bringing up the loopback interface",
            Self::Listeners => "opening the doors' listeners",
            Self::Root => "mounting the fresh root",
            Self::Grants => "attaching a grant",
            Self::Files => "writing a generated file",
            Self::Covers => "covering a protected path",
            Self::Pivot => "leaving the old root",
            Self::Limits => "applying resource limits",
            Self::Privileges => "dropping privileges",
            Self::Landlock => "standing behind Landlock",
            Self::Seccomp => "loading the system call filter",
            Self::Terminal => "opening the terminal",
            Self::Execute => "executing the command",
            Self::View => "making a copy-on-write view",
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
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It returned this status.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
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
    },
    /// The terminal's controlling side, as a descriptor.
    Terminal,
    /// A socket that was asked for, as a descriptor.
    Socket,
    /// Monotonic nanoseconds at the end of each step of the start. Told with the end: told at
    /// the start it would wake the supervisor for nothing else.
    Times(Vec<(Step, u64)>),
    /// The command's process group was stopped by this signal.
    Stopped(i32),
    /// A limit was reached.
    Limit(Limit),
    /// The command ended; what it left is being ended.
    Ended(Ended),
    /// What ran beside the command ended; 127 also if it could not be started.
    TaskEnded {
        /// Which.
        id: u32,
        /// How.
        ended: Ended,
    },
    /// The start failed at a step.
    Failed {
        /// Where.
        step: Step,
        /// The system's error number.
        errno: i32,
        /// The path or value that it was about.
        detail: Vec<u8>,
    },
}

impl Wire for Order {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Cover(covers) => write_covers(writer.u8(1), covers),
            Self::Start(variables) => write_list(writer.u8(2), variables),
            Self::Run(task) => {
                write_list(writer.u8(7).u32(task.id), &task.argv);
                write_list(&mut writer, &task.env);
                writer.bytes(&task.cwd);
            }
            Self::Mapped => {
                writer.u8(4);
            }
            Self::Seal(covers) => write_covers(writer.u8(5), covers),
            Self::Signal(signal) => {
                writer.u8(3).i32(*signal);
            }
            Self::Socket => {
                writer.u8(6);
            }
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let order = match reader.u8()? {
            1 => Self::Cover(read_covers(&mut reader)?),
            2 => Self::Start(read_list(&mut reader)?),
            7 => Self::Run(Task {
                id: reader.u32()?,
                argv: read_list(&mut reader)?,
                env: read_list(&mut reader)?,
                cwd: reader.bytes()?,
            }),
            3 => Self::Signal(reader.i32()?),
            6 => Self::Socket,
            4 => Self::Mapped,
            5 => Self::Seal(read_covers(&mut reader)?),
            value => return Err(DecodeError::Unknown { what: "order", value }),
        };
        reader.finish()?;
        Ok(order)
    }
}

fn write_list(writer: &mut Writer, list: &[Vec<u8>]) {
    writer.u32(list.len() as u32);
    for item in list {
        writer.bytes(item);
    }
}

fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, DecodeError> {
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
            CoverKind::Link(to) => writer.u8(4).bytes(to),
            CoverKind::Replace(from) => writer.u8(5).bytes(from),
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
        4 => CoverKind::Link(reader.bytes()?),
        5 => CoverKind::Replace(reader.bytes()?),
        value => return Err(DecodeError::Unknown { what: "cover", value }),
    };
    Ok(Cover { path, kind })
}

impl Wire for Report {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Listening { handed_over } => {
                writer.u8(1).u8(u8::from(*handed_over));
            }
            Self::Terminal => {
                writer.u8(2);
            }
            Self::Socket => {
                writer.u8(9);
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
            Self::Ended(ended) => write_ended(writer.u8(6), *ended),
            Self::TaskEnded { id, ended } => write_ended(writer.u8(7).u32(*id), *ended),
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
            1 => Self::Listening { handed_over: reader.u8()? != 0 },
            2 => Self::Terminal,
            9 => Self::Socket,
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
            6 => Self::Ended(read_ended(&mut reader)?),
            7 => Self::TaskEnded { id: reader.u32()?, ended: read_ended(&mut reader)? },
            8 => Self::Failed {
                step: Step::from_wire(reader.u8()?)?,
                errno: reader.i32()?,
                detail: Some(reader.bytes()?)
                    .filter(|detail| detail.len() <= LONGEST_DETAIL)
                    .ok_or(DecodeError::TooMuch("detail"))?,
            },
            value => return Err(DecodeError::Unknown { what: "report", value }),
        };
        reader.finish()?;
        Ok(report)
    }
}

fn write_ended(writer: &mut Writer, ended: Ended) {
    match ended {
        Ended::Code(code) => writer.u8(1).u8(code),
        Ended::Signal(signal) => writer.u8(2).u8(signal),
    };
}

fn read_ended(reader: &mut Reader<'_>) -> Result<Ended, DecodeError> {
    match reader.u8()? {
        1 => Ok(Ended::Code(reader.u8()?)),
        2 => Ok(Ended::Signal(reader.u8()?)),
        value => Err(DecodeError::Unknown { what: "end", value }),
    }
}

fn read_limit(value: u8) -> Result<Limit, DecodeError> {
    match value {
        1 => Ok(Limit::Memory),
        2 => Ok(Limit::Pids),
        3 => Ok(Limit::Disk),
        4 => Ok(Limit::Files),
        value => Err(DecodeError::Unknown { what: "limit", value }),
    }
}
