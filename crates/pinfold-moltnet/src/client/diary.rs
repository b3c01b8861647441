//! A client of a server's diary.

use std::io;
use std::time::Duration;

use http::Method;
use pinfold_content::Value;
use pinfold_egress::{WayOut, percent};
use pinfold_memory::{DiaryServer, ServerError};

use super::api::ApiClient;
use super::call::{Call, Calls, Error};
use super::credentials::Credentials;
use crate::scope::Scope;

/// How long a call may take with all that it waits for: the end of a session waits for its calls.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server of diaries, and who one is there.
pub struct RemoteDiaries(Calls);

impl std::fmt::Debug for RemoteDiaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteDiaries").finish_non_exhaustive()
    }
}

impl RemoteDiaries {
    /// Returns the server at an address, for a client with these scopes. Nothing is asked for yet.
    ///
    /// # Errors
    /// Returns an error for an address that the credentials must not go to.
    pub fn new(
        address: &str,
        way: WayOut,
        credentials: Credentials,
        scopes: &'static [Scope],
    ) -> io::Result<Self> {
        let api = ApiClient::new(address, way)?;
        credentials.check_address(&api.origin())?;
        Ok(Self(Calls::new(api, credentials, None, scopes, PATIENCE)))
    }

    fn send(&self, call: &Call) -> Result<Value, ServerError> {
        self.0.send(call).map_err(|error| match error {
            Error::Status { status, problem, .. } => {
                ServerError { status: Some(status), text: problem }
            }
            error => ServerError { status: None, text: error.to_string() },
        })
    }
}

impl DiaryServer for RemoteDiaries {
    fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value, ServerError> {
        let pairs = query.iter().map(|(name, value)| format!("{name}={}", percent::encoded(value)));
        let pairs: Vec<String> = pairs.collect();
        let separator = if pairs.is_empty() { "" } else { "?" };
        self.send(&Call::get(&format!("{path}{separator}{}", pairs.join("&"))))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, ServerError> {
        self.send(&Call::new(Method::POST, path, body.clone()))
    }

    fn delete(&self, path: &str) -> Result<Value, ServerError> {
        self.send(&Call::delete(path))
    }
}
