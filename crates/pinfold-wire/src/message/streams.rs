//! What the standard streams of something that is run are, and its terminal.

use rustix::termios::{
    ControlModes, InputModes, LocalModes, OutputModes, SpecialCodeIndex, Termios,
};

use crate::codec::{DecodeError, Reader, Writer};

/// What one of the command's standard streams is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The sandbox's own terminal.
    Terminal,
    /// The next of the descriptors that come along.
    Descriptor,
    /// The same as an earlier stream.
    Same(u8),
}

/// Rows and columns of a terminal.
pub type Window = (u16, u16);

/// The command's standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Input, output and error output.
    pub ends: [StreamEnd; 3],
    /// How large the terminal is, if one of the ends is a terminal.
    pub window: Option<Window>,
    /// What the terminal is set to at first; else to what is usual.
    pub attributes: Option<Attributes>,
    /// Whether one more descriptor comes along, a socket through which the terminal is used
    /// ([`super::LineIn`]): nothing that is made inside can leave it.
    pub is_relayed: bool,
    /// Whether one more descriptor comes along, which the program has as number [`FURTHER`].
    pub has_further: bool,
}

/// The number of a descriptor that a program has besides its standard streams. Nothing that init has open is as high.
pub const FURTHER: i32 = 100;
/// Bits of what comes along besides the ends.
const RELAYED: u8 = 1;
const WITH_FURTHER: u8 = 2;

impl Streams {
    /// Streams without a terminal.
    #[must_use]
    pub fn plain(ends: [StreamEnd; 3]) -> Self {
        Self { ends, window: None, attributes: None, is_relayed: false, has_further: false }
    }

    /// Returns a terminal for all three.
    #[must_use]
    pub fn terminal(window: Window) -> Self {
        Self { window: Some(window), ..Self::plain([StreamEnd::Terminal; 3]) }
    }

    /// Returns whether one of them is a terminal.
    #[must_use]
    pub fn wants_terminal(&self) -> bool {
        self.ends.contains(&StreamEnd::Terminal)
    }
}

/// What a terminal does with what is typed and shown (termios(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Of input, output, control and local processing.
    flags: [u32; 4],
    characters: [u8; CHARACTERS.len()],
}

/// Those that Linux has, in the order in which they cross.
const CHARACTERS: [SpecialCodeIndex; 17] = [
    SpecialCodeIndex::VINTR,
    SpecialCodeIndex::VQUIT,
    SpecialCodeIndex::VERASE,
    SpecialCodeIndex::VKILL,
    SpecialCodeIndex::VEOF,
    SpecialCodeIndex::VTIME,
    SpecialCodeIndex::VMIN,
    SpecialCodeIndex::VSWTC,
    SpecialCodeIndex::VSTART,
    SpecialCodeIndex::VSTOP,
    SpecialCodeIndex::VSUSP,
    SpecialCodeIndex::VEOL,
    SpecialCodeIndex::VREPRINT,
    SpecialCodeIndex::VDISCARD,
    SpecialCodeIndex::VWERASE,
    SpecialCodeIndex::VLNEXT,
    SpecialCodeIndex::VEOL2,
];

impl Attributes {
    /// Returns those of a terminal.
    #[must_use]
    pub fn of(terminal: &Termios) -> Self {
        Self {
            flags: [
                terminal.input_modes.bits(),
                terminal.output_modes.bits(),
                terminal.control_modes.bits(),
                terminal.local_modes.bits(),
            ],
            characters: CHARACTERS.map(|which| terminal.special_codes[which]),
        }
    }

    /// Sets a terminal to these.
    pub fn apply(&self, terminal: &mut Termios) {
        let [input, output, control, local] = self.flags;
        terminal.input_modes = InputModes::from_bits_retain(input);
        terminal.output_modes = OutputModes::from_bits_retain(output);
        terminal.control_modes = ControlModes::from_bits_retain(control);
        terminal.local_modes = LocalModes::from_bits_retain(local);
        for (which, character) in CHARACTERS.into_iter().zip(self.characters) {
            terminal.special_codes[which] = character;
        }
    }
}

pub(super) fn write_streams(writer: &mut Writer, streams: Streams) {
    for end in streams.ends {
        match end {
            StreamEnd::Terminal => writer.u8(1),
            StreamEnd::Descriptor => writer.u8(2),
            StreamEnd::Same(earlier) => writer.u8(3).u8(earlier),
        };
    }
    write_window(writer, streams.window);
    writer.u8(streams.attributes.is_some().into());
    if let Some(Attributes { flags, characters }) = streams.attributes {
        for flag in flags {
            writer.u32(flag);
        }
        for character in characters {
            writer.u8(character);
        }
    }
    let bit = |is_there: bool, bit: u8| if is_there { bit } else { 0 };
    writer.u8(bit(streams.is_relayed, RELAYED) | bit(streams.has_further, WITH_FURTHER));
}

pub(super) fn read_streams(reader: &mut Reader<'_>) -> Result<Streams, DecodeError> {
    let mut ends = [StreamEnd::Descriptor; 3];
    for end in &mut ends {
        *end = match reader.u8()? {
            1 => StreamEnd::Terminal,
            2 => StreamEnd::Descriptor,
            3 => StreamEnd::Same(reader.u8()?),
            value => return Err(DecodeError::Unknown { what: "stream", value }),
        };
    }
    let window = read_window(reader)?;
    let attributes = match reader.u8()? {
        0 => None,
        _ => Some(read_attributes(reader)?),
    };
    let along = reader.u8()?;
    let (is_relayed, has_further) = (along & RELAYED != 0, along & WITH_FURTHER != 0);
    Ok(Streams { ends, window, attributes, is_relayed, has_further })
}

fn read_attributes(reader: &mut Reader<'_>) -> Result<Attributes, DecodeError> {
    let mut attributes = Attributes { flags: [0; 4], characters: [0; CHARACTERS.len()] };
    for flag in &mut attributes.flags {
        *flag = reader.u32()?;
    }
    for character in &mut attributes.characters {
        *character = reader.u8()?;
    }
    Ok(attributes)
}

pub(super) fn write_window(writer: &mut Writer, window: Option<Window>) {
    match window {
        None => writer.u8(0),
        Some((rows, columns)) => writer.u8(1).u32(rows.into()).u32(columns.into()),
    };
}

pub(super) fn read_window(reader: &mut Reader<'_>) -> Result<Option<Window>, DecodeError> {
    let side = |length: u32| u16::try_from(length).map_err(|_| DecodeError::TooMuch("window"));
    Ok(match reader.u8()? {
        0 => None,
        _ => Some((side(reader.u32()?)?, side(reader.u32()?)?)),
    })
}
