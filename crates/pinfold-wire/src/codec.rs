//! Bytes in, bytes out: little-endian integers and length-prefixed byte strings.

use thiserror::Error;

/// The largest message in bytes. A sender splits what is longer.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Why a received message cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The message ends in the middle of a value.
    #[error("message is cut short")]
    CutShort,
    /// Bytes follow the last value.
    #[error("message has {0} bytes too many")]
    TrailingBytes(usize),
    /// More of something than a sender sends.
    #[error("too much of {0}")]
    TooMuch(&'static str),
    /// A tag has no meaning.
    #[error("unknown {what} {value}")]
    Unknown {
        /// What kind of tag it is.
        what: &'static str,
        /// The value found.
        value: u8,
    },
}

/// Appends values to a message.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Appends a byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Appends an integer.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends an integer.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends an integer.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a byte string, which is to be shorter than 4 GiB.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value);
        self
    }

    /// Returns the message.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Takes values off a message.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the beginning of a message.
    #[must_use]
    pub fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(DecodeError::CutShort)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| DecodeError::CutShort)
    }

    /// Takes a byte.
    ///
    /// # Errors
    /// Returns an error if the message ends before.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes an integer.
    ///
    /// # Errors
    /// Returns an error if the message ends before.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Takes an integer.
    ///
    /// # Errors
    /// Returns an error if the message ends before.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Takes an integer.
    ///
    /// # Errors
    /// Returns an error if the message ends before.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes a byte string.
    ///
    /// # Errors
    /// Returns an error if the message ends before.
    pub fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let length = self.u32()? as usize;
        Ok(self.take(length)?.to_vec())
    }

    /// Sees that nothing is left.
    ///
    /// # Errors
    /// Returns an error if something is left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.0.len() {
            0 => Ok(()),
            extra => Err(DecodeError::TrailingBytes(extra)),
        }
    }
}
