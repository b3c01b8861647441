//! The revisions of the protocol. Until 2025-11-25 a client says at the beginning which one it speaks
//! (`initialize`); since 2026-07-28 each request says so by itself, and each result says what it is
//! (modelcontextprotocol.io/specification/2026-07-28/basic). Both are answered, request by request.

use pinfold_client::{Fault, code};
use serde_json::{Value, json};

/// Those that begin with `initialize`, the newest first.
const BEGUN: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Those that each request names.
const NAMED: [&str; 1] = ["2026-07-28"];

/// Where a request names its revision, and what its client can do.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Where a result says whose it is.
const SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// `UnsupportedProtocolVersionError`.
const UNSUPPORTED: i64 = -32_022;
/// Milliseconds for which a list of tools may be kept: it is that of this executable.
const KEPT: u64 = 3_600_000;

/// How a request says which revision it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// By what was said at the beginning.
    Begun,
    /// Each request names its revision.
    Named,
}

impl Era {
    /// Returns the revision of a request.
    ///
    /// # Errors
    /// Returns an error for a revision that is not spoken, or a request that says only half of what it
    /// has to.
    pub(crate) fn of(method: &str, params: &Value) -> Result<Self, Fault> {
        let meta = &params["_meta"];
        let (version, capabilities) = (&meta[VERSION], &meta[CAPABILITIES]);
        if version.is_null() && capabilities.is_null() && method != "server/discover" {
            return Ok(Self::Begun);
        }
        let missing = |key, what| {
            Fault::new(code::PARAMS, format!("{method}: _meta: {key}: expected {what}"))
        };
        let version = version.as_str().ok_or_else(|| missing(VERSION, "a string"))?;
        if !NAMED.contains(&version) {
            let data = json!({ "supported": NAMED, "requested": version });
            let message = format!("no revision {version} of the protocol is spoken here");
            return Err(Fault { data: Some(data), ..Fault::new(UNSUPPORTED, message) });
        }
        capabilities.as_object().ok_or_else(|| missing(CAPABILITIES, "an object"))?;
        Ok(Self::Named)
    }

    /// Returns a result as it is sent.
    pub(crate) fn complete(self, mut result: Value) -> Value {
        if self == Self::Named
            && let Some(members) = result.as_object_mut()
        {
            members.insert("resultType".to_owned(), json!("complete"));
            members.insert("_meta".to_owned(), json!({ SERVER: server() }));
        }
        result
    }

    /// Returns the same of one that may be kept.
    pub(crate) fn cacheable(self, result: Value) -> Value {
        let mut result = self.complete(result);
        if self == Self::Named {
            result["ttlMs"] = json!(KEPT);
            result["cacheScope"] = json!("public");
        }
        result
    }
}

/// Answers a client that asks at the beginning: its own revision, if that is spoken, and else the
/// newest one that begins so.
pub(crate) fn initialize(params: &Value, instructions: &str) -> Value {
    let asked = params["protocolVersion"].as_str();
    let version = BEGUN.into_iter().find(|version| Some(*version) == asked);
    json!({
        "protocolVersion": version.unwrap_or(BEGUN[0]),
        "capabilities": { "tools": {} },
        "serverInfo": server(),
        "instructions": instructions,
    })
}

/// Returns the same for one that may ask at any time.
pub(crate) fn discover(instructions: &str) -> Value {
    json!({
        "supportedVersions": NAMED,
        "capabilities": { "tools": {} },
        "instructions": instructions,
    })
}

fn server() -> Value {
    json!({ "name": "pinfold", "title": "pinfold", "version": env!("CARGO_PKG_VERSION") })
}
