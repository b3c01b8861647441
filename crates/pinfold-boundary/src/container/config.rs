//! The parts of a container's configuration that pinfold writes, as serde types.
//!
//! Names and meanings are those of the OCI runtime specification 1.2 (`config.md`,
//! `config-linux.md`). No type has a default, so nothing is granted that is not written out in
//! `spec.rs`.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The whole file, `config.json` of a bundle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    pub(super) oci_version: &'static str,
    pub(super) root: Root,
    pub(super) mounts: Vec<Mount>,
    pub(super) process: Process,
    pub(super) hostname: String,
    pub(super) annotations: Annotations,
    pub(super) linux: Linux,
}

impl Config {
    /// Writes the configuration to a new file.
    ///
    /// # Errors
    /// Returns the error of creating or writing the file, and `InvalidData` for a path that is not UTF-8.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer(&mut file, self)?;
        file.flush()
    }
}

/// Notes for the engine: none.
#[derive(Debug, Serialize)]
pub(super) struct Annotations {}

#[derive(Debug, Serialize)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) readonly: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Mount {
    pub(super) destination: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) source: PathBuf,
    pub(super) options: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    pub(super) terminal: bool,
    pub(super) user: User,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<&'static str>,
    pub(super) cwd: &'static str,
    pub(super) capabilities: Capabilities,
    pub(super) rlimits: [(); 0],
    pub(super) no_new_privileges: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The names of capabilities(7) in each set.
#[derive(Debug, Serialize)]
pub(super) struct Capabilities {
    pub(super) bounding: &'static [&'static str],
    pub(super) effective: &'static [&'static str],
    pub(super) inheritable: &'static [&'static str],
    pub(super) permitted: &'static [&'static str],
    pub(super) ambient: &'static [&'static str],
}

/// What only Linux has. Without `resources`: youki writes to control groups if they are there, even empty.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Linux {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) devices: [(); 0],
    pub(super) rootfs_propagation: &'static str,
    pub(super) masked_paths: Vec<String>,
    pub(super) readonly_paths: Vec<String>,
}

/// A namespace that the engine makes, by its name in the specification.
#[derive(Debug, Serialize)]
pub(super) struct Namespace {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}
