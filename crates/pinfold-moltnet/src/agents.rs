//! The agents that may use the server, and their keys.
//!
//! A key is shown once. What is kept of it is its SHA-256 digest, in a file of the user's alone: a key has 256 random
//! bits, so nobody finds it by trying.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pinfold_host::digest::name_of;
use pinfold_host::owned;
use rustix::fs::{FlockOperation, flock};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::scope::Scope;
use pinfold_content::Uuid;

/// What a key begins with, so that programs that search for leaked keys find it.
pub const KEY_BEGINS: &str = "pinfold_ak_";
/// The most agents of one server.
const MOST: usize = 1_000;

/// The file of the agents of a server.
#[derive(Clone, Debug)]
pub struct Agents {
    path: PathBuf,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// Its id, which is the id of its client too.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The id of its key.
    pub key_id: String,
    /// The team whose tasks it sees.
    pub team: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The public key that it signs with, as `ed25519:BASE64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The digest of its key.
    digest: String,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Content {
    /// The team of agents that are added without one.
    team: String,
    agents: Vec<Agent>,
}

/// A new agent.
#[derive(Clone, Debug)]
pub struct NewAgent {
    pub name: String,
    /// The team; the server's own if none.
    pub team: Option<Uuid>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The public key that it signs with.
    pub public_key: Option<PublicKey>,
}

/// A public key, as `ed25519:BASE64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(String);

/// Why agents cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentsError {
    /// The file is another user's, or cannot be read.
    #[error(transparent)]
    Owned(#[from] owned::OwnedError),
    /// It cannot be written.
    #[error("cannot write the agents' file: {0}")]
    Io(#[from] io::Error),
    /// It holds something that this program never wrote.
    #[error("the agents' file is invalid: {0}")]
    Invalid(String),
    /// The name is taken, or is no name.
    #[error("{0}")]
    Name(&'static str),
    /// There are too many.
    #[error("there are {MOST} agents; remove some first")]
    TooMany,
}

impl std::str::FromStr for PublicKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = text.strip_prefix("ed25519:").and_then(decode);
        match bytes.map(|bytes| bytes.len()) {
            Some(32) => Ok(Self(text.to_owned())),
            _ => Err("expected ed25519: and 32 bytes in base64"),
        }
    }
}

impl Agent {
    /// Returns the bytes of its public key.
    #[must_use]
    pub(crate) fn public_bytes(&self) -> Option<Vec<u8>> {
        decode(self.public_key.as_deref()?.strip_prefix("ed25519:")?)
    }

    /// Returns whether a key is this agent's, in a time that does not depend on the key.
    fn has_key(&self, digest: &str) -> bool {
        self.digest.as_bytes().ct_eq(digest.as_bytes()).into()
    }
}

impl Agents {
    /// Returns the agents in a file.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns all agents.
    ///
    /// # Errors
    /// Returns an error if the file cannot be trusted or read.
    pub fn list(&self) -> Result<Vec<Agent>, AgentsError> {
        Ok(self.read()?.map_or(Vec::new(), |content| content.agents))
    }

    /// Returns the agent that a key is of.
    ///
    /// # Errors
    /// Returns an error if the file cannot be trusted or read.
    pub(crate) fn with_key(&self, key: &str) -> Result<Option<Agent>, AgentsError> {
        let digest = name_of(key.as_bytes());
        // All are compared, so the time says nothing of which one it is.
        let of_key = |found: Option<Agent>, agent: Agent| {
            if agent.has_key(&digest) { Some(agent) } else { found }
        };
        Ok(self.list()?.into_iter().fold(None, of_key))
    }

    /// Returns the agent with an id.
    ///
    /// # Errors
    /// Returns an error if the file cannot be trusted or read.
    pub(crate) fn with_id(&self, id: &str) -> Result<Option<Agent>, AgentsError> {
        Ok(self.list()?.into_iter().find(|agent| agent.id == id))
    }

