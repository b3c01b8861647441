//! Tools that a server offers a model.

use pinfold_client::Fault;
use serde_json::{Value, json};

use super::call::Call;

/// A call of a tool.
pub struct Asked<'a> {
    pub name: &'a str,
    /// What it is called with.
    pub arguments: Value,
    /// The call, which may be taken back.
    pub call: &'a Call,
    /// Says how far it has come.
    pub report: &'a dyn Fn(u64, &str),
}

/// A failed call of any tool of the server.
pub struct Failure<'a> {
    pub name: &'a str,
    /// The call's id.
    pub id: &'a str,
    /// What it was called with.
    pub arguments: &'a Value,
    /// What it said.
    pub said: &'a str,
}

/// Some tools.
pub trait Toolset: Send + Sync {
    /// Returns them as clients see them.
    fn definitions(&self) -> Vec<Value>;

    /// Returns whether one has this name.
    fn has(&self, name: &str) -> bool;

    /// Calls one. What it refuses is a result that the model reads; what is no call is a fault.
    fn call(&self, asked: Asked<'_>) -> Result<Value, Fault>;

    /// Notes a failed call of any tool.
    fn note(&self, failure: &Failure<'_>);
}

/// Returns the result of a call that gave a text, or failed with one.
pub(crate) fn text_result(text: Result<String, String>) -> Value {
    let (text, is_error) = match text {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
}

/// Returns what a failed call says to the model; none if it did not fail.
pub(crate) fn failed(result: &Result<Value, Fault>) -> Option<String> {
    match result {
        Ok(result) if result["isError"] == true => {
            let parts = result["content"].as_array().into_iter().flatten();
            let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
            Some(texts.join("\n"))
        }
        Ok(_) => None,
        Err(fault) => Some(fault.message.clone()),
    }
}
