//! JSON-RPC 2.0 (jsonrpc.org/specification).

use std::fmt;

use pinfold_tools::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Error codes: those of JSON-RPC 2.0, and one of pinfold.
pub mod code {
    /// The message is not JSON.
    pub const PARSE: i64 = -32_700;
    /// The message is not a request.
    pub const REQUEST: i64 = -32_600;
    /// The method does not exist.
    pub const METHOD: i64 = -32_601;
    /// The parameters do not match the method.
    pub const PARAMS: i64 = -32_602;
    /// The call failed; `data` has the details.
    pub const REFUSED: i64 = -32_000;
}

/// By what an answer finds its request: an integer of 64 bits, a string, or null where that could not
/// be read.
pub type Id = Value;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The error code, one of [`code`].
    pub code: i64,
    /// The message for users.
    pub message: String,
    /// Details for programs: a tool error's `kind` and `path`, and `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Returns a fault with a message.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Returns the fault of a failed call, with its hint if there is one.
    #[must_use]
    pub fn refused(message: impl Into<String>, hint: Option<&str>) -> Self {
        let data = hint.map(|hint| serde_json::json!({ "hint": hint }));
        Self { code: code::REFUSED, message: message.into(), data }
    }
}

impl From<ToolError> for Fault {
    fn from(error: ToolError) -> Self {
        let message = error.message.clone();
        Self { code: code::REFUSED, message, data: serde_json::to_value(error).ok() }
    }
}

/// A message, in either direction.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A request.
    Request {
        /// The id that the response repeats.
        id: Id,
        /// The method's name.
        method: String,
        /// The method's parameters.
        params: Value,
    },
    /// A request without a response.
    Notification {
        /// The method's name.
        method: String,
        /// The method's parameters.
        params: Value,
    },
    /// The response to a request.
    Response {
        /// The request's id.
        id: Id,
        /// The method's result, or why it failed.
        result: Result<Value, Fault>,
    },
}

/// A message as it is serialised.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(default)]
    jsonrpc: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    id: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    params: Value,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

/// Deserialises a present member even if it is null: `{"result": null}` is a response.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Message {
    /// Parses a line.
    ///
    /// # Errors
    /// Returns the fault to respond with.
    pub fn read(line: &[u8]) -> Result<Self, (Id, Fault)> {
        let parse = |error: serde_json::Error| {
            let code = if error.is_data() { code::REQUEST } else { code::PARSE };
            (Value::Null, Fault::new(code, error.to_string()))
        };
        // Serde reads a list as the members of a structure, in their order; so a list is
        // refused here: batches of requests are not taken.
        if line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            serde_json::from_slice::<serde::de::IgnoredAny>(line).map_err(parse)?;
            let what = "batch requests are not supported; send one message per line";
            return Err((Value::Null, Fault::new(code::REQUEST, what)));
        }
        let line: Line = serde_json::from_slice(line).map_err(parse)?;
        // A number that is no integer of 64 bits would come back as another one.
        let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
        let no_request = |id: Option<Value>, what: &str| {
            Err((id.filter(is_id).unwrap_or_default(), Fault::new(code::REQUEST, what)))
        };
        if line.jsonrpc != "2.0" {
            return no_request(line.id, "expected \"jsonrpc\": \"2.0\"");
        }
        match (line.method, line.id, line.result, line.error) {
            (Some(method), Some(id), None, None) if is_id(&id) => {
                Ok(Self::Request { id, method, params: line.params })
            }
            (Some(method), None, None, None) => {
                Ok(Self::Notification { method, params: line.params })
            }
            (None, Some(id), Some(result), None) => Ok(Self::Response { id, result: Ok(result) }),
            (None, Some(id), None, Some(fault)) => Ok(Self::Response { id, result: Err(fault) }),
            (_, id, _, _) => no_request(id, "neither a request, a notification nor a response"),
        }
    }
}

impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = Line {
            jsonrpc: "2.0".to_owned(),
            id: None,
            method: None,
            params: Value::Null,
            result: None,
            error: None,
        };
        match self.clone() {
            Self::Request { id, method, params } => {
                (line.id, line.method, line.params) = (Some(id), Some(method), params);
            }
            Self::Notification { method, params } => {
                (line.method, line.params) = (Some(method), params);
            }
            Self::Response { id, result } => {
                line.id = Some(id);
                match result {
                    Ok(result) => line.result = Some(result),
                    Err(fault) => line.error = Some(fault),
                }
            }
        }
        line.serialize(serializer)
    }
}
