//! The data types of SSH (RFC 4251, section 5), read without copying, and written.

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Fields that are read one after the other.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes so many bytes as they are.
    ///
    /// # Errors
    /// Returns an error if there are not so many.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a `byte`.
    ///
    /// # Errors
    /// Returns an error at the end.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1)?.first().copied().ok_or(Malformed)
    }

    /// Takes a `boolean`.
    ///
    /// # Errors
    /// Returns an error at the end.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.byte()? != 0)
    }

    /// Takes a `uint32`.
    ///
    /// # Errors
    /// Returns an error if it is cut short.
    pub fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.first_chunk().ok_or(Malformed)?;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// Takes a `string`.
    ///
    /// # Errors
    /// Returns an error if it is cut short.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    /// Takes a `string` that holds text.
    ///
    /// # Errors
    /// Returns an error if it is cut short, or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.string()?).map_err(|_| Malformed)
    }

    /// Takes a `name-list`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::text`].
    pub fn names(&mut self) -> Result<Vec<&'a str>, Malformed> {
        Ok(self.text()?.split(',').collect())
    }

    /// Takes an `mpint` that is not negative, without leading zeros.
    ///
    /// # Errors
    /// Returns an error if it is cut short, or negative.
    pub fn natural(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|first| *first >= 0x80) {
            return Err(Malformed);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok(&bytes[zeros..])
    }

    /// Returns what is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// Returns an error if something is.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends a `string`. All strings here are short: at most a message of 256 KiB.
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends an `mpint` that is not negative: without zeros in front, and with one where it would look negative.
pub fn put_natural(out: &mut Vec<u8>, bytes: &[u8]) {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        put_string(out, &[&[0], bytes].concat());
    } else {
        put_string(out, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_those_of_the_rfc() {
        let put = |bytes: &[u8]| {
            let mut out = Vec::new();
            put_natural(&mut out, bytes);
            out
        };
        // The examples of RFC 4251, section 5.
        assert_eq!(put(&[0]), [0, 0, 0, 0]);
        let number = [0x09, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7];
        assert_eq!(put(&number)[..4], [0, 0, 0, 8]);
        assert_eq!(put(&[0x80]), [0, 0, 0, 2, 0, 0x80]);
        assert_eq!(Fields::new(&put(&[0, 0x80])).natural(), Ok(&[0x80][..]));
        assert_eq!(Fields::new(b"\0\0\0\x01\x80").natural(), Err(Malformed), "it is negative");
    }

    #[test]
    fn what_is_cut_short_is_no_field() {
        for bytes in [&b""[..], b"\0\0\0", b"\0\0\0\x05abcd", b"\xff\xff\xff\xffabc"] {
            assert!(Fields::new(bytes).string().is_err(), "{bytes:?}");
        }
        assert!(Fields::new(b"\0\0\0\x01\xff").names().is_err());
        assert!(Fields::new(b"x").end().is_err());
    }
}
