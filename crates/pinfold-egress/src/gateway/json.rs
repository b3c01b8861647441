//! JSON bodies read strictly, and rewritten in the one form that every server reads alike.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use memchr::memchr2;

use super::request::{Request, Role};

/// Levels of objects and arrays within each other. `serde_json` reads no more either.
const DEEPEST: usize = 128;

/// Keys of the objects that are open at one place, together.
const MOST_KEYS: usize = 128 * 1024;

/// Why a body is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Invalid {
    #[error("its body is not a JSON object in UTF-8 (see byte {0})")]
    Json(usize),
    #[error("its body has an invalid escape or half a surrogate pair in a text (byte {0})")]
    Escape(usize),
    #[error("its body has an object with the same key twice (before byte {0})")]
    Twice(usize),
    #[error("its body is nested more than {DEEPEST} levels deep")]
    Deep,
    #[error("its body has more than {MOST_KEYS} keys in open objects")]
    Keys,
}

/// Reads a body and rewrites it in its own place: blanks go, escapes are written only where JSON
/// needs one, numbers and the order of keys stay as they are. What is found is what every server
/// finds in the text that is left.
///
/// # Errors
/// Returns [`Invalid`]. The text is of no use then.
pub(super) fn rewrite(text: &mut Vec<u8>) -> Result<Request, Invalid> {
    if let Err(error) = std::str::from_utf8(text) {
        return Err(Invalid::Json(error.valid_up_to()));
    }
    let hasher = RandomState::new();
    let (levels, keys, request) = (Vec::new(), Vec::new(), Request::default());
    let mut reader = Reader { text, read: 0, write: 0, levels, keys, hasher, request };
    reader.object()?;
    let (length, request) = (reader.write, reader.request);
    text.truncate(length);
    Ok(request)
}

/// What may come next.
#[derive(Clone, Copy)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

/// An object or array that is open.
struct Level {
    is_object: bool,
    role: Role,
    /// Where its keys begin in the list of all.
    keys: usize,
}

struct Reader<'t> {
    text: &'t mut [u8],
    read: usize,
    /// Never behind `read`, because no form that is written is longer than what was read for it.
    write: usize,
    levels: Vec<Level>,
    /// Hashes of the keys of all open objects.
    keys: Vec<u64>,
    hasher: RandomState,
    request: Request,
}

