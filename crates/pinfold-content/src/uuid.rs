//! UUIDs (RFC 9562).

use std::fmt;
use std::io;
use std::ops::Range;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rustix::rand::{GetRandomFlags, getrandom};

/// A UUID of any version. It is shown in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// The error for a text that is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a UUID, such as 4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11")]
pub struct InvalidUuid;

impl Uuid {
    /// Returns a new one, of version 4.
    ///
    /// # Errors
    /// Returns the error of `getrandom(2)`.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0_u8; 16];
        let count = getrandom(&mut bytes, GetRandomFlags::empty())?;
        // Up to 256 bytes come at once (getrandom(2)).
        if count == bytes.len() {
            Ok(Self::from_random(bytes))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Returns the UUID of version 4 that has these random bits.
    #[must_use]
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        // RFC 9562, section 5.4: six bits say which version and variant this is.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = HEXLOWER.encode(&self.0);
        let group = |range: Range<usize>| &digits[range];
        write!(
            f,
            "{}-{}-{}-{}-{}",
            group(0..8),
            group(8..12),
            group(12..16),
            group(16..20),
            group(20..32)
        )
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = InvalidUuid;

    /// Reads one in either case, as RFC 9562 has it.
    fn from_str(text: &str) -> Result<Self, InvalidUuid> {
        let groups: Vec<&str> = text.split('-').collect();
        if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
            return Err(InvalidUuid);
        }
        let bytes = HEXLOWER_PERMISSIVE.decode(groups.concat().as_bytes());
        bytes.ok().and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(InvalidUuid)
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidUuid, Uuid};

    #[test]
    fn uuid_is_read_as_it_is_shown_and_in_upper_case() {
        let id = Uuid::from_random([0xff; 16]);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        assert_ne!(Uuid::generate().unwrap(), Uuid::generate().unwrap());
    }

    #[test]
    fn text_that_is_not_a_uuid_is_refused() {
        let id = "4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11";
        assert!(id.parse::<Uuid>().is_ok());
        let wrong = [
            String::new(),
            id.replace('-', ""),
            format!("{id}-"),
            format!("{id} "),
            id.replace('4', "ä"),
            id.replacen("4f9c", "+f9c", 1),
            id.replacen("4f9c9c0e-8d0b", "4f9c9c0-e8d0b", 1),
        ];
        for text in wrong {
            assert_eq!(text.parse::<Uuid>(), Err(InvalidUuid), "{text}");
        }
    }
}
