//! Names of regions and projects of clouds.

use std::fmt;
use std::str::FromStr;

/// Longest label of a host name (RFC 1123, 2.1).
const LONGEST_NAME: usize = 63;

/// The name of a region or project of a cloud: lower-case letters, digits and hyphens, because it becomes
/// a part of host names and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudName(String);

/// Why a text is no [`CloudName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected at most {LONGEST_NAME} lower-case letters, digits and hyphens")]
pub struct InvalidCloudName;

impl CloudName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CloudName {
    type Err = InvalidCloudName;

    fn from_str(text: &str) -> Result<Self, InvalidCloudName> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let is_name = bytes.len() <= LONGEST_NAME
            && bytes.first().is_some_and(|&byte| is_plain(byte))
            && bytes.iter().all(|&byte| is_plain(byte) || byte == b'-');
        if is_name { Ok(Self(text.to_owned())) } else { Err(InvalidCloudName) }
    }
}

impl fmt::Display for CloudName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_a_label_of_a_host() {
        assert_eq!("eu-west-1".parse::<CloudName>().unwrap().as_str(), "eu-west-1");
        for text in ["", "a.b", "a/b", "a@b", "A", "-a", "a:1", "a#", &"a".repeat(64)] {
            assert_eq!(text.parse::<CloudName>(), Err(InvalidCloudName), "{text}");
        }
    }
}
