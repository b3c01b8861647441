//! What the server remembers of each request.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// Headers that carry a credential.
pub(crate) const CREDENTIAL_HEADERS: &[&str] =
    &["authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization", "cookie"];

/// Query parameters that carry a credential.
const CREDENTIAL_PARAMETERS: &[&str] = &["key", "api_key", "access_token"];

/// One request, as it arrived.
#[derive(Debug, Clone, Serialize)]
pub struct Request {
    /// Its number, from 0.
    pub n: usize,
    /// Seconds since 1970.
    pub t: f64,
    /// `GET`, `POST`, ….
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The API it belongs to: `anthropic`, `chat`, `responses`.
    pub api: Option<&'static str>,
    /// Every header or query parameter that carries a credential, exactly as received. Names
    /// are in lower case; a query parameter's begins with `?`. An object in the log.
    #[serde(serialize_with = "as_object")]
    pub auth: Vec<(String, String)>,
    /// All headers, names in lower case. An object in the log.
    #[serde(serialize_with = "as_object")]
    pub headers: Vec<(String, String)>,
    /// The body. Not in the log.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The names of the tools on offer.
    pub tools: Vec<String>,
    /// The step that was played, for requests that got one.
    pub step: Option<usize>,
    /// The last tool result, its first 300 characters.
    pub last_result: String,
    /// Whether the step's `expect` matched, if it has one.
    pub expect: Option<bool>,
    /// The status of the answer.
    pub status: u16,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Self {
        let is_credential =
            |(name, _): &&(String, String)| CREDENTIAL_HEADERS.contains(&name.as_str());
        let mut auth: Vec<_> = headers.iter().filter(is_credential).cloned().collect();
        let query = path.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if CREDENTIAL_PARAMETERS.contains(&name) {
                auth.push((format!("?{name}"), value.to_owned()));
            }
        }
        let t = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self {
            n: 0,
            t,
            method: method.to_owned(),
            path: path.to_owned(),
            api: None,
            auth,
            headers: headers.to_vec(),
            body: body.to_vec(),
            model: None,
            stream: false,
            tools: Vec::new(),
            step: None,
            last_result: String::new(),
            expect: None,
            status: 0,
        }
    }

    /// Returns the first header of a name given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the credential of a name given in lower case, exactly as received.
    #[must_use]
    pub fn credential(&self, name: &str) -> Option<&str> {
        self.auth.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the keys that came with the request, without the word `Bearer`.
    #[must_use]
    pub fn keys(&self) -> Vec<&str> {
        self.auth.iter().map(|(_, value)| without_bearer(value)).collect()
    }

    /// Returns the body as JSON, if it is.
    #[must_use]
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Writes an object. Of two values with one name, the log has both.
fn as_object<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = BTreeMap::<&str, Vec<&str>>::new();
    for (name, value) in pairs {
        object.entry(name).or_default().push(value);
    }
    serializer.collect_map(object.iter().map(|(name, values)| (name, values.join(", "))))
}

fn without_bearer(value: &str) -> &str {
    match value.split_once(char::is_whitespace) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim_start(),
        _ => value,
    }
}
