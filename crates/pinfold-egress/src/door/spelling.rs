//! The ways in which one character may be written in an answer.

/// Backslashes before an escaped character: JSON within JSON doubles them.
const MOST_BACKSLASHES: usize = 16;

/// How often an escape may itself be escaped (`%252f`, `&amp;amp;`).
const MOST_NESTED: usize = 3;

/// Longest name or number of an HTML entity, with its semicolon.
const LONGEST_ENTITY: usize = 10;

/// Line ends within base64, one after the other.
const MOST_LINE_ENDS: usize = 4;

/// One character that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// This character, in any spelling.
    Char(char),
    /// A character of base64 of whose six bits some are known.
    Sextet {
        /// Which bits are known.
        mask: u8,
        /// The known bits.
        bits: u8,
        /// Whether a line may end before it.
        is_broken: bool,
    },
}

/// Where a unit may end in a text.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) at: Vec<usize>,
    /// The text ends where a spelling could go on.
    pub(super) is_open: bool,
}

impl Ends {
    fn push(&mut self, at: usize) {
        if !self.at.contains(&at) {
            self.at.push(at);
        }
    }

    /// Takes bytes that must come next. None if they do not, or are not there yet.
    fn bytes<'t>(&mut self, text: &'t [u8], at: usize, count: usize) -> Option<&'t [u8]> {
        let bytes = text.get(at..at + count);
        self.is_open |= bytes.is_none();
        bytes
    }
}

/// Where a unit ends that begins with a byte, if that alone decides it.
pub(super) enum PlainEnd {
    At(usize),
    Nowhere,
    /// The byte may begin another spelling.
    Unknown,
}

impl Unit {
    /// Looks at the byte at `at` alone. Nearly all texts are decided by that.
    pub(super) fn plain_end(self, byte: u8, at: usize) -> PlainEnd {
        let fits = match (self, byte) {
            (Self::Char(_), b'\\' | b'%' | b'&') | (Self::Char(' '), b'+') => {
                return PlainEnd::Unknown;
            }
            (Self::Char(character), _) if character.is_ascii() => character as u8 == byte,
            (Self::Char(_), _) => return PlainEnd::Unknown,
            (Self::Sextet { is_broken: true, .. }, b'\r' | b'\n' | b'\\') => {
                return PlainEnd::Unknown;
            }
            (Self::Sextet { .. }, b'\\' | b'%' | b'&') if self.is_escaped() => {
                return PlainEnd::Unknown;
            }
            (Self::Sextet { mask, bits, .. }, _) => {
                value_of(byte).is_some_and(|value| value & mask == bits)
            }
        };
        if fits { PlainEnd::At(at + 1) } else { PlainEnd::Nowhere }
    }

    /// Returns whether some servers write it as an escape.
    fn is_escaped(self) -> bool {
        match self {
            Self::Char(_) => true,
            Self::Sextet { mask, bits, .. } => [62, 63].iter().any(|value| value & mask == bits),
        }
    }

    /// Finds all ends of this unit in a text, where it begins at `at`.
    pub(super) fn ends(self, text: &[u8], at: usize, ends: &mut Ends) {
        match self {
            Self::Char(character) => of_char(character, text, at, ends),
            Self::Sextet { mask, bits, is_broken } => {
                let at = if is_broken { after_line_ends(text, at) } else { at };
                of_sextet(mask, bits, text, at, ends);
                // The first half of a line end.
                ends.is_open |= is_broken && text[at..] == *b"\\";
            }
        }
    }

    /// Returns the bytes that it may begin with.
    pub(super) fn beginnings(self) -> Vec<u8> {
        let mut bytes = if self.is_escaped() { vec![b'\\', b'%', b'&'] } else { Vec::new() };
        match self {
            Self::Char(character) => {
                bytes.push(character.encode_utf8(&mut [0; 4]).as_bytes()[0]);
                bytes.extend((character == ' ').then_some(b'+'));
            }
            Self::Sextet { mask, bits, .. } => {
                let fits = |byte: &u8| value_of(*byte).is_some_and(|value| value & mask == bits);
                bytes.extend((0..=127).filter(fits));
            }
        }
        bytes
    }

