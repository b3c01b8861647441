//! MCP servers of the user's, without secrets.
//!
//! Only keys that are known to hold none come in. Literal values of an environment and of headers are left out,
//! whatever they look like. A server whose command or URL may hold a secret is left out as a whole.

use serde_json::{Map, Value};

/// Keys that come in as they are: words, lists of words, numbers and flags.
const PLAIN: [&str; 21] = [
    "args",
    "bearer_token_env_var",
    "command",
    "cwd",
    "description",
    "disabled",
    "disabled_tools",
    "enabled",
    "enabled_tools",
    "env_http_headers",
    "env_vars",
    "excludeTools",
    "httpUrl",
    "includeTools",
    "serverUrl",
    "startup_timeout_sec",
    "timeout",
    "tool_timeout_sec",
    "transport",
    "type",
    "url",
];

/// Keys of variables and headers, which may refer to a variable of the sandbox.
const VALUES: [&str; 4] = ["env", "environment", "headers", "http_headers"];

/// Words in the names of options that take a secret.
const SECRET_WORDS: [&str; 9] =
    ["key", "token", "secret", "password", "passwd", "auth", "bearer", "credential", "cookie"];

/// Options that take a password or a user in many programs.
const SHORT: [&str; 2] = ["-p", "-u"];

/// Beginnings of credentials that services give out.
const SECRET_BEGINNINGS: [&str; 15] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "AIza",
    "eyJ",
    "npm_",
    "hf_",
];

/// From this length on, letters mixed with digits are taken for a credential.
const RANDOM: usize = 20;

/// Returns the servers that may come in, and notes what is left out.
pub(super) fn clean(servers: Map<String, Value>, left_out: &mut Vec<String>) -> Map<String, Value> {
    let mut cleaned = Map::new();
    for (name, server) in servers {
        let shown = name.escape_debug().to_string();
        let Value::Object(server) = server else {
            left_out.push(format!("MCP server {shown}"));
            continue;
        };
        match one(server, &shown, left_out) {
            Some(server) => drop(cleaned.insert(name, Value::Object(server))),
            None => {
                left_out.push(format!("MCP server {shown} (its command or URL may hold a secret)"))
            }
        }
    }
    cleaned
}

fn one(
    server: Map<String, Value>,
    name: &str,
    left_out: &mut Vec<String>,
) -> Option<Map<String, Value>> {
    let mut cleaned = Map::new();
    for (key, value) in server {
        if VALUES.contains(&key.as_str()) {
            let Value::Object(values) = value else { continue };
            let is_kept = |value: &Value| value.as_str().is_some_and(is_reference);
            let (kept, dropped): (Map<_, _>, Map<_, _>) =
                values.into_iter().partition(|(_, value)| is_kept(value));
            let dropped: Vec<String> =
                dropped.keys().map(|variable| variable.escape_debug().to_string()).collect();
            if !dropped.is_empty() {
                left_out.push(format!("{key} {} of {name}", dropped.join(" ")));
            }
            cleaned.insert(key, Value::Object(kept));
        } else if PLAIN.contains(&key.as_str()) {
            if may_hold_secret(&key, &value) {
                return None;
            }
            cleaned.insert(key, value);
        } else {
            left_out.push(format!("{} of {name}", key.escape_debug()));
        }
    }
    Some(cleaned)
}

/// Returns whether a value is the name of a variable, and nothing else: `$NAME`, `${NAME}` or
/// `{env:NAME}`.
fn is_reference(value: &str) -> bool {
    let braced = |text: &'_ str| {
        text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).map(str::to_owned)
    };
    let of_opencode = value.strip_prefix("{env:").and_then(|text| text.strip_suffix('}'));
    let name = braced(value)
        .or_else(|| of_opencode.map(str::to_owned))
        .or_else(|| value.strip_prefix('$').map(str::to_owned));
    name.is_some_and(|name| {
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.bytes().next().is_some_and(|first| !first.is_ascii_digit()) && name.bytes().all(plain)
    })
}

/// Returns whether a value may hold a secret, in a form in which programs take one.
fn may_hold_secret(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => is_secret(text),
        Value::Number(_) | Value::Bool(_) | Value::Null => false,
        // Names of variables by names of headers.
        Value::Object(names) => {
            key != "env_http_headers"
                || !names.values().all(|value| value.as_str().is_some_and(is_variable))
        }
        Value::Array(items) => {
            let (mut expects_secret, mut follows_short) = (false, false);
            items.iter().any(|item| {
                let Some(text) = item.as_str() else { return true };
                let is_given = std::mem::take(&mut expects_secret) && !is_reference(text);
                let is_option = text.starts_with('-');
                let is_short = SHORT.iter().any(|short| text.starts_with(short));
                // As in `-pPASSWORD`. A port is no password.
                if is_short && text.len() > 2 && !is_number(&text[2..]) {
                    return true;
                }
                expects_secret = is_option && !text.contains('=') && names_secret(text);
                let is_given =
                    is_given || std::mem::replace(&mut follows_short, is_short) && !is_number(text);
                is_given && !is_option || is_secret(text)
            })
        }
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
}

fn is_variable(text: &str) -> bool {
    is_reference(&format!("${text}"))
}

fn names_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| text.contains(word))
}

fn is_secret(text: &str) -> bool {
    let is_url = text.contains("://");
    let has_more = is_url && text.contains(['@', '?', '#']);
    let is_assigned = text.match_indices(['=', ':']).any(|(at, _)| {
        let (name, value) = (&text[..at], text[at + 1..].trim_start());
        let start = name.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let name = &name[start.map_or(0, |start| start + 1)..];
        let value = value.split_ascii_whitespace().next().unwrap_or_default();
        names_secret(name) && !value.is_empty() && !is_reference(value)
    });
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    has_more || is_assigned || words.into_iter().any(is_credential)
}

/// Returns whether a word looks like what a service gives out.
fn is_credential(word: &str) -> bool {
    let begins = SECRET_BEGINNINGS
        .iter()
        .any(|beginning| word.strip_prefix(beginning).is_some_and(|rest| rest.len() >= 8));
    let longest = word.split(['-', '_']).max_by_key(|part| part.len()).unwrap_or_default();
    let is_random = longest.len() >= RANDOM
        && longest.bytes().any(|byte| byte.is_ascii_digit())
        && longest.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_identifier = word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
    begins || is_random || is_identifier
}
