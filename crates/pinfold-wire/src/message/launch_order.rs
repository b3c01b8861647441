//! What the supervisor says to init, and to the keeper of masks, before the command starts.

use super::Wire;
use super::streams::{Streams, read_streams, write_streams};
use crate::codec::{DecodeError, Reader, Writer};

/// What a mask puts over a path inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskKind {
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

impl MaskKind {
    /// Returns whether nothing of what lies on the host can be read behind it.
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
pub struct Mask {
    /// Absolute path inside.
    pub path: Vec<u8>,
    /// What is put over it.
    pub kind: MaskKind,
}

/// From the supervisor to init, until the sandbox is closed.
///
/// No number is that of an [`super::Order`] of another meaning, so a message of one kind is never read as
/// the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchOrder {
    /// Masks to put in place. It may come several times.
    Mask(Vec<Mask>),
    /// The id maps are written. Only a supervisor that is root writes them itself.
    Mapped,
    /// Put these last masks in place, close the root and drop every privilege.
    Seal(Vec<Mask>),
    /// The beginning of what an order has no room for. The rest follows.
    Part(Vec<u8>),
    /// Where init makes the sandbox itself: the plan, without the parts before.
    Plan(Vec<u8>),
    /// Where an engine has started init: what is left to do ([`super::LastSteps`]), without the parts
    /// before.
    LastSteps(Vec<u8>),
    /// Init's parent: init itself, as a descriptor (pidfd_open(2)).
    Init,
    /// To init's parent: start what keeps masks in place. Its channel and where it reports, as descriptors.
    KeepMasks,
    /// To what keeps masks in place: hide these names, which are new in a view, where that can be done.
    MaskNew(Vec<Mask>),
    /// To init's parent: refresh a view, whose context is the descriptor. It answers with the error, or 0.
    Refresh(i32),
    Command {
        /// Its program, without the parts before.
        rest: Vec<u8>,
        /// With as many descriptors as they need.
        streams: Streams,
    },
}

impl Wire for LaunchOrder {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Mask(masks) => write_masks(writer.u8(1), masks),
            Self::Mapped => {
                writer.u8(4);
            }
            Self::KeepMasks => {
                writer.u8(10);
            }
            Self::Init => {
                writer.u8(11);
            }
            Self::Refresh(errno) => {
                writer.u8(12).u32(*errno as u32);
            }
            Self::MaskNew(masks) => write_masks(writer.u8(17), masks),
            Self::Seal(masks) => write_masks(writer.u8(5), masks),
            Self::Part(part) => {
                writer.u8(8).bytes(part);
            }
            Self::Command { rest, streams } => {
                write_streams(writer.u8(9).bytes(rest), *streams);
            }
            Self::LastSteps(rest) => {
                writer.u8(14).bytes(rest);
            }
            Self::Plan(rest) => {
                writer.u8(15).bytes(rest);
            }
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let order = match reader.u8()? {
            1 => Self::Mask(read_masks(&mut reader)?),
            4 => Self::Mapped,
            5 => Self::Seal(read_masks(&mut reader)?),
            8 => Self::Part(reader.bytes()?),
            9 => {
                let rest = reader.bytes()?;
                Self::Command { rest, streams: read_streams(&mut reader)? }
            }
            10 => Self::KeepMasks,
            11 => Self::Init,
            12 => Self::Refresh(reader.u32()? as i32),
            14 => Self::LastSteps(reader.bytes()?),
            15 => Self::Plan(reader.bytes()?),
            17 => Self::MaskNew(read_masks(&mut reader)?),
            value => return Err(DecodeError::Unknown { what: "launch order", value }),
        };
        reader.finish()?;
        Ok(order)
    }
}

fn write_masks(writer: &mut Writer, masks: &[Mask]) {
    writer.u32(masks.len() as u32);
    for mask in masks {
        writer.bytes(&mask.path);
        match &mask.kind {
            MaskKind::Hide => writer.u8(1),
            MaskKind::ReadOnly => writer.u8(2),
            MaskKind::Pin => writer.u8(3),
            MaskKind::Replace(from) => writer.u8(4).bytes(from),
            MaskKind::HideWith(from) => writer.u8(5).bytes(from),
            MaskKind::Close => writer.u8(6),
            MaskKind::Borrow(from) => writer.u8(7).bytes(from),
        };
    }
}

fn read_masks(reader: &mut Reader<'_>) -> Result<Vec<Mask>, DecodeError> {
    let count = reader.u32()?;
    (0..count).map(|_| read_mask(reader)).collect()
}

fn read_mask(reader: &mut Reader<'_>) -> Result<Mask, DecodeError> {
    let path = reader.bytes()?;
    let kind = match reader.u8()? {
        1 => MaskKind::Hide,
        2 => MaskKind::ReadOnly,
        3 => MaskKind::Pin,
        4 => MaskKind::Replace(reader.bytes()?),
        5 => MaskKind::HideWith(reader.bytes()?),
        6 => MaskKind::Close,
        7 => MaskKind::Borrow(reader.bytes()?),
        value => return Err(DecodeError::Unknown { what: "mask", value }),
    };
    Ok(Mask { path, kind })
}
