//! The keys that detach a terminal.

use std::fmt;
use std::str::FromStr;

/// A sequence of keys, written as docker(1) writes it: `ctrl-p,ctrl-q`, `ctrl-a,d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys(Vec<u8>);

/// Why keys are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected keys such as ctrl-p,ctrl-q: single characters, and ctrl- with a to z or one of @[\\]^_"
)]
pub struct BadKeys;

impl FromStr for DetachKeys {
    type Err = BadKeys;

    fn from_str(text: &str) -> Result<Self, BadKeys> {
        text.split(',').map(key).collect::<Result<_, _>>().map(Self)
    }
}

fn key(text: &str) -> Result<u8, BadKeys> {
    match (text.strip_prefix("ctrl-"), text.as_bytes()) {
        (Some(with), _) => match with.as_bytes() {
            [byte @ (b'a'..=b'z' | b'@' | b'['..=b'_')] => Ok(byte & 0x1f),
            _ => Err(BadKeys),
        },
        (None, [byte @ 0x20..=0x7e]) => Ok(*byte),
        (None, _) => Err(BadKeys),
    }
}

impl fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match key {
                // As they are written on keys.
                1..=26 => write!(f, "{comma}ctrl-{}", char::from(key | 0x60))?,
                0..=31 => write!(f, "{comma}ctrl-{}", char::from(key | 0x40))?,
                key => write!(f, "{comma}{}", char::from(*key))?,
            }
        }
        Ok(())
    }
}

/// Looks for the keys in what is typed.
pub struct Watching {
    keys: DetachKeys,
    /// The beginning of the keys, held back: each as it was read.
    held: Vec<(u8, Vec<u8>)>,
}

impl Watching {
    /// Looks for these keys.
    pub fn new(keys: DetachKeys) -> Self {
        Self { keys, held: Vec::new() }
    }

    /// Returns what of it is for the program, and whether the keys have been typed after that.
    pub fn read(&mut self, mut typed: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::new();
        while !typed.is_empty() {
            let (key, length) = first(typed);
            self.held.push((key, typed[..length].to_vec()));
            typed = &typed[length..];
            while !self.is_beginning() {
                passed.extend(self.held.remove(0).1);
            }
            if self.held.len() == self.keys.0.len() {
                return (passed, true);
            }
        }
        (passed, false)
    }

    fn is_beginning(&self) -> bool {
        self.held.iter().map(|(key, _)| key).eq(self.keys.0.iter().take(self.held.len()))
    }

    /// Returns whether the beginning of the keys is held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns what was held back, after a time in which no other key came.
    pub fn let_go(&mut self) -> Vec<u8> {
        self.held.drain(..).flat_map(|(_, typed)| typed).collect()
    }
}

/// Returns the first key and its length. A key with Ctrl may come as a sequence, as the program may have
/// asked of the terminal: `CSI code ; 5 u` (kitty's protocol) or `CSI 27 ; 5 ; code ~` (xterm's
/// modifyOtherKeys). A terminal writes it at once, so one that is cut is not waited for: Esc alone is a
/// key, too.
fn first(typed: &[u8]) -> (u8, usize) {
    let sequence = || {
        let rest = typed.strip_prefix(b"\x1b[")?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && !b";:".contains(byte))?;
        let numbers = std::str::from_utf8(&rest[..end]).ok()?;
        let code = match rest[end] {
            b'u' => numbers.strip_suffix(";5").or_else(|| numbers.strip_suffix(";5:1"))?,
            b'~' => numbers.strip_prefix("27;5;")?,
            _ => return None,
        };
        let code = code.parse::<u8>().ok().filter(|code| (0x40..0x80).contains(code))?;
        Some((code & 0x1f, 2 + end + 1))
    };
    sequence().unwrap_or((typed[0], 1))
}

#[cfg(test)]
mod tests;
