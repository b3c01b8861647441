//! Content addresses (CIDv1, multiformats): what a task asks for and what an attempt returns are known by the digest of
//! their JSON text, artifacts by the digest of their bytes.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::dag::{Dag, NotDag};
use crate::json::Value;

/// What the bytes of an address stand for (multicodec's table).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    /// Bytes as they are.
    Raw,
    /// A JSON text.
    Json,
    /// A value in DAG-CBOR.
    DagCbor,
}

/// The codes of CIDv1, of SHA-256, and of the length of its digest.
const VERSION: u8 = 0x01;
const SHA2_256: [u8; 2] = [0x12, SHA256_OUTPUT_LEN as u8];
/// Digits of base 32 (RFC 4648) in lower case.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A content address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cid(String);

/// The error for a text that is not the address of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the content address of an artifact, such as bafkrei…")]
pub struct InvalidCid;

/// The error for a text that is not the address of bytes or of a value in DAG-CBOR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a content address, such as bafyrei…")]
pub struct InvalidLink;

impl Cid {
    /// Returns the address of a value's JSON text.
    #[must_use]
    pub fn of_json(value: &Value) -> Self {
        Self::new(Codec::Json, value.to_string().as_bytes())
    }

    /// Returns the address of bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::new(Codec::Raw, bytes)
    }

    /// Returns the address of a value in DAG-CBOR.
    ///
    /// # Errors
    /// Returns an error for a value that DAG-CBOR has no form for.
    pub fn of_dag(value: &Dag<'_>) -> Result<Self, NotDag> {
        Ok(Self::new(Codec::DagCbor, &value.encode()?))
    }

    /// Reads the address of bytes or of a value in DAG-CBOR, in the one form that it has.
    ///
    /// # Errors
    /// Returns an error for any other text.
    pub fn parse_link(text: &str) -> Result<Self, InvalidLink> {
        let cid = Self(text.to_owned());
        let bytes = cid.to_bytes();
        let beginnings = [[VERSION, 0x55], [VERSION, 0x71]];
        let rest = beginnings.iter().find_map(|beginning| bytes.strip_prefix(beginning));
        let digest = rest.and_then(|rest| rest.strip_prefix(&SHA2_256));
        // Bits after the last byte, upper case or another base would make two texts of one address.
        let is_link = digest.is_some_and(|digest| digest.len() == SHA256_OUTPUT_LEN)
            && text == format!("b{}", base32(&bytes));
        if is_link { Ok(cid) } else { Err(InvalidLink) }
    }

    /// Returns the bytes of the address.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 5 / 8);
        let (mut bits, mut count) = (0_u32, 0);
        for letter in self.0.bytes().skip(1) {
            let Some(digit) = DIGITS.iter().position(|digit| *digit == letter) else { break };
            bits = bits << 5 | digit as u32;
            count += 5;
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count & 0xff) as u8);
            }
        }
        bytes
    }

    /// Returns the address as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn new(codec: Codec, bytes: &[u8]) -> Self {
        let codec: &[u8] = match codec {
            Codec::Raw => &[0x55],
            Codec::DagCbor => &[0x71],
            // 0x0200 as a varint.
            Codec::Json => &[0x80, 0x04],
        };
        let digest = digest(&SHA256, bytes);
        let address = [&[VERSION], codec, &SHA2_256, digest.as_ref()].concat();
        Self(format!("b{}", base32(&address)))
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cid {
    type Err = InvalidCid;

    /// Reads the address of bytes: it becomes the name of a file, so nothing else is one.
    fn from_str(text: &str) -> Result<Self, InvalidCid> {
        /// The digits of a version, a codec of one byte and a digest.
        const LENGTH: usize = 58;
        let digits = text.strip_prefix("bafkrei").ok_or(InvalidCid)?;
        let is_address = digits.len() == LENGTH - "afkrei".len()
            && digits.bytes().all(|digit| DIGITS.contains(&digit));
        if is_address { Ok(Self(text.to_owned())) } else { Err(InvalidCid) }
    }
}

fn base32(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            digits.push(char::from(DIGITS[(bits >> count & 31) as usize]));
        }
    }
    if count > 0 {
        digits.push(char::from(DIGITS[(bits << (5 - count) & 31) as usize]));
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::{Cid, InvalidCid, InvalidLink};
    use crate::json::read;

    #[test]
    fn addresses_of_json_are_those_of_the_original() {
        for (text, address) in [
            ("{}", "bagaaieraiqjw7i2vwntyuekgvulpp2det2kpwt6cd7tx5ayqybqpmhfk76fa"),
            (
                r#"{"summary":"done"}"#,
                "bagaaierafjymhddg35tn3j32ydr35yeo25jileuythaey4hha3zr26fxogpq",
            ),
            (
                r#"{ "b": 1.0, "a": [1, 2.5, "\u00e9"], "n": null }"#,
                "bagaaierauzagfswzs5uqct2yjpr3fd5fo6cpvcag34zcm2rm7767etacoyra",
            ),
            (
                r#"{"a":[1,2.5,"é"],"b":1,"n":null}"#,
                "bagaaieratkmz32iejffqcr4ruwf5qsuagvcqlmmxsb2ehf6wtb4krq62j4la",
            ),
        ] {
            assert_eq!(Cid::of_json(&read(text).unwrap()).as_str(), address, "{text}");
        }
    }

    #[test]
    fn address_of_bytes_is_that_of_the_original_and_is_read_back() {
        let cid = Cid::of_bytes(b"hello\n");
        assert_eq!(cid.as_str(), "bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am");
        assert_eq!(cid.as_str().parse(), Ok(cid));
    }

    #[test]
    fn text_that_is_not_an_address_is_refused() {
        let address = "bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am";
        for wrong in [
            String::new(),
            address.to_uppercase(),
            format!("{address}a"),
            address.replacen("cys", "../", 1),
            "bagaaieraiqjw7i2vwntyuekgvulpp2det2kpwt6cd7tx5ayqybqpmhfk76fa".to_owned(),
        ] {
            assert_eq!(wrong.parse::<Cid>(), Err(InvalidCid), "{wrong}");
        }
    }

    #[test]
    fn link_has_one_form() {
        let address = "bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am";
        assert_eq!(Cid::parse_link(address).unwrap().to_bytes().len(), 36);
        for wrong in [
            "b".to_owned(),
            address.to_uppercase(),
            // Bits behind the digest.
            format!("{}n", &address[..58]),
            format!("{address}a"),
            address.replacen("bafkrei", "bagaaie", 1),
        ] {
            assert_eq!(Cid::parse_link(&wrong), Err(InvalidLink), "{wrong}");
        }
    }
}
