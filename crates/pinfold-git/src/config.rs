//! Reading git's configuration format (git-config(1), "Syntax") without running git.
//!
//! What an agent wrote is only ever parsed, never handed to the host's git to interpret, so
//! includes are not followed and nothing here panics on any input. People write passwords there, and a
//! sandbox begins as a copy of this process: what was read is overwritten when it is dropped.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use zeroize::{Zeroize as _, Zeroizing};

/// The configuration of the whole machine or sandbox, which comes with the system and which `git lfs install --system` writes
/// to (git-config(1), "FILES").
pub const OF_THE_MACHINE: &str = "/etc/gitconfig";

/// One setting: the canonical key (section and name in lower case, the subsection as written)
/// and its value; `None` is a name without a value, which means true. Overwritten when dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setting {
    /// The canonical key.
    pub key: String,
    pub value: Option<Vec<u8>>,
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.key.zeroize();
        self.value.zeroize();
    }
}

/// A parsed file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The settings, in the order of the file.
    pub settings: Vec<Setting>,
    /// Whether something could not be read: then nothing of the file may be taken over.
    pub broken: bool,
}

impl Config {
    /// Returns what files say, in this order. One that is not there, or cannot be read, says nothing.
    pub fn of<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Self {
        let mut all = Self::default();
        for file in files {
            let bytes = fs::read(file).unwrap_or_default();
            all.settings.extend(Self::parse_last(bytes).settings);
        }
        all
    }

    /// Parses a file that nobody needs any more.
    pub fn parse_last(bytes: Vec<u8>) -> Self {
        Self::parse(&Zeroizing::new(bytes))
    }

    /// Parses a file.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut parser = Parser { rest: bytes, section: None };
        let mut config = Self::default();
        loop {
            match parser.next() {
                Ok(Some(setting)) => config.settings.push(setting),
                Ok(None) => return config,
                Err(Broken) => {
                    config.broken = true;
                    return config;
                }
            }
        }
    }

    /// Returns the last value of a key, as git takes it.
    pub fn last(&self, key: &str) -> Option<OsString> {
        let setting = self.settings.iter().rfind(|setting| setting.key == key)?;
        Some(OsString::from_vec(setting.value.clone()?))
    }
}

/// Settings as a file that reads back as the same settings.
pub fn write(settings: &[Setting]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut last = None;
    for setting in settings {
        let Some((section, subsection, name)) = split(&setting.key) else { continue };
        if last != Some((section, subsection)) {
            file.extend(format!("[{section}").bytes());
            if let Some(subsection) = subsection {
                let escaped = subsection.replace('\\', "\\\\").replace('"', "\\\"");
                file.extend(format!(" \"{escaped}\"").bytes());
            }
            file.extend(b"]\n");
            last = Some((section, subsection));
        }
        file.extend(format!("\t{name}").bytes());
        if let Some(value) = &setting.value {
            file.extend(b" = \"");
            for byte in value {
                match byte {
                    b'\n' => file.extend(b"\\n"),
                    b'\t' => file.extend(b"\\t"),
                    8 => file.extend(b"\\b"),
                    b'"' | b'\\' => file.extend([b'\\', *byte]),
                    byte => file.push(*byte),
                }
            }
            file.push(b'"');
        }
        file.push(b'\n');
    }
    file
}

/// Returns a canonical key's section, subsection and name.
pub fn split(key: &str) -> Option<(&str, Option<&str>, &str)> {
    let (section, rest) = key.split_once('.')?;
    match rest.rsplit_once('.') {
        Some((subsection, name)) => Some((section, Some(subsection), name)),
        None => Some((section, None, rest)),
    }
}

struct Broken;

/// Bytes that leave nothing behind, neither where they are moved as they grow nor at their end.
#[derive(Default)]
struct Bytes(Zeroizing<Vec<u8>>);

impl Bytes {
    fn push(&mut self, byte: u8) {
        const FIRST: usize = 64;
        if self.0.len() == self.0.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(FIRST.max(2 * self.0.len())));
            larger.extend_from_slice(&self.0);
            self.0 = larger;
        }
        self.0.push(byte);
    }

    fn text(&self) -> Result<&str, Broken> {
        str::from_utf8(&self.0).map_err(|_| Broken)
    }
}

