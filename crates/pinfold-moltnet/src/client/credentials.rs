//! What a worker proves to a server with who it is.

use std::env::VarError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::owned;
use pinfold_policy::path::Escaped;
use zeroize::Zeroizing;

use pinfold_content::read;

/// The variables that credentials come from.
pub const VARIABLES: [&str; 4] =
    ["MOLTNET_AGENT_KEY", "MOLTNET_CLIENT_ID", "MOLTNET_CLIENT_SECRET", "MOLTNET_CREDENTIALS_PATH"];

/// The longest secret, in bytes.
const LONGEST: usize = 4_096;

/// What a worker proves with who it is.
pub struct Credentials(Kind, Option<String>);

pub(super) enum Kind {
    None,
    /// A key that goes with each request.
    Key(Zeroizing<String>),
    /// A secret that tokens are given for.
    Client {
        id: String,
        secret: Zeroizing<String>,
    },
}

/// Why there are no credentials. Never holds one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// There are none.
    #[error("no credentials for the server")]
    Missing,
    /// One is not usable.
    #[error("{0} is not usable: it is empty, too long, or has characters that no key has")]
    Unusable(&'static str),
    /// One of two is missing.
    #[error("MOLTNET_CLIENT_ID and MOLTNET_CLIENT_SECRET belong together")]
    Half,
    /// The file is another user's, or cannot be read.
    #[error(transparent)]
    Owned(#[from] owned::OwnedError),
    /// The file is not one of credentials.
    #[error("{} is not a file of credentials: {reason}", Escaped(.path))]
    File {
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

impl CredentialsError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing => Some(
                "set MOLTNET_AGENT_KEY, or MOLTNET_CLIENT_ID and MOLTNET_CLIENT_SECRET, or name a moltnet.json \
                 with --credentials"
                    .to_owned(),
            ),
            Self::Owned(error) => error.hint(),
            _ => None,
        }
    }
}

impl fmt::Debug for Credentials {
    /// Shows nothing of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl Credentials {
    /// Finds credentials: an agent's key in the environment, else a client's id and secret there, else the file that is
    /// named or that the environment names.
    ///
    /// # Errors
    /// Returns an error if there are none, or if the first that are there cannot be used.
    pub fn find(file: Option<&Path>) -> Result<Self, CredentialsError> {
        let [key, id, secret, path] = VARIABLES.map(variable);
        let (key, id, secret, path) = (key?, id?, secret?, path?);
        if let Some(key) = key {
            return Ok(Self(Kind::Key(usable(key, VARIABLES[0])?), None));
        }
        match (id, secret) {
            (Some(id), Some(secret)) => {
                let id = usable(id, VARIABLES[1])?.to_string();
                let secret = usable(secret, VARIABLES[2])?;
                return Ok(Self(Kind::Client { id, secret }, None));
            }
            (None, None) => {}
            _ => return Err(CredentialsError::Half),
        }
        let path = path.map(|path| PathBuf::from(path.as_str()));
        match file.map(Path::to_owned).or(path) {
            Some(path) => Self::of_file(&path),
            None => Err(CredentialsError::Missing),
        }
    }

    fn of_file(path: &Path) -> Result<Self, CredentialsError> {
        let missing =
            || CredentialsError::File { path: path.to_owned(), reason: "there is no such file" };
        let bytes = owned::read(path)?.map(Zeroizing::new).ok_or_else(missing)?;
        Self::of_moltnet(&bytes, path)
    }

    /// Returns the credentials in the bytes of a `moltnet.json`, which errors call so.
    ///
    /// # Errors
    /// Returns an error for a file without credentials, or with some that cannot be used.
    pub fn of_moltnet(bytes: &[u8], path: &Path) -> Result<Self, CredentialsError> {
        let invalid = |reason| CredentialsError::File { path: path.to_owned(), reason };
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8"))?;
        let content = read(text).map_err(|_| invalid("it is not JSON"))?;
        let client = content.get("oauth2").ok_or_else(|| invalid("it has no oauth2"))?;
        if client.given("client_secret_ref").is_some() {
            return Err(invalid("its secret is in another place, which is not supported"));
        }
        let field = |name| client.text_of(name).map(|text| Zeroizing::new(text.into_owned()));
        let (Some(id), Some(secret)) = (field("client_id"), field("client_secret")) else {
            return Err(invalid("its oauth2 has no client_id or no client_secret"));
        };
        let id = usable(id, "its client_id")?.to_string();
        let secret = usable(secret, "its client_secret")?;
        let address = content.get("endpoints").and_then(|all| all.text_of("api"));
        Ok(Self(Kind::Client { id, secret }, address.map(|address| address.into_owned())))
    }

    /// Checks that they may go to a server: those of a file go to the server of the file alone.
    pub(super) fn check_address(&self, origin: &str) -> io::Result<()> {
        let Some(address) = &self.1 else { return Ok(()) };
        let its = address.trim_end_matches('/');
        if its == origin || its.strip_prefix(origin).is_some_and(|rest| rest.starts_with('/')) {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "the credentials are for {}, not for {origin}",
                Escaped(Path::new(its))
            )))
        }
    }

    /// Returns credentials that prove nothing.
    pub(super) fn none() -> Self {
        Self(Kind::None, None)
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.0
    }

    #[cfg(test)]
    pub(super) fn key(key: &str) -> Self {
        Self(Kind::Key(Zeroizing::new(key.to_owned())), None)
    }
}

/// Returns the value of a variable. One that is no text is an error: other credentials are not what was meant.
fn variable(name: &'static str) -> Result<Option<Zeroizing<String>>, CredentialsError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty()).map(Zeroizing::new)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(CredentialsError::Unusable(name)),
    }
}

/// Checks that a text can be sent in a header.
fn usable(
    text: Zeroizing<String>,
    name: &'static str,
) -> Result<Zeroizing<String>, CredentialsError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && !text.is_empty() && text.len() <= LONGEST {
        Ok(text)
    } else {
        Err(CredentialsError::Unusable(name))
    }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, CredentialsError};
    use pinfold_content::Value;

    #[test]
    fn credentials_of_a_file_go_to_its_server_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("moltnet.json");
        let oauth2 = Value::object([("client_id", "i".into()), ("client_secret", "canary".into())]);
        let endpoints = Value::object([("api", "https://api.example.com/".into())]);
        let content = Value::object([("oauth2", oauth2), ("endpoints", endpoints)]);
        std::fs::write(&path, content.to_string()).unwrap();
        let found = Credentials::of_file(&path).unwrap();
        assert!(found.check_address("https://api.example.com").is_ok());
        for other in ["https://api.example.co", "http://api.example.com", "https://evil.example"] {
            assert!(found.check_address(other).is_err(), "{other}");
        }
        assert!(!format!("{found:?}").contains("canary"));
    }

    #[test]
    fn file_without_a_secret_is_refused_without_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("moltnet.json");
        for content in ["", "{}", r#"{"oauth2":{"client_id":"canary"}}"#, "canary"] {
            std::fs::write(&path, content).unwrap();
            let error = Credentials::of_file(&path).unwrap_err();
            assert!(matches!(error, CredentialsError::File { .. }), "{error}");
            assert!(!error.to_string().contains("canary"));
        }
    }
}