impl Reader<'_> {
    fn object(&mut self) -> Result<(), Invalid> {
        if self.token()? != b'{' {
            return Err(Invalid::Json(self.read));
        }
        self.open(b'{', Role::Body)?;
        let (mut next, mut role) = (Next::KeyOrEnd, Role::Plain);
        while let Some(level) = self.levels.last() {
            let (is_object, within) = (level.is_object, level.role);
            let byte = self.token()?;
            next = match (next, byte) {
                (Next::Key | Next::KeyOrEnd, b'"') => {
                    role = self.key(within)?;
                    Next::Value
                }
                (Next::CommaOrEnd, b',') => {
                    self.put(byte);
                    role = within.of_items();
                    if is_object { Next::Key } else { Next::Value }
                }
                (Next::KeyOrEnd, b'}') | (Next::ValueOrEnd, b']') => self.close(byte)?,
                (Next::CommaOrEnd, b'}') if is_object => self.close(byte)?,
                (Next::CommaOrEnd, b']') if !is_object => self.close(byte)?,
                (Next::Value | Next::ValueOrEnd, b'{') => {
                    self.open(byte, role)?;
                    Next::KeyOrEnd
                }
                (Next::Value | Next::ValueOrEnd, b'[') => {
                    role = self.open(byte, role)?.of_items();
                    Next::ValueOrEnd
                }
                (Next::Value | Next::ValueOrEnd, _) => self.scalar(byte, role)?,
                _ => return Err(Invalid::Json(self.read)),
            };
        }
        let rest = &self.text[self.read..];
        let end = rest.iter().position(|byte| !is_blank(*byte));
        end.map_or(Ok(()), |at| Err(Invalid::Json(self.read + at)))
    }

    /// Returns the first byte of the next token, which is not taken yet.
    fn token(&mut self) -> Result<u8, Invalid> {
        while let Some(byte) = self.text.get(self.read) {
            if !is_blank(*byte) {
                return Ok(*byte);
            }
            self.read += 1;
        }
        Err(Invalid::Json(self.read))
    }

    /// Takes a byte and writes it.
    fn put(&mut self, byte: u8) {
        self.read += 1;
        self.push(byte);
    }

    fn push(&mut self, byte: u8) {
        self.text[self.write] = byte;
        self.write += 1;
    }

    /// Takes bytes and writes them.
    fn put_all(&mut self, count: usize) {
        if count > 0 && self.read != self.write {
            self.text.copy_within(self.read..self.read + count, self.write);
        }
        self.read += count;
        self.write += count;
    }

    fn open(&mut self, byte: u8, role: Role) -> Result<Role, Invalid> {
        if self.levels.len() == DEEPEST {
            return Err(Invalid::Deep);
        }
        let is_object = byte == b'{';
        let role = self.request.opened(role, is_object);
        self.levels.push(Level { is_object, role, keys: self.keys.len() });
        self.put(byte);
        Ok(role)
    }

    fn close(&mut self, byte: u8) -> Result<Next, Invalid> {
        self.put(byte);
        if let Some(level) = self.levels.pop() {
            let keys = &mut self.keys[level.keys..];
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(Invalid::Twice(self.read));
            }
            self.keys.truncate(level.keys);
        }
        Ok(Next::CommaOrEnd)
    }

    /// Reads a key and its colon; gives the role of its value.
    fn key(&mut self, within: Role) -> Result<Role, Invalid> {
        let range = self.string()?;
        let key = decoded(&self.text[range], self.read)?;
        if self.keys.len() == MOST_KEYS {
            return Err(Invalid::Keys);
        }
        self.keys.push(self.hasher.hash_one(key.as_ref()));
        let role = self.request.key(within, &key).ok_or(Invalid::Twice(self.read))?;
        if self.token()? != b':' {
            return Err(Invalid::Json(self.read));
        }
        self.put(b':');
        Ok(role)
    }

    fn scalar(&mut self, byte: u8, role: Role) -> Result<Next, Invalid> {
        let range = match byte {
            b'"' => {
                let range = self.string()?;
                let outer = range.start - 1..range.end + 1;
                if role == Role::Plain {
                    return Ok(Next::CommaOrEnd);
                }
                outer
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => return Err(Invalid::Json(self.read)),
        };
        if role != Role::Plain {
            let text = self.text[range].to_vec();
            self.request.value(role, &text);
        }
        Ok(Next::CommaOrEnd)
    }

    fn word(&mut self, word: &[u8]) -> Result<Range<usize>, Invalid> {
        if !self.text[self.read..].starts_with(word) {
            return Err(Invalid::Json(self.read));
        }
        let start = self.write;
        self.put_all(word.len());
        Ok(start..self.write)
    }

    /// Returns a number as RFC 8259 (6) has it. What follows it is looked at as the next token.
    fn number(&mut self) -> Result<Range<usize>, Invalid> {
        let rest = &self.text[self.read..];
        let digits =
            |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let invalid = |at: usize| Invalid::Json(self.read + at);
        let mut at = usize::from(rest[0] == b'-');
        let whole = digits(at);
        if whole == 0 || (whole > 1 && rest[at] == b'0') {
            return Err(invalid(at));
        }
        at += whole;
        if rest.get(at) == Some(&b'.') {
            let part = digits(at + 1);
            if part == 0 {
                return Err(invalid(at));
            }
            at += 1 + part;
        }
        if matches!(rest.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(rest.get(at + 1), Some(b'+' | b'-')));
            let power = digits(at.min(rest.len()));
            if power == 0 {
                return Err(invalid(at));
            }
            at += power;
        }
        let start = self.write;
        self.put_all(at);
        Ok(start..self.write)
    }

    /// Reads a text with its quotation marks; gives where it was written, without them.
    fn string(&mut self) -> Result<Range<usize>, Invalid> {
        self.put(b'"');
        let start = self.write;
        loop {
            let end =
                run_as_it_is(&self.text[self.read..]).ok_or(Invalid::Json(self.text.len()))?;
            self.put_all(end);
            match self.text[self.read] {
                b'"' => {
                    let end = self.write;
                    self.put(b'"');
                    return Ok(start..end);
                }
                b'\\' => self.escape()?,
                _ => return Err(Invalid::Json(self.read)),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Invalid> {
        let at = self.read;
        match self.text.get(at + 1) {
            Some(b'/') => {
                self.read += 1;
                self.put_all(1);
                return Ok(());
            }
            Some(b'u') => {}
            _ => return Err(Invalid::Escape(at)),
        }
        let first = self.unit()?;
        let units = match first {
            0xd800..=0xdbff => [first, self.unit()?],
            _ => [first, 0],
        };
        let count = if matches!(first, 0xd800..=0xdbff) { 2 } else { 1 };
        let mut decoded = char::decode_utf16(units[..count].iter().copied());
        let Some(Ok(character)) = decoded.next() else { return Err(Invalid::Escape(at)) };
        self.character(character);
        Ok(())
    }

    /// Reads `\uXXXX`.
    fn unit(&mut self) -> Result<u16, Invalid> {
        let invalid = Invalid::Escape(self.read);
        let escape = self.text.get(self.read..self.read + 6).ok_or(invalid)?;
        let digits = escape.strip_prefix(b"\\u").ok_or(invalid)?;
        let mut unit = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16).ok_or(invalid)?;
            unit = unit * 16 + u16::try_from(value).map_err(|_| invalid)?;
        }
        self.read += 6;
        Ok(unit)
    }

    /// Writes a character that was escaped, in the shortest form.
    fn character(&mut self, character: char) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match character {
            '"' | '\\' => Some(character),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        let mut buffer = [0; 4];
        match (short, character) {
            (Some(short), _) => {
                self.push(b'\\');
                self.push(short as u8);
            }
            (None, '\0'..='\u{1f}') => {
                let code = character as usize;
                for byte in [b'\\', b'u', b'0', b'0', HEX[code / 16], HEX[code % 16]] {
                    self.push(byte);
                }
            }
            (None, _) => {
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    self.push(byte);
                }
            }
        }
    }
}

