//! What set-ups have made on a machine, to be taken back.

use std::path::{Path, PathBuf};

use pinfold_runner::Refusal;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::step::write_file;

/// Where it lies.
pub(crate) const PATH: &str = "/etc/pinfold/setup.json";

/// What was made, in the order of making it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) made: Vec<Made>,
    /// Whether a set-up has begun and not ended: systemd may know units as they were before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_unfinished: bool,
}

/// One thing that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Made {
    Group(String),
    User(String),
    /// A user's place in a group.
    Member(String, String),
    /// A directory with all that is in it.
    Directory(PathBuf),
    /// A file or a link.
    File(PathBuf),
    /// A unit of systemd that was started and starts at boot.
    Unit(String),
}

impl Record {
    /// Reads the record of a machine.
    ///
    /// # Errors
    /// Returns that it cannot be read.
    pub(crate) fn read(machine: &Machine) -> Result<Option<Self>, Refusal> {
        let Some(text) = machine.read(Path::new(PATH))? else { return Ok(None) };
        let record = serde_json::from_slice(&text).map_err(|error| {
            Refusal::new(
                format!("{PATH}: {error}"),
                "docs/guides/systemd.md names what a set-up makes, to be removed by hand",
            )
        })?;
        Ok(Some(record))
    }

    /// Adds what is not in it yet.
    pub(crate) fn add(&mut self, made: Made) {
        if !self.made.contains(&made) {
            self.made.push(made);
        }
    }

    /// Writes it to a machine.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub(crate) fn write(&self, machine: &Machine) -> Result<(), Refusal> {
        let mut text = serde_json::to_vec_pretty(self).map_err(Refusal::plain)?;
        text.push(b'\n');
        write_file(machine, Path::new(PATH), &text, 0o600)
    }
}
