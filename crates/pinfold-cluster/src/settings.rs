//! The user's settings for a cluster: `cluster.toml` in the directory of settings.

mod kubernetes;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pinfold_host::directories::Places;
use pinfold_policy::limits::WallTime;
use pinfold_policy::path::Escaped;
use pinfold_secrets::SecretId;
use serde::{Deserialize, Deserializer};

pub use kubernetes::KubernetesSettings;

/// The file's name.
const FILE: &str = "cluster.toml";
/// The most attempts that are placed at once.
const MOST: u32 = 100;

/// How attempts are placed on a cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    /// Options of sbatch, in its own words.
    #[serde(default)]
    pub options: Vec<String>,
    /// The most attempts that are placed at once.
    #[serde(default = "most")]
    pub most: u32,
    /// The program that jobs start, a path that all nodes have. By default this program is copied to `directory`.
    pub executable: Option<PathBuf>,
    /// A directory of the user's that all nodes see, for the program and what jobs print.
    pub directory: Option<PathBuf>,
    /// A directory that nodes keep state below, each in a directory of its own.
    pub state: Option<PathBuf>,
    /// How long an attempt is its node's after the node was last heard of.
    #[serde(default, deserialize_with = "time")]
    pub lease: Option<WallTime>,
    /// Secrets that each attempt gets through the store.
    #[serde(default, deserialize_with = "secrets")]
    pub secrets: Vec<SecretId>,
    /// Places attempts as jobs of Kubernetes instead of Slurm.
    pub kubernetes: Option<KubernetesSettings>,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", Escaped(.path))]
    Read {
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is wrong.
    #[error("{}: {reason}", Escaped(.path))]
    Invalid {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Returns whether the user has settings for a cluster.
#[must_use]
pub fn has_cluster(places: &Places) -> bool {
    places.config.join(FILE).exists()
}

impl ClusterSettings {
    /// Reads the user's settings. A file that is not there says nothing.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be read, has an unknown key or a value that cannot be used.
    pub fn read(places: &Places) -> Result<Self, SettingsError> {
        Self::read_file(&places.config.join(FILE))
    }

    pub(crate) fn read_file(path: &Path) -> Result<Self, SettingsError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(SettingsError::Read { path: path.to_owned(), error }),
        };
        let settings: Result<Self, _> = toml::from_str(&text);
        let reason = match settings {
            Ok(settings) => match settings.wrong() {
                None => return Ok(settings),
                Some(reason) => reason,
            },
            Err(error) => error.to_string().trim().to_owned(),
        };
        Err(SettingsError::Invalid { path: path.to_owned(), reason })
    }

    /// Returns what is wrong with the values.
    fn wrong(&self) -> Option<String> {
        let paths = [
            ("executable", &self.executable),
            ("directory", &self.directory),
            ("state", &self.state),
        ];
        let relative =
            paths.iter().find(|(_, path)| path.as_deref().is_some_and(Path::is_relative));
        if let Some((name, _)) = relative {
            return Some(format!("`{name}` has to be an absolute path"));
        }
        if self.most == 0 {
            return Some("`most` has to be at least 1".to_owned());
        }
        if let Some(kubernetes) = &self.kubernetes {
            return kubernetes.wrong().or_else(|| self.wrong_for_kubernetes());
        }
        let option = self.options.iter().find(|option| !is_free(option));
        option.map(|option| {
            format!("`options` has {option:?}; each has to be one word that begins with `--`, such as \"--partition=long\", and pinfold sets some itself")
        })
    }

    /// Returns what is wrong with the other settings for Kubernetes.
    fn wrong_for_kubernetes(&self) -> Option<String> {
        if !self.options.is_empty() {
            return Some("`options` are those of sbatch; Kubernetes takes `kubernetes.pod` and `kubernetes.container`".to_owned());
        }
        if self.executable.is_none() {
            return Some(
                "`executable` has to name pinfold in the image, such as \"/usr/local/bin/pinfold\""
                    .to_owned(),
            );
        }
        None
    }
}

/// Returns whether an option of sbatch's is the user's to set.
fn is_free(option: &str) -> bool {
    // What says which job it is, what it runs and what it gets.
    const OWN: [&str; 14] = [
        "--array",
        "--chdir",
        "--comment",
        "--export",
        "--export-file",
        "--get-user-env",
        "--input",
        "--job-name",
        "--no-requeue",
        "--output",
        "--parsable",
        "--requeue",
        "--uid",
        "--wrap",
    ];
    let name = option.split('=').next().unwrap_or_default();
    // Commands of this kind take the beginning of a long option for the option.
    option.starts_with("--") && name.len() > 2 && !OWN.iter().any(|own| own.starts_with(name))
}

fn most() -> u32 {
    MOST
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WallTime>, D::Error> {
    let text = String::deserialize(deserializer)?;
    WallTime::from_str(&text).map(Some).map_err(serde::de::Error::custom)
}

fn secrets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SecretId>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.into_iter().map(|name| SecretId::new(name).map_err(serde::de::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::{ClusterSettings, is_free};

    fn read(text: &str) -> Result<ClusterSettings, String> {
        let settings: ClusterSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.wrong().map_or(Ok(settings), Err)
    }

    #[test]
    fn empty_file_is_enough_and_a_wrong_one_is_refused() {
        assert_eq!(read("").unwrap().most, 100);
        let good = "options = [\"--gres=gpu:1\"]\nlease = \"20s\"\nsecrets = [\"anthropic\"]\n";
        assert!(read(good).is_ok());
        for wrong in [
            "directory = \"shared\"",
            "most = 0",
            "lease = \"soon\"",
            "secrets = [\"../x\"]",
            "partition = \"x\"",
            "options = [\"-p\", \"x\"]",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_that_say_which_job_it_is_are_not_the_users() {
        assert!(is_free("--partition=long") && is_free("--constraint=gpu"));
        for own in ["--wrap=x", "--wra=x", "--export=ALL", "--exp=ALL", "--job-name", "--", "x"] {
            assert!(!is_free(own), "{own}");
        }
    }
}
