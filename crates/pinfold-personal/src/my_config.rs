//! The user's own setup of an agent: instructions, skills, commands, subagents, MCP servers and themes, as
//! the agent's profile lists them. It enters as a copy that is mounted read-only. What was looked at is what
//! is copied: every file is judged by the descriptor that it is read from.
//!
//! Never a login, never a file that has the name of a secret, never a value of an MCP server's environment.

mod copy;
mod merge;
mod servers;
mod sources;

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_agents::{AgentProfile, ConfigKey, Host};
use pinfold_boundary::{Entry, Place};
use pinfold_host::directories::Places;
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use pinfold_rootfs::userland::HOME;
use pinfold_terminal::notify;
use serde_json::Value;

use pinfold_host::Refusal;

use copy::{Copied, Copier};
use sources::Sources;

/// Where something of the user's is mounted in the home.
#[derive(Debug)]
pub struct MountPoint {
    /// The path below the home.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Longest list of names in the line about what comes in.
const MOST_NAMES: usize = 8;

/// What of the user's setup comes in.
#[derive(Debug, Default)]
pub struct MyConfig {
    copied: Vec<Copied>,
    /// Whether there are MCP servers.
    pub has_servers: bool,
}

/// What is reported about it.
#[derive(Debug, Default)]
struct Report {
    comes: Vec<String>,
    left_out: Vec<String>,
}

impl MyConfig {
    /// Reads what comes in, and puts what belongs into generated files there. Says both in one line.
    ///
    /// # Errors
    /// Returns an error if the home cannot be opened, a generated file is not what it has to be, or a variable names a
    /// directory that others may write to.
    pub fn collect(
        profile: &AgentProfile,
        places: &Places,
        workspace: &Path,
        host: &dyn Host,
        files: &mut Vec<Entry>,
    ) -> Result<Self, Refusal> {
        let mut report = Report::default();
        let sources = Sources::find(&places.home, workspace, profile, host)?;
        let copier = Copier::new(places, sources);
        let mut mine = Self::default();
        for path in &profile.my_config.read {
            let Some(copied) = copier.copy(path, &mut report.left_out) else { continue };
            report.comes.push(copied.described());
            mine.copied.push(copied);
        }
        let read = |key: &ConfigKey, report: &mut Report| {
            let bytes = copier.file(&key.from, &mut report.left_out)?;
            let value = merge::value(&key.from, &bytes, &key.key);
            if value.is_err() {
                report.left_out.push(format!("{}, which cannot be parsed", Escaped(&key.from)));
            }
            value.ok().flatten()
        };
        for key in &profile.my_config.servers {
            let Some(Value::Object(servers)) = read(key, &mut report) else { continue };
            let cleaned = servers::clean(servers, &mut report.left_out);
            if cleaned.is_empty() {
                continue;
            }
            let names: Vec<String> =
                cleaned.keys().map(|name| name.escape_debug().to_string()).collect();
            report.comes.push(format!("MCP servers {}", names.join(" ")));
            mine.has_servers = true;
            merge::put(
                files,
                &key.into,
                &key.key,
                Value::Object(cleaned),
                merge::Made::AtEachStart,
            )?;
        }
        for key in &profile.my_config.keys {
            let value = read(key, &mut report);
            let Some(value) = value.filter(|value| value.is_string() || value.is_boolean()) else {
                continue;
            };
            report.comes.push(key.key.clone());
            merge::put(files, &key.into, &key.key, value, merge::Made::Once)?;
        }
        report.say(&profile.name, &copier.variables());
        Ok(mine)
    }

    /// Returns where the copies are mounted.
    pub fn points(&self) -> Vec<MountPoint> {
        let point = |copied: &Copied| MountPoint {
            path: Path::new(HOME).join(&copied.path),
            is_directory: copied.is_directory(),
        };
        self.copied.iter().map(point).collect()
    }

    /// Returns the entries of the sandbox's tree for the copies in a session's private directory.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub fn entries(&self, private: &Path) -> Result<Vec<Entry>, Refusal> {
        let entry = |copied: &Copied| {
            let host = HostPath::new(staged(private).join(&copied.path)).map_err(Refusal::new)?;
            let path = InsidePath::new(Path::new(HOME).join(&copied.path)).map_err(Refusal::new)?;
            Ok(Entry { path, place: Place::ReadOnly(host) })
        };
        self.copied.iter().map(entry).collect()
    }

    /// Writes the copies. They have to be there when the boundary is launched.
    ///
    /// # Errors
    /// Returns the error of writing one.
    pub fn make(&self, private: &Path) -> io::Result<()> {
        let root = staged(private);
        for copied in &self.copied {
            if copied.is_directory() {
                directory(&root.join(&copied.path))?;
            }
            for (path, file) in &copied.files {
                let path = root.join(path);
                directory(path.parent().unwrap_or(&root))?;
                let mode = if file.is_executable { 0o555 } else { 0o444 };
                let mut open = fs::OpenOptions::new();
                let mut made = open.write(true).create_new(true).mode(mode).open(&path)?;
                io::Write::write_all(&mut made, &file.content)?;
                // The caller's umask took bits from the mode.
                made.set_permissions(fs::Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }
}

fn staged(private: &Path) -> PathBuf {
    private.join("my-config")
}

fn directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        directory(parent)?;
    }
    fs::DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

impl Report {
    fn say(self, agent: &str, variables: &[&str]) {
        let listed = |names: &[String]| {
            let shown: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
            let more = names.len().saturating_sub(MOST_NAMES);
            let more = if more > 0 { format!(", {more} more") } else { String::new() };
            shown.join(", ") + &more
        };
        let left_out = match self.left_out.as_slice() {
            [] => String::new(),
            names => format!("; left out: {}", listed(names)),
        };
        let place = match variables {
            [] => String::new(),
            names => format!(" ({})", names.join(", ")),
        };
        match self.comes.as_slice() {
            [] => notify!(
                "pinfold: note: there is no setup of {agent} of yours{place} to bring in{left_out}"
            ),
            names => {
                let comes = listed(names);
                notify!(
                    "pinfold: note: your setup of {agent}{place}, read-only: {comes}{left_out}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