struct Parser<'a> {
    rest: &'a [u8],
    section: Option<Bytes>,
}

impl Parser<'_> {
    fn next(&mut self) -> Result<Option<Setting>, Broken> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.skip(1),
                // A byte order mark may begin the file.
                Some(0xef) if self.rest.starts_with(b"\xef\xbb\xbf") => self.skip(3),
                Some(b'#' | b';') => self.skip_line(),
                Some(b'[') => self.section = Some(self.header()?),
                Some(_) => return self.setting().map(Some),
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self, count: usize) {
        self.rest = &self.rest[count.min(self.rest.len())..];
    }

    fn skip_line(&mut self) {
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        self.skip(end);
    }

    fn take(&mut self) -> Result<u8, Broken> {
        let byte = self.peek().ok_or(Broken)?;
        self.skip(1);
        Ok(byte)
    }

    /// Reads `[section]`, `[section "sub section"]` or the old `[section.sub]`.
    fn header(&mut self) -> Result<Bytes, Broken> {
        self.skip(1);
        let mut section = Bytes::default();
        loop {
            match self.take()? {
                b']' => return Ok(section),
                b' ' | b'\t' => return self.subsection(section),
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    section.push(byte.to_ascii_lowercase());
                }
                _ => return Err(Broken),
            }
        }
    }

    fn subsection(&mut self, mut section: Bytes) -> Result<Bytes, Broken> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.skip(1);
        }
        if self.take()? != b'"' {
            return Err(Broken);
        }
        section.push(b'.');
        loop {
            match self.take()? {
                b'"' => break,
                b'\n' => return Err(Broken),
                // Whatever is escaped stands for itself, but a line never goes on here.
                b'\\' if self.peek() != Some(b'\n') => section.push(self.take()?),
                b'\\' => return Err(Broken),
                byte => section.push(byte),
            }
        }
        if self.take()? != b']' {
            return Err(Broken);
        }
        section.text()?;
        Ok(section)
    }

    fn setting(&mut self) -> Result<Setting, Broken> {
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|b| b.is_ascii_alphanumeric() || *b == b'-') {
            name.push(char::from(byte.to_ascii_lowercase()));
            self.skip(1);
        }
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(Broken);
        }
        let section = self.section.as_ref().ok_or(Broken)?.text()?;
        let mut key = String::with_capacity(section.len() + 1 + name.len());
        key.extend([section, ".", &name]);
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.skip(1);
        }
        match self.peek() {
            Some(b'=') => {
                self.skip(1);
                Ok(Setting { key, value: Some(self.value()?) })
            }
            None | Some(b'\n') => Ok(Setting { key, value: None }),
            Some(b'#' | b';') => {
                self.skip_line();
                Ok(Setting { key, value: None })
            }
            Some(_) => Err(Broken),
        }
    }

    /// Returns a value to the end of its line: quotes, escapes, continuation lines, comments.
    fn value(&mut self) -> Result<Vec<u8>, Broken> {
        let mut value = Bytes::default();
        // Bytes of the value that a trailing blank may not be cut from.
        let mut kept = 0;
        let mut quoted = false;
        while let Some(byte) = self.peek() {
            self.skip(1);
            match byte {
                b'\n' if quoted => return Err(Broken),
                b'\n' => break,
                b'\r' if self.peek() == Some(b'\n') => {}
                b'"' => {
                    quoted = !quoted;
                    kept = value.0.len();
                }
                b'\\' => {
                    match self.take()? {
                        b'\n' => {}
                        b'n' => value.push(b'\n'),
                        b't' => value.push(b'\t'),
                        b'b' => value.push(8),
                        byte @ (b'"' | b'\\') => value.push(byte),
                        b'\r' if self.peek() == Some(b'\n') => self.skip(1),
                        _ => return Err(Broken),
                    }
                    kept = value.0.len();
                }
                b'#' | b';' if !quoted => {
                    self.skip_line();
                }
                b' ' | b'\t' if !quoted => {
                    if !value.0.is_empty() {
                        value.push(byte);
                    }
                }
                byte => {
                    value.push(byte);
                    kept = value.0.len();
                }
            }
        }
        if quoted {
            return Err(Broken);
        }
        value.0.truncate(kept);
        Ok(std::mem::take(&mut value.0))
    }
}

#[cfg(test)]
mod tests;
