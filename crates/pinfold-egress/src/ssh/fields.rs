//! The data types of SSH (RFC 4251, section 5), read without copying.

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Fields that are read one after the other.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes so many bytes as they are.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a `byte`.
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// Takes a `boolean`.
    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.byte()? != 0)
    }

    /// Takes a `uint32`.
    pub(super) fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Takes a `string`.
    pub(super) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    /// Takes a `string` that holds text.
    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.string()?).map_err(|_| Malformed)
    }

    /// Takes an `mpint` that is not negative, without leading zeros.
    pub(super) fn natural(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|first| *first >= 0x80) {
            return Err(Malformed);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok(&bytes[zeros..])
    }

    /// Returns what is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Checks that nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends a `string`. All strings here are short: at most a message of 256 KiB.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends an `mpint` that is not negative.
pub(super) fn put_natural(out: &mut Vec<u8>, bytes: &[u8]) {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        out.extend_from_slice(&(bytes.len() as u32 + 1).to_be_bytes());
        out.push(0);
        out.extend_from_slice(bytes);
    } else {
        put_string(out, bytes);
    }
}