    /// Returns the bytes that may follow a first byte of it, if it is longer than this byte.
    pub(super) fn second_bytes(self, first: u8) -> Vec<u8> {
        let plus_and_slash = ['+', '/'];
        let characters = match self {
            Self::Char(character) => vec![character],
            Self::Sextet { .. } => plus_and_slash.to_vec(),
        };
        match first {
            b'\\' => {
                let mut bytes = vec![b'\\', b'u', b'x'];
                let literal = characters.iter().filter(|c| c.is_ascii()).map(|c| *c as u8);
                bytes.extend(literal);
                bytes.extend(characters.iter().filter_map(|c| short_escape(*c)));
                bytes
            }
            b'%' => b"0123456789abcdefABCDEF".to_vec(),
            b'&' => b"#algqsALGQ".to_vec(),
            _ => match self {
                Self::Char(character) if !character.is_ascii() => {
                    vec![character.encode_utf8(&mut [0; 4]).as_bytes()[1]]
                }
                Self::Char(_) | Self::Sextet { .. } => Vec::new(),
            },
        }
    }
}

fn of_char(character: char, text: &[u8], at: usize, ends: &mut Ends) {
    let rest = text.get(at..).unwrap_or_default();
    let Some(first) = rest.first() else {
        ends.is_open = true;
        return;
    };
    let mut buffer = [0; 4];
    let plain = character.encode_utf8(&mut buffer).as_bytes();
    if rest.starts_with(plain) {
        ends.push(at + plain.len());
    } else if plain.starts_with(rest) {
        ends.is_open = true;
    }
    match first {
        b'\\' => of_backslash(character, text, at, ends),
        b'%' => of_percent(plain, text, at, ends),
        b'&' => of_entity(character, text, at, ends),
        b'+' if character == ' ' => ends.push(at + 1),
        _ => {}
    }
}

/// Finds the spellings of JSON, JavaScript and most other languages: `\"`, `\/`, `\n`, `\u002f`, `\x2f`.
fn of_backslash(character: char, text: &[u8], at: usize, ends: &mut Ends) {
    let run = text[at..].iter().take(MOST_BACKSLASHES).take_while(|byte| **byte == b'\\').count();
    if character == '\\' {
        (1..=run).filter(|count| count.is_power_of_two()).for_each(|count| ends.push(at + count));
    }
    let after = at + run;
    let Some([kind]) = ends.bytes(text, after, 1) else { return };
    match kind {
        b'u' => {
            let Some(first) = hex(text, after + 1, 4, ends) else { return };
            let units = match first {
                0xd800..=0xdbff => {
                    let end = after + 5;
                    let run = text[end..]
                        .iter()
                        .take(MOST_BACKSLASHES)
                        .take_while(|byte| **byte == b'\\')
                        .count();
                    let Some(b"u") = ends.bytes(text, end + run, 1) else { return };
                    let Some(second) = hex(text, end + run + 1, 4, ends) else { return };
                    (vec![first, second], end + run + 5)
                }
                _ => (vec![first], after + 5),
            };
            let (units, end) = units;
            let units = units.into_iter().filter_map(|unit| u16::try_from(unit).ok());
            if char::decode_utf16(units).eq([Ok(character)]) {
                ends.push(end);
            }
        }
        b'x' => {
            if hex(text, after + 1, 2, ends) == Some(character as u32) {
                ends.push(after + 3);
            }
        }
        kind => {
            let is_literal = kind.is_ascii_punctuation() && char::from(*kind) == character;
            if is_literal || short_escape(character) == Some(*kind) {
                ends.push(after + 1);
            }
        }
    }
}

fn short_escape(character: char) -> Option<u8> {
    match character {
        '\u{8}' => Some(b'b'),
        '\u{c}' => Some(b'f'),
        '\n' => Some(b'n'),
        '\r' => Some(b'r'),
        '\t' => Some(b't'),
        _ => None,
    }
}

/// Finds the spellings of RFC 3986 (2.1), with digits of either case, of any character and also twice.
fn of_percent(plain: &[u8], text: &[u8], at: usize, ends: &mut Ends) {
    let Some((byte, rest)) = plain.split_first() else { return ends.push(at) };
    let Some(b"%") = ends.bytes(text, at, 1) else { return };
    let mut digits = at + 1;
    for _ in 0..=MOST_NESTED {
        if hex(text, digits, 2, ends) == Some(u32::from(*byte)) {
            of_percent(rest, text, digits + 2, ends);
        }
        if text.get(digits..digits + 2) != Some(b"25") {
            return;
        }
        digits += 2;
    }
}

