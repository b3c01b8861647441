//! What a command inside says at the host-exec door, and what it is answered.
//!
//! The door is a stream, so messages are framed: four bytes of length, little-endian, then the
//! message. The other end is hostile to this one, whichever this is: no frame is longer than
//! [`MAX_MESSAGE`], nothing is kept but one unfinished frame, and no input panics.

use crate::codec::{DecodeError, MAX_MESSAGE, Reader, Writer};
use crate::message::{Ended, Wire, read_ended, read_list, write_ended, write_list};

/// Bytes of a stream that one message carries at most.
pub const MAX_DATA: usize = 32 * 1024;
/// Bytes of a request with all its arguments: half of what execve(2) takes (`ARG_MAX`).
pub const MAX_REQUEST: usize = 1 << 20;

/// What the host is asked to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// The executable, by its name.
    pub executable: Vec<u8>,
    /// Its arguments, byte for byte.
    pub args: Vec<Vec<u8>>,
    /// The absolute working directory inside.
    pub cwd: Vec<u8>,
}

impl Wire for HostCommand {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&self.executable);
        write_list(&mut writer, &self.args);
        writer.bytes(&self.cwd);
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let executable = reader.bytes()?;
        let args = read_list(&mut reader)?;
        let cwd = reader.bytes()?;
        reader.finish()?;
        Ok(Self { executable, args, cwd })
    }
}

/// From the sandbox to the host. First the command, in as many parts as it needs, then its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A command that does not fit into one message begins so.
    Part(Vec<u8>),
    /// The rest of the command ([`HostCommand`]).
    Run(Vec<u8>),
    /// Some of its standard input.
    Input(Vec<u8>),
    /// There is no more input.
    InputEnd,
}

impl Call {
    /// Returns the messages that say a command.
    #[must_use]
    pub fn command(command: &HostCommand) -> Vec<Self> {
        let mut rest = command.encode();
        let mut calls = Vec::new();
        while rest.len() > MAX_DATA {
            let left = rest.split_off(MAX_DATA);
            calls.push(Self::Part(rest));
            rest = left;
        }
        calls.push(Self::Run(rest));
        calls
    }
}

impl Wire for Call {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Part(part) => writer.u8(1).bytes(part),
            Self::Run(rest) => writer.u8(2).bytes(rest),
            Self::Input(data) => writer.u8(3).bytes(data),
            Self::InputEnd => writer.u8(4),
        };
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let call = match reader.u8()? {
            1 => Self::Part(reader.bytes()?),
            2 => Self::Run(reader.bytes()?),
            3 => Self::Input(reader.bytes()?),
            4 => Self::InputEnd,
            value => return Err(DecodeError::Unknown { what: "call", value }),
        };
        reader.finish()?;
        Ok(call)
    }
}

/// From the host to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A user is asked; nothing runs yet.
    Waiting,
    /// Some of its standard output.
    Output(Vec<u8>),
    /// Some of its standard error.
    Errors(Vec<u8>),
    /// It is not run, or was ended: why, and the hint if there is one.
    Refused {
        why: String,
        /// The hint; empty without one.
        hint: String,
    },
    /// It has ended so. Nothing follows.
    Ended(Ended),
    /// What the repository learns of a remote: a reference, and what it names there now. It comes
    /// before the end.
    Tracking {
        /// The reference, below `refs/remotes/`.
        reference: String,
        object: String,
    },
    /// Which branch of a remote's a branch follows now. It comes before the end.
    Upstream {
        branch: String,
        remote: String,
        /// The reference of the remote's.
        merge: String,
    },
    /// Some of a pack of objects (gitformat-pack(5)) that the repository is to take up.
    Pack(Vec<u8>),
}

impl Wire for Reply {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Waiting => {
                writer.u8(1);
            }
            Self::Output(data) => {
                writer.u8(2).bytes(data);
            }
            Self::Errors(data) => {
                writer.u8(3).bytes(data);
            }
            Self::Refused { why, hint } => {
                writer.u8(4).bytes(why.as_bytes()).bytes(hint.as_bytes());
            }
            Self::Ended(ended) => write_ended(writer.u8(5), *ended),
            Self::Tracking { reference, object } => {
                writer.u8(6).bytes(reference.as_bytes()).bytes(object.as_bytes());
            }
            Self::Pack(data) => {
                writer.u8(7).bytes(data);
            }
            Self::Upstream { branch, remote, merge } => {
                let texts = [branch, remote, merge].map(|text| text.as_bytes());
                writer.u8(8).bytes(texts[0]).bytes(texts[1]).bytes(texts[2]);
            }
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let reply = match reader.u8()? {
            1 => Self::Waiting,
            2 => Self::Output(reader.bytes()?),
            3 => Self::Errors(reader.bytes()?),
            4 => Self::Refused { why: text(reader.bytes()?), hint: text(reader.bytes()?) },
            5 => Self::Ended(read_ended(&mut reader)?),
            6 => Self::Tracking { reference: text(reader.bytes()?), object: text(reader.bytes()?) },
            7 => Self::Pack(reader.bytes()?),
            8 => Self::Upstream {
                branch: text(reader.bytes()?),
                remote: text(reader.bytes()?),
                merge: text(reader.bytes()?),
            },
            value => return Err(DecodeError::Unknown { what: "reply", value }),
        };
        reader.finish()?;
        Ok(reply)
    }
}

/// Returns a message as it crosses a stream. One that is too long for a frame is cut short by nobody:
/// callers keep to [`MAX_DATA`].
#[must_use]
pub fn framed<M: Wire>(message: &M) -> Vec<u8> {
    let message = message.encode();
    let mut frame = Vec::with_capacity(LENGTH + message.len());
    frame.extend_from_slice(&(message.len() as u32).to_le_bytes());
    frame.extend_from_slice(&message);
    frame
}

const LENGTH: usize = size_of::<u32>();

/// Takes messages off a stream.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Takes up what was read.
    pub fn add(&mut self, read: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(read);
    }

    /// Returns the next whole message; `None` until more was read.
    ///
    /// # Errors
    /// Returns an error for a frame that is longer than agreed, or is no message: nothing that follows
    /// can be read.
    pub fn take<M: Wire>(&mut self) -> Result<Option<M>, DecodeError> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(DecodeError::TooMuch("frame"));
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = M::decode(message)?;
        self.taken += LENGTH + length;
        Ok(Some(message))
    }

    /// Returns whether there is nothing unfinished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.taken
    }
}

#[cfg(test)]
mod tests;
