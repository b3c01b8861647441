//! The identity's `env` file: what is in it, and what of it is no secret.
//!
//! The rule for the mode `brokered`: a variable enters when its name says that it is public, and
//! nothing in the name says that it is not. A name is read as words between underscores. The last
//! one must be among `PUBLIC`, none may be among `SECRET`, and of a URL only scheme, host and
//! port may be there.

use std::os::unix::ffi::OsStrExt as _;

use pinfold_policy::env::{EnvLayer, EnvName, EnvVar, Owner, reserved};
use pinfold_terminal::notify;

use super::ORIGIN;
use crate::refusal;
use pinfold_host::Refusal;

/// Last words of names whose values are public.
const PUBLIC: [&str; 14] = [
    "ID",
    "NAME",
    "EMAIL",
    "URL",
    "ENDPOINT",
    "HOST",
    "PORT",
    "REGION",
    "USER",
    "LOGIN",
    "SLUG",
    "FINGERPRINT",
    "ORG",
    "REPO",
];

/// Words that keep a name out wherever they are.
const SECRET: [&str; 22] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "PIN",
    "PAT",
    "CREDENTIAL",
    "CREDENTIALS",
    "PRIVATE",
    "AUTH",
    "BEARER",
    "COOKIE",
    "SESSION",
    "SEED",
    "MNEMONIC",
    "WEBHOOK",
];

/// Returns the variables of a file: `NAME=VALUE` on each line, the value bare or in quotes, `export`
/// before it and lines with `#` allowed. Nothing is expanded.
///
/// # Errors
/// Returns an error for the number of a line that is not one of these; never its content.
pub fn parse<'a>(shown: &str, file: &'a [u8]) -> Result<Vec<(EnvName, &'a str)>, Refusal> {
    let mut variables = Vec::new();
    let bad = |line: usize, why: &str| refusal(format!("{shown}:{line}: {why}"), None);
    let text = std::str::from_utf8(file).map_err(|_| bad(1, "the file is not text in UTF-8"))?;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let expected = || bad(index + 1, "expected NAME=VALUE");
        let (name, value) = line.split_once('=').ok_or_else(expected)?;
        let name: EnvName = name.parse().map_err(|_| expected())?;
        let value = unquoted(value).ok_or_else(|| bad(index + 1, "a quote is not closed"))?;
        if value.contains('\0') {
            return Err(bad(index + 1, "the value contains a NUL byte"));
        }
        variables.push((name, value));
    }
    Ok(variables)
}

fn unquoted(value: &str) -> Option<&str> {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].strip_suffix(quote),
        _ => Some(value),
    }
}

/// Returns a variable of the identity; none where the name is not free for it, which is said.
pub(super) fn variable(name: EnvName, value: &str) -> Option<EnvVar> {
    if let Some(rule) = reserved(&name).filter(|rule| rule.owner >= Owner::Administrator) {
        notify!("pinfold: note: the identity's {name} does not enter: {}", rule.reason);
        return None;
    }
    let value = std::ffi::OsStr::from_bytes(value.as_bytes()).to_owned();
    Some(EnvVar { name, value, layer: EnvLayer::Identity, origin: ORIGIN })
}

/// Returns the variables that hold no secret.
///
/// # Errors
/// Returns the errors of [`parse`].
pub(super) fn public(shown: &str, file: &[u8]) -> Result<Vec<EnvVar>, Refusal> {
    let all = parse(shown, file)?.into_iter();
    let free = all.filter(|(name, value)| reserved(name).is_none() && is_public(name, value));
    Ok(free.filter_map(|(name, value)| variable(name, value)).collect())
}

/// Returns whether a variable is no secret, by the rule above.
pub(super) fn is_public(name: &EnvName, value: &str) -> bool {
    let name = name.as_str().to_ascii_uppercase();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let Some(last) = words.last() else { return false };
    let says_so = PUBLIC.contains(last) && !words.iter().any(|word| SECRET.contains(word));
    says_so && (!value.contains("://") || is_bare_url(value))
}

/// Returns a URL of a scheme, a host and perhaps a port.
fn is_bare_url(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let host = rest.strip_suffix('/').unwrap_or(rest);
    !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}
