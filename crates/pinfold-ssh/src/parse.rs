//! The data types of SSH (RFC 4251, section 5).

use crate::SshError;

/// Reads fields of a message, one after the other.
pub(crate) struct Fields<'a>(&'a [u8]);

const CUT: SshError = SshError::Malformed("a message that is cut short");

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], SshError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, SshError> {
        self.take(1)?.first().copied().ok_or(CUT)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, SshError> {
        Ok(self.byte()? != 0)
    }

    pub(crate) fn number(&mut self) -> Result<u32, SshError> {
        let bytes = self.take(4)?.first_chunk().ok_or(CUT)?;
        Ok(u32::from_be_bytes(*bytes))
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], SshError> {
        let length = self.number()? as usize;
        self.take(length)
    }

    /// Reads a list of names; one that is not ASCII is malformed.
    pub(crate) fn names(&mut self) -> Result<Vec<&'a str>, SshError> {
        let list = str::from_utf8(self.string()?);
        let list = list.map_err(|_| SshError::Malformed("a list of names that is not text"))?;
        Ok(list.split(',').collect())
    }
}

/// Writes fields of a message.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    /// Begins a message of a kind.
    pub(crate) fn of(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(crate) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.byte(u8::from(flag))
    }

    pub(crate) fn number(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn string(mut self, bytes: &[u8]) -> Self {
        // Nothing that is written here is longer.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(bytes);
        self
    }

    /// Writes an unsigned number of many bytes as `mpint`: without zeros in front, and with one where it would
    /// look negative.
    pub(crate) fn large(self, bytes: &[u8]) -> Self {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let mut number = bytes[zeros..].to_vec();
        if number.first().is_some_and(|first| first & 0x80 != 0) {
            number.insert(0, 0);
        }
        self.string(&number)
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_those_of_the_rfc() {
        // The examples of RFC 4251, section 5.
        assert_eq!(Message::default().large(&[0]).0, [0, 0, 0, 0]);
        let number = [0x09, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7];
        assert_eq!(Message::default().large(&number).0[..4], [0, 0, 0, 8]);
        assert_eq!(Message::default().large(&[0x80]).0, [0, 0, 0, 2, 0, 0x80]);
    }

    #[test]
    fn what_is_cut_short_is_no_field() {
        for bytes in [&b""[..], b"\0\0\0", b"\0\0\0\x05abcd", b"\xff\xff\xff\xffabc"] {
            assert!(Fields::new(bytes).string().is_err(), "{bytes:?}");
        }
        assert!(Fields::new(b"\0\0\0\x01\xff").names().is_err());
    }
}