/// Finds the spellings of HTML: `&amp;`, `&#38;`, `&#x26;`, also twice.
fn of_entity(character: char, text: &[u8], at: usize, ends: &mut Ends) {
    let mut begin = at + 1;
    for _ in 0..=MOST_NESTED {
        let rest = text.get(begin..).unwrap_or_default();
        let Some(length) = rest.iter().take(LONGEST_ENTITY).position(|byte| *byte == b';') else {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
            ends.is_open |= rest.len() < LONGEST_ENTITY && rest.iter().all(is_part);
            return;
        };
        let name = &rest[..length];
        if entity(name) == Some(character) {
            ends.push(begin + length + 1);
        }
        if !name.eq_ignore_ascii_case(b"amp") {
            return;
        }
        begin += length + 1;
    }
}

fn entity(name: &[u8]) -> Option<char> {
    let name = std::str::from_utf8(name).ok()?;
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    match name.to_ascii_lowercase().as_str() {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "sol" => Some('/'),
        "plus" => Some('+'),
        "equals" => Some('='),
        _ => None,
    }
}

/// Returns a number of so many hexadecimal digits.
fn hex(text: &[u8], at: usize, count: usize, ends: &mut Ends) -> Option<u32> {
    let there = text.get(at..text.len().min(at + count)).unwrap_or_default();
    if !there.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = ends.bytes(text, at, count)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Skips ends of lines within base64 (RFC 2045, 6.8), also as JSON has them.
fn after_line_ends(text: &[u8], mut at: usize) -> usize {
    for _ in 0..MOST_LINE_ENDS {
        match text.get(at..).unwrap_or_default() {
            [b'\r' | b'\n', ..] => at += 1,
            [b'\\', b'r' | b'n', ..] => at += 2,
            _ => break,
        }
    }
    at
}

/// Finds a character of base64 in either alphabet, in any spelling.
fn of_sextet(mask: u8, bits: u8, text: &[u8], at: usize, ends: &mut Ends) {
    let Some([byte]) = ends.bytes(text, at, 1) else { return };
    let fits = |value: u8| value & mask == bits;
    if let Some(value) = value_of(*byte) {
        if fits(value) {
            ends.push(at + 1);
        }
        return;
    }
    for (character, value) in [('+', 62), ('/', 63)] {
        if fits(value) {
            of_char(character, text, at, ends);
        }
    }
}

fn value_of(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// Returns a text as units.
pub(super) fn of_text(text: &str) -> Vec<Unit> {
    text.chars().map(Unit::Char).collect()
}

/// Returns bytes within base64, when `before` bytes (modulo three) stand before them: every character
/// that has bits of theirs, from the second on also where lines end, but not right behind the first:
/// whatever ends a line with it would be held back. The second value begins with the second character,
/// for a line that does end there.
pub(super) fn of_base64(bytes: &[u8], before: usize) -> [Vec<Unit>; 2] {
    let padding = (3 - (before + bytes.len()) % 3) % 3;
    let spread = |inner: Vec<u8>| [vec![0; before], inner, vec![0; padding]].concat();
    let (bytes, masks) = (spread(bytes.to_vec()), spread(vec![0xff; bytes.len()]));
    let sextets = |bytes: &[u8]| -> Vec<u8> {
        let group = |group: &[u8]| {
            let all = group.iter().fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
            [18, 12, 6, 0].map(|shift| u8::try_from((all >> shift) & 0x3f).unwrap_or_default())
        };
        bytes.chunks(3).flat_map(group).collect()
    };
    let known: Vec<(u8, u8)> =
        sextets(&bytes).into_iter().zip(sextets(&masks)).filter(|(_, mask)| *mask != 0).collect();
    [0, 1].map(|from| {
        let unit = |(at, (bits, mask)): (usize, &(u8, u8))| Unit::Sextet {
            mask: *mask,
            bits: *bits,
            is_broken: at > 1,
        };
        known[from..].iter().enumerate().map(unit).collect()
    })
}
