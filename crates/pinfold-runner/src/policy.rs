//! What the administrator lets which user do.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::accounts::Account;
use crate::installed;
use crate::refusal::Refusal;
use crate::request::MOST_FILES;

/// Where the policy lies.
pub const PATH: &str = "/etc/pinfold/runner.json";
/// Where the policy is described.
pub const GUIDE: &str = "docs/guides/systemd.md describes the file for administrators";
/// pinfold's own directories in a home (`pinfold_host::directories`): sessions and what can be made again. Not its
/// settings, where secrets are.
pub const OWN: [&str; 2] = [".local/state/pinfold", ".cache/pinfold"];

/// A policy that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Policy {
    /// The user that sessions run as, of the one host user that has none of its own. Which ids are refused is decided when a
    /// request comes.
    pub user: String,
    /// That user's directory, which no session sees.
    pub state_dir: PathBuf,
    /// pinfold's executable.
    #[serde(default = "program")]
    pub program: PathBuf,
    /// Seconds after which a session is ended.
    pub runtime_max_sec: Option<NonZeroU64>,
    /// Bytes of memory that a session has at most.
    pub memory_max: Option<NonZeroU64>,
    /// Tasks that a session's unit has at most, init's own among them.
    pub tasks_max: Option<NonZeroU64>,
    /// Whether a unit shows no other processes, which systemd 257 can do.
    #[serde(default)]
    pub private_pids: bool,
    /// What the agent's settings are to have, whatever the user's own say.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Variables of every session.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files with more variables, which count before those.
    #[serde(default)]
    pub environment_files: Vec<PathBuf>,
    /// Where users have the agent's configuration.
    pub config_path: Option<String>,
    /// Host users by name.
    #[serde(deserialize_with = "unique")]
    pub host_users: BTreeMap<String, HostUser>,
}

/// A user who may ask.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HostUser {
    /// Where its projects lie.
    pub project_roots: Vec<String>,
    /// The user that this one's sessions run as.
    user: Option<String>,
    /// Where this one has the agent's configuration.
    pub config_path: Option<String>,
}

/// Returns where pinfold lies unless the policy says something else.
fn program() -> PathBuf {
    PathBuf::from("/usr/bin/pinfold")
}

impl Policy {
    /// Reads the policy of this machine.
    ///
    /// # Errors
    /// Returns that the file is missing, that others than root could have written it, or what is wrong in it.
    pub fn load() -> Result<Self, Refusal> {
        let file = installed::open(Path::new(PATH)).map_err(|refusal| {
            Refusal::new(refusal.what, refusal.hint.unwrap_or_else(|| GUIDE.to_owned()))
        })?;
        let read = std::io::read_to_string(File::from(file));
        let text = read.map_err(|error| Refusal::plain(format!("{PATH}: {error}")))?;
        Self::parse(text.as_bytes())
    }

    /// Reads a policy from its text.
    ///
    /// # Errors
    /// Returns what is wrong in it.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        let wrong = |what: String| Refusal::new(format!("{PATH}: {what}"), GUIDE);
        let policy: Self =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        policy.check().map_err(wrong)?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), String> {
        for (key, path) in [("stateDir", &self.state_dir), ("program", &self.program)] {
            if !is_plain(path) {
                return Err(format!(
                    "{key} must be an absolute path of letters, digits and `._-+`"
                ));
            }
        }
        if self.environment_files.len() > MOST_FILES {
            return Err(format!("environmentFiles has more than {MOST_FILES} files"));
        }
        Ok(())
    }

    /// Returns the user that a host user's sessions run as.
    #[must_use]
    pub fn service(&self, host_user: &str) -> &str {
        let own = self.host_users.get(host_user).and_then(|host| host.user.as_deref());
        own.unwrap_or(&self.user)
    }

    /// Returns the other host users, and whom their sessions run as.
    pub(crate) fn others(&self, host_user: &str) -> impl Iterator<Item = &str> {
        let names = self.host_users.keys().map(String::as_str);
        let others = names.filter(move |name| *name != host_user);
        others.flat_map(|name| [name, self.service(name)])
    }

    /// Returns the directories that an account's sessions may get, its project roots first.
    ///
    /// # Errors
    /// Returns that the policy does not have it, or a root that contains files of the service user's.
    pub fn directories(&self, account: &Account) -> Result<Vec<PathBuf>, Refusal> {
        let Some(user) = self.host_users.get(&account.name) else {
            return Err(Refusal::new(
                format!("{PATH} has no user {}", account.name),
                "an administrator adds it to `hostUsers`, or choose another boundary (`--boundary`)",
            ));
        };
        let roots = user.project_roots.iter().map(|root| expand(root, &account.home));
        let own = OWN.iter().map(|own| expand(&format!("~/{own}"), &account.home));
        let all: Option<Vec<PathBuf>> =
            roots.chain(own).map(|root| root.map(|root| installed::canonical(&root))).collect();
        let all = all.ok_or_else(|| {
            let (home, name) = (account.home.display(), &account.name);
            Refusal::plain(format!("a root, or the home {home} of {name}, is no usable path"))
        })?;
        let state = installed::canonical(&self.state_dir);
        match all.iter().find(|root| state.starts_with(root) || root.starts_with(&state)) {
            None => Ok(all),
            Some(root) => Err(Refusal::new(
                format!("{PATH}: {} and stateDir lie in each other", root.display()),
                "sessions must not see the service user's own files: choose another stateDir",
            )),
        }
    }
}

/// Returns a project root as a path with nothing but names in it, not the root directory.
pub fn expand(root: &str, home: &Path) -> Option<PathBuf> {
    let path = match root.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) => home.join(rest.strip_prefix('/')?),
        None => PathBuf::from(root),
    };
    is_canonical(&path).then_some(path)
}

/// Returns whether a path is absolute, has nothing but names in it, each once followed by a slash, and
/// at least one.
pub fn is_canonical(path: &Path) -> bool {
    let names = path.as_os_str().as_encoded_bytes().strip_prefix(b"/");
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    names.is_some_and(|names| names.split(|byte| *byte == b'/').all(is_name))
}

/// Returns whether a path is the same text wherever systemd reads it.
fn is_plain(path: &Path) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes();
    is_canonical(path) && bytes.iter().copied().all(is_letter)
}

/// Returns a map in which no key is twice: which of the two counts would depend on the reader.
fn unique<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, HostUser>, D::Error> {
    struct Unique;
    impl<'de> Visitor<'de> for Unique {
        type Value = BTreeMap<String, HostUser>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("host users by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some((name, user)) = entries.next_entry::<String, HostUser>()? {
                if all.insert(name.clone(), user).is_some() {
                    return Err(A::Error::custom(format!("host user {name:?} is there twice")));
                }
            }
            Ok(all)
        }
    }
    deserializer.deserialize_map(Unique)
}

#[cfg(test)]
mod tests;