/// Returns bytes that stay as they are: up to a quotation mark, a control character or an escape that
/// has a shorter form. None if the text does not end.
fn run_as_it_is(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += plain_run(&text[at..])?;
        match text.get(at..at + 2) {
            Some([b'\\', b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't']) => at += 2,
            Some(_) | None => return Some(at),
        }
    }
}

/// Returns bytes before the first quotation mark, backslash or control character, or `None` without one.
fn plain_run(text: &[u8]) -> Option<usize> {
    /// Texts with many escapes have short runs.
    const SHORT: usize = 16;
    for (at, byte) in text.iter().take(SHORT).enumerate() {
        if is_special(*byte) {
            return Some(at);
        }
    }
    let end = memchr2(b'"', b'\\', text)?;
    let has_control = text[..end].iter().fold(false, |has, byte| has | (*byte < b' '));
    if has_control { text.iter().position(|byte| is_special(*byte)) } else { Some(end) }
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | ..=0x1f)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns a text as it was written here, without its escapes.
fn decoded(text: &[u8], at: usize) -> Result<std::borrow::Cow<'_, [u8]>, Invalid> {
    if !text.contains(&b'\\') {
        return Ok(text.into());
    }
    let quoted = [b"\"", text, b"\""].concat();
    let decoded: String = serde_json::from_slice(&quoted).map_err(|_| Invalid::Json(at))?;
    Ok(decoded.into_bytes().into())
}

#[cfg(test)]
mod tests;
