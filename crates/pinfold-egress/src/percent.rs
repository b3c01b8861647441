//! Percent encoding (RFC 3986, 2.1).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text as one segment of a path, or a name or value of a query or form.
#[must_use]
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes what is encoded of a text. What is not UTF-8 then is replaced by U+FFFD.
#[must_use]
pub fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{decoded, encoded};

    #[test]
    fn unreserved_characters_alone_stay() {
        assert_eq!(encoded("a b&c=é+/~-._"), "a%20b%26c%3D%C3%A9%2B%2F~-._");
    }

    #[test]
    fn what_is_no_encoding_stays() {
        assert_eq!(decoded("%41%2f%2F%zz%4"), "A//%zz%4");
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }
}
