//! Values in DAG-CBOR: the one form of CBOR (RFC 8949) that content addresses are over, as JavaScript programs write it
//! (specification DAG-CBOR, package `@ipld/dag-cbor`).

use crate::cid::Cid;
use crate::json::{Text, Value};

/// A value with links in it.
#[derive(Debug)]
pub enum Dag<'a> {
    /// A JSON value.
    Json(&'a Value),
    Text(&'a str),
    Count(u64),
    /// A content address.
    Link(&'a Cid),
    List(Vec<Self>),
    /// An object. Its keys may come in any order, each once.
    Map(Vec<(&'a str, Self)>),
}

/// The error for a JSON value that has no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDag {
    /// It is too large for a 64-bit float.
    #[error("a number is too large")]
    Infinite,
    /// A part of a character (a lone surrogate). Written as U+FFFD, different texts would have one address.
    #[error("a text holds a part of a character")]
    HalfCharacter,
}

/// Major types of CBOR (RFC 8949, section 3.1), in the upper three bits.
const UNSIGNED: u8 = 0 << 5;
const NEGATIVE: u8 = 1 << 5;
const BYTES: u8 = 2 << 5;
const TEXT: u8 = 3 << 5;
const ARRAY: u8 = 4 << 5;
const MAP: u8 = 5 << 5;
const TAG: u8 = 6 << 5;
const SIMPLE: u8 = 7 << 5;
/// The tag of a link.
const LINK: u64 = 42;

impl Dag<'_> {
    /// Returns the bytes.
    ///
    /// # Errors
    /// Returns an error for a value that has no form.
    pub fn encode(&self) -> Result<Vec<u8>, NotDag> {
        let mut out = Vec::new();
        self.encode_to(&mut out)?;
        Ok(out)
    }

    fn encode_to(&self, out: &mut Vec<u8>) -> Result<(), NotDag> {
        match self {
            Self::Json(value) => json(value, out)?,
            Self::Text(text) => string(text, out),
            Self::Count(count) => head(UNSIGNED, *count, out),
            Self::Link(cid) => {
                let bytes = cid.to_bytes();
                head(TAG, LINK, out);
                // A zero says that the address is in binary.
                head(BYTES, bytes.len() as u64 + 1, out);
                out.push(0);
                out.extend_from_slice(&bytes);
            }
            Self::List(items) => {
                head(ARRAY, items.len() as u64, out);
                items.iter().try_for_each(|item| item.encode_to(out))?;
            }
            Self::Map(members) => {
                let members =
                    members.iter().map(|(key, value)| Ok(((*key).to_owned(), value.encode()?)));
                map(members.collect::<Result<_, NotDag>>()?, out);
            }
        }
        Ok(())
    }
}

fn json(value: &Value, out: &mut Vec<u8>) -> Result<(), NotDag> {
    match value {
        Value::Null => out.push(SIMPLE | 22),
        Value::Bool(false) => out.push(SIMPLE | 20),
        Value::Bool(true) => out.push(SIMPLE | 21),
        Value::Number(value) => number(*value, out)?,
        Value::Text(text) => string(&whole(text)?, out),
        Value::Array(items) => {
            head(ARRAY, items.len() as u64, out);
            items.iter().try_for_each(|item| json(item, out))?;
        }
        Value::Object(object) => {
            let members = object.members().map(|(key, value)| {
                let mut encoded = Vec::new();
                json(value, &mut encoded)?;
                Ok((whole(key)?, encoded))
            });
            map(members.collect::<Result<_, NotDag>>()?, out);
        }
    }
    Ok(())
}

fn whole(text: &Text) -> Result<String, NotDag> {
    let shown = text.to_str().into_owned();
    if Text::new(&shown) == *text { Ok(shown) } else { Err(NotDag::HalfCharacter) }
}

/// Writes a number: an integer if JavaScript can rely on it, else a 64-bit float.
fn number(value: f64, out: &mut Vec<u8>) -> Result<(), NotDag> {
    /// `Number.MAX_SAFE_INTEGER`
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !value.is_finite() {
        return Err(NotDag::Infinite);
    }
    if value.fract() != 0.0 || value.abs() > LARGEST {
        out.push(SIMPLE | 27);
        out.extend_from_slice(&value.to_be_bytes());
    } else if value < 0.0 {
        head(NEGATIVE, (-1.0 - value) as u64, out);
    } else {
        head(UNSIGNED, value as u64, out);
    }
    Ok(())
}

fn string(text: &str, out: &mut Vec<u8>) {
    head(TEXT, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Writes members by the lengths of their keys, those of one length byte by byte.
fn map(mut members: Vec<(String, Vec<u8>)>, out: &mut Vec<u8>) {
    members.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
    head(MAP, members.len() as u64, out);
    for (key, value) in members {
        string(&key, out);
        out.extend_from_slice(&value);
    }
}

/// Writes a type and its argument in the fewest bytes.
fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let bytes = argument.to_be_bytes();
    match argument {
        0..=23 => out.push(major | bytes[7]),
        24..=0xff => out.extend([major | 24, bytes[7]]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dag, NotDag};
    use crate::json::read;

    fn of(text: &str) -> Result<String, NotDag> {
        let bytes = Dag::Json(&read(text).unwrap()).encode()?;
        Ok(data_encoding::HEXLOWER.encode(&bytes))
    }

    /// Examples of RFC 8949, appendix A, where DAG-CBOR has the same form.
    #[test]
    fn values_have_the_forms_of_the_rfc() {
        for (text, bytes) in [
            ("0", "00"),
            ("-0", "00"),
            ("23", "17"),
            ("24", "1818"),
            ("100", "1864"),
            ("1000", "1903e8"),
            ("1000000", "1a000f4240"),
            ("1000000000000", "1b000000e8d4a51000"),
            ("-1", "20"),
            ("-1000", "3903e7"),
            ("1.1", "fb3ff199999999999a"),
            ("1.0e+300", "fb7e37e43c8800759c"),
            // Shorter floats are not used, and integers only as far as JavaScript has them.
            ("1.5", "fb3ff8000000000000"),
            ("9007199254740991", "1b001fffffffffffff"),
            ("9007199254740992", "fb4340000000000000"),
            ("null", "f6"),
            ("[true,false]", "82f5f4"),
            ("\"\u{fc}\"", "62c3bc"),
            ("{\"bb\":1,\"c\":2,\"a\":3}", "a361610361630262626201"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn different_values_with_one_form_are_refused() {
        // Both keys would be U+FFFD.
        assert_eq!(of(r#"{"\ud800":1,"\ud801":1}"#), Err(NotDag::HalfCharacter));
        assert_eq!(of(r#"["\udc00"]"#), Err(NotDag::HalfCharacter));
        assert_eq!(of("1e999"), Err(NotDag::Infinite));
        // A character beyond the first plane is whole.
        assert_eq!(of(r#""\ud83d\ude00""#).as_deref(), Ok("64f09f9880"));
    }

    #[test]
    fn order_of_keys_does_not_matter_and_their_length_comes_first() {
        let one = of(r#"{"aa":1,"b":{"y":1,"x":2}}"#).unwrap();
        assert_eq!(one, of(r#"{"b":{"x":2,"y":1},"aa":1}"#).unwrap());
        assert!(one.starts_with("a26162"), "{one}");
    }
}