    /// Adds an agent and returns it with its key, which nothing shows again.
    ///
    /// # Errors
    /// Returns an error for a name that is taken or none, or if the file cannot be written.
    pub fn add(&self, new: &NewAgent) -> Result<(Agent, Zeroizing<String>), AgentsError> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if new.name.is_empty() || new.name.len() > 64 || !new.name.bytes().all(is_part) {
            return Err(AgentsError::Name("expected up to 64 letters, digits, '.', '_' and '-'"));
        }
        let _lock = self.lock()?;
        let mut content = match self.read()? {
            Some(content) => content,
            None => Content { team: Uuid::generate()?.to_string(), agents: Vec::new() },
        };
        if content.agents.iter().any(|agent| agent.name == new.name) {
            return Err(AgentsError::Name("there is an agent with this name"));
        }
        if content.agents.len() >= MOST {
            return Err(AgentsError::TooMany);
        }
        let key = random_word(KEY_BEGINS)?;
        let agent = Agent {
            id: Uuid::generate()?.to_string(),
            name: new.name.clone(),
            key_id: Uuid::generate()?.to_string(),
            team: new.team.as_ref().map_or(content.team.clone(), ToString::to_string),
            scopes: new.scopes.clone(),
            public_key: new.public_key.clone().map(|key| key.0),
            digest: name_of(key.as_bytes()),
        };
        content.agents.push(agent.clone());
        self.write(&content)?;
        Ok((agent, key))
    }

    /// Removes an agent. Its key and its tokens are worth nothing from then on. Returns whether there was one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be trusted, read or written.
    pub fn remove(&self, name: &str) -> Result<bool, AgentsError> {
        let _lock = self.lock()?;
        let Some(mut content) = self.read()? else { return Ok(false) };
        let before = content.agents.len();
        content.agents.retain(|agent| agent.name != name);
        let is_removed = content.agents.len() < before;
        if is_removed {
            self.write(&content)?;
        }
        Ok(is_removed)
    }

    fn read(&self) -> Result<Option<Content>, AgentsError> {
        let Some(bytes) = owned::read(&self.path)? else { return Ok(None) };
        let content = serde_json::from_slice(&bytes);
        content.map(Some).map_err(|error| AgentsError::Invalid(error.to_string()))
    }

    /// Replaces the file as a whole: a reader sees the old one or the new one.
    fn write(&self, content: &Content) -> Result<(), AgentsError> {
        let bytes = serde_json::to_vec_pretty(content)
            .map_err(|error| AgentsError::Invalid(error.to_string()))?;
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        Ok(fs::rename(&new, &self.path)?)
    }

    /// Keeps others from changing the file at the same time.
    fn lock(&self) -> io::Result<File> {
        let directory = File::open(self.path.parent().unwrap_or(Path::new("/")))?;
        flock(&directory, FlockOperation::LockExclusive)?;
        Ok(directory)
    }
}

/// Returns a word with 256 random bits.
pub(crate) fn random_word(beginning: &str) -> io::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    if getrandom(&mut bytes[..], GetRandomFlags::empty())? != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Zeroizing::new(format!("{beginning}{}", URL_SAFE_NO_PAD.encode(&bytes[..]))))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Agents, AgentsError, NewAgent};
    use crate::scope::Scope;

    fn new(name: &str) -> NewAgent {
        NewAgent {
            name: name.to_owned(),
            team: None,
            scopes: vec![Scope::TaskRead],
            public_key: None,
        }
    }

    #[test]
    fn key_is_kept_as_a_digest_in_a_file_of_the_users_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agents.json");
        let agents = Agents::new(path.clone());
        assert_eq!(agents.list().unwrap(), []);
        let (agent, key) = agents.add(&new("one")).unwrap();
        let (other, _) = agents.add(&new("two")).unwrap();
        assert_eq!(agent.team, other.team);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(key.as_str()) && !text.contains(&key["pinfold_ak_".len()..]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(agents.with_key(&key).unwrap(), Some(agent.clone()));
        assert_eq!(agents.with_key(&key[1..]).unwrap(), None);
        assert_eq!(agents.with_key("").unwrap(), None);
        assert!(agents.remove("one").unwrap() && !agents.remove("one").unwrap());
        assert_eq!(agents.with_key(&key).unwrap(), None);
        assert_eq!(agents.with_id(&agent.id).unwrap(), None);
    }

    #[test]
    fn name_is_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let agents = Agents::new(directory.path().join("agents.json"));
        agents.add(&new("one")).unwrap();
        for name in ["one", "", "a b", "a\n", "../x"] {
            assert!(matches!(agents.add(&new(name)), Err(AgentsError::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn file_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agents.json");
        let agents = Agents::new(path.clone());
        let (_, key) = agents.add(&new("one")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(agents.with_key(&key).is_err() && agents.add(&new("two")).is_err());
    }
}
