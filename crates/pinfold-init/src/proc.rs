//! Text of the kernel's, which has names in it that anybody chose.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// The machine's own /proc/meminfo, in a session that sees its limit as the machine's memory.
pub const HOST_MEMINFO: &str = "/run/pinfold/host-meminfo";

/// Reads a file of proc(5) or of control groups. Names in it need not be UTF-8: a process's is cut
/// after 15 bytes, wherever that is. Such bytes are escaped.
///
/// # Errors
/// Returns the error of `open(2)` or `read(2)`.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    std::fs::read(path).map(text)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut text = String::new();
        for chunk in error.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                // Writing to a string does not fail.
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn bytes_that_are_not_utf_8_hide_none_of_the_lines() {
        let status = b"Name:\ta-\xe3\x83\xa1\xe3\x82\nRssAnon:\t12 kB\n".to_vec();
        assert_eq!(text(status), "Name:\ta-メ\\xe3\\x82\nRssAnon:\t12 kB\n");
        assert_ne!(text(vec![0xff]), text(vec![0xfe]), "different bytes stay different");
    }
}
