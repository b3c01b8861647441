//! Arguments as a user sees them: exactly, and such that nothing looks like something else.

use std::fmt::{self, Write as _};

use pinfold_policy::path::is_plain;

/// Returns a command as a line that a shell reads as the same words. What a terminal would not show as
/// it is, is escaped (`$'…'`): control characters, bytes that are not UTF-8, and characters that reorder
/// a line or cannot be seen.
#[must_use]
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    words.join(" ")
}

/// Returns one word of it.
#[must_use]
pub fn word(bytes: &[u8]) -> String {
    let is_bare = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=@%,:~^".contains(byte);
    if !bytes.is_empty() && !bytes.starts_with(b"~") && bytes.iter().all(is_bare) {
        return bytes.iter().map(|byte| char::from(*byte)).collect();
    }
    match str::from_utf8(bytes) {
        Ok(text) if text.chars().all(is_visible) => format!("'{}'", text.replace('\'', "'\\''")),
        _ => format!("$'{}'", Line(bytes, Quoted::Yes)),
    }
}

/// Returns text of somebody else's as one line, escaped where a terminal would not show it as it is.
#[must_use]
pub fn line(bytes: &[u8]) -> String {
    Line(bytes, Quoted::No).to_string()
}

/// Returns whether a character is seen where it stands, and looks the same on every terminal: fonts draw
/// what they like for private use.
fn is_visible(character: char) -> bool {
    is_plain(character) && !('\u{e000}'..='\u{f8ff}').contains(&character)
}

/// Whether quotes and backslashes have to be distinguished from those of the line around.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Yes,
    No,
}

struct Line<'a>(&'a [u8], Quoted);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '\'' if self.1 == Quoted::Yes => f.write_str("\\'")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    '\x1b' => f.write_str("\\e")?,
                    seen if is_visible(seen) => f.write_char(seen)?,
                    other if other.is_ascii() => write!(f, "\\x{:02x}", other as u32)?,
                    other if (other as u32) < 0x1_0000 => write!(f, "\\u{:04x}", other as u32)?,
                    other => write!(f, "\\U{:08x}", other as u32)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_shown_as_a_shell_would_read_it() {
        for (bytes, shown) in [
            (&b"push"[..], "push"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "'it'\\''s'"),
            (b"--title=x;id", "'--title=x;id'"),
            (b"~/x", "'~/x'"),
            (b"a\nb", "$'a\\nb'"),
            (b"\x1b[2J", "$'\\e[2J'"),
            (b"it's\n", "$'it\\'s\\n'"),
            (b"\xff\\", "$'\\xff\\\\'"),
            ("ma\u{202e}in".as_bytes(), "$'ma\\u202ein'"),
            ("ma\u{200b}in".as_bytes(), "$'ma\\u200bin'"),
            ("x\u{e0041}".as_bytes(), "$'x\\U000e0041'"),
            ("größe".as_bytes(), "'größe'"),
            ("a\u{a0}b".as_bytes(), "$'a\\u00a0b'"),
        ] {
            assert_eq!(word(bytes), shown);
        }
    }

    #[test]
    fn a_line_is_one_line_and_drives_no_terminal() {
        assert_eq!(line(b"a\r\nb\x07 it's"), "a\\r\\nb\\x07 it's");
        assert_eq!(command_line([&b"git"[..], b"push", b"a b"]), "git push 'a b'");
    }
}
