//! What goes through a line: between a terminal inside that cannot leave it and one outside.

use super::streams::{read_window, write_window};
use super::{Window, Wire};
use crate::codec::{DecodeError, Reader, Writer};

/// To the terminal inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineIn {
    /// This was typed.
    Typed(Vec<u8>),
    /// The window is so large now.
    Window(Window),
    /// Everything was shown, up to [`LineOut::End`].
    Shown,
}

/// To the terminal outside. Everything in it may be a lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineOut {
    /// There is a terminal inside, and somebody who uses it from now on.
    Open,
    /// This is to be shown.
    Written(Vec<u8>),
    /// Nothing more comes.
    End,
}

impl Wire for LineIn {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Typed(bytes) => {
                writer.u8(1).bytes(bytes);
            }
            Self::Window(window) => write_window(writer.u8(2), Some(*window)),
            Self::Shown => {
                writer.u8(3);
            }
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let decoded = match reader.u8()? {
            1 => Self::Typed(reader.bytes()?),
            2 => Self::Window(read_window(&mut reader)?.ok_or(DecodeError::CutShort)?),
            3 => Self::Shown,
            value => return Err(DecodeError::Unknown { what: "message of a line", value }),
        };
        reader.finish()?;
        Ok(decoded)
    }
}

impl Wire for LineOut {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Open => writer.u8(1),
            Self::Written(bytes) => writer.u8(2).bytes(bytes),
            Self::End => writer.u8(3),
        };
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let decoded = match reader.u8()? {
            1 => Self::Open,
            2 => Self::Written(reader.bytes()?),
            3 => Self::End,
            value => return Err(DecodeError::Unknown { what: "message of a line", value }),
        };
        reader.finish()?;
        Ok(decoded)
    }
}
