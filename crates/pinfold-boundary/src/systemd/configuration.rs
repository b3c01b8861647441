//! A user's configuration of an agent, as it crosses to init and is kept by the service user.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use pinfold_wire::{DecodeError, Reader, Wire, Writer};

/// Files and directories of a user's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Where it belongs below the home.
    pub target: PathBuf,
    /// Its files by their paths below that.
    pub files: BTreeMap<PathBuf, ConfigurationFile>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationFile {
    /// What it holds.
    pub content: Vec<u8>,
    /// Whether it is a program.
    pub is_executable: bool,
}

impl Configuration {
    /// Files that one has at most.
    pub const MOST_FILES: usize = 2000;
    /// Bytes of all files at most.
    pub const MOST_BYTES: usize = 16 << 20;

    fn is_bounded(&self) -> bool {
        let bytes: usize = self.files.values().map(|file| file.content.len()).sum();
        self.files.len() <= Self::MOST_FILES && bytes <= Self::MOST_BYTES
    }
}

impl Wire for Configuration {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(self.target.as_os_str().as_bytes()).u32(self.files.len() as u32);
        for (path, file) in &self.files {
            writer.bytes(path.as_os_str().as_bytes()).u8(file.is_executable.into());
            writer.bytes(&file.content);
        }
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let target = below(&reader.bytes()?)?;
        let mut files = BTreeMap::new();
        for _ in 0..reader.u32()? {
            let path = below(&reader.bytes()?)?;
            let is_executable = reader.u8()? != 0;
            let file = ConfigurationFile { content: reader.bytes()?, is_executable };
            if files.insert(path, file).is_some() {
                return Err(DecodeError::TooMuch("files of one name"));
            }
        }
        reader.finish()?;
        let all = Self { target, files };
        if all.is_bounded() { Ok(all) } else { Err(DecodeError::TooMuch("configuration")) }
    }
}

/// Returns a path that has nothing but names.
fn below(bytes: &[u8]) -> Result<PathBuf, DecodeError> {
    let path = Path::new(OsStr::from_bytes(bytes));
    let are_names = path.components().all(|part| matches!(part, Component::Normal(_)));
    if bytes.is_empty() || bytes.contains(&0) || !are_names {
        return Err(DecodeError::Unknown { what: "path", value: 0 });
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(paths: &[&str], content: usize) -> Configuration {
        let file = ConfigurationFile { content: vec![b'x'; content], is_executable: true };
        let files = paths.iter().map(|path| (PathBuf::from(path), file.clone())).collect();
        Configuration { target: ".pi/agent".into(), files }
    }

    #[test]
    fn configuration_is_read_as_it_was_written() {
        let configuration = with(&["settings.json", "agents/review.md"], 3);
        assert_eq!(Configuration::decode(&configuration.encode()).unwrap(), configuration);
    }

    #[test]
    fn paths_that_lead_elsewhere_and_too_much_are_refused() {
        for path in ["/etc/passwd", "../x", "a/../../x", "", "a\0b"] {
            Configuration::decode(&with(&[path], 1).encode()).unwrap_err();
        }
        let names: Vec<String> =
            (0..=Configuration::MOST_FILES).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Configuration::decode(&with(&names, 0).encode()).unwrap_err();
        Configuration::decode(&with(&["a"], Configuration::MOST_BYTES + 1).encode()).unwrap_err();
        let mut twice = with(&["a", "b"], 1).encode();
        let at = twice.iter().rposition(|byte| *byte == b'b').unwrap();
        twice[at] = b'a';
        Configuration::decode(&twice).unwrap_err();
    }
}
