//! Host keys from files of known hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::public::SshPublicKey;

/// Returns a host as these files name it: with its port in brackets, unless that is 22.
#[must_use]
pub fn host_label(name: &str, port: u16) -> String {
    if port == 22 { name.to_owned() } else { format!("[{name}]:{port}") }
}

/// Returns the keys that a file gives a host, by its own name or the hash of it. Patterns with `*` and
/// `?` are not followed, a line that marks an authority names no key, and a key that any line revokes
/// counts nowhere.
#[must_use]
pub fn host_keys(file: &str, label: &str) -> Vec<SshPublicKey> {
    let mut keys = Vec::new();
    let mut revoked = Vec::new();
    for line in file.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let (marker, line) = match line.strip_prefix('@') {
            Some(marked) => marked.split_once([' ', '\t']).unwrap_or((marked, "")),
            None => ("", line),
        };
        let Some((hosts, key)) = line.trim_start().split_once([' ', '\t']) else { continue };
        let Ok(key) = key.parse::<SshPublicKey>() else { continue };
        match marker {
            "" if names(hosts, label) => keys.push(key),
            "revoked" => revoked.push(key),
            _ => {}
        }
    }
    keys.retain(|key| !revoked.contains(key));
    keys
}

/// Returns whether a line's first word names the host.
fn names(hosts: &str, label: &str) -> bool {
    if hosts.starts_with('|') {
        return is_hash_of(hosts, label).unwrap_or(false);
    }
    let mut hosts = hosts.split(',');
    hosts.clone().any(|host| host.eq_ignore_ascii_case(label))
        && !hosts.any(|host| host.strip_prefix('!').is_some_and(|not| not == label))
}

/// Returns whether this is `|1|salt|HMAC-SHA1 of the name|` of a label.
fn is_hash_of(hashed: &str, label: &str) -> Option<bool> {
    let (salt, hash) = hashed.strip_prefix("|1|")?.split_once('|')?;
    let salt = STANDARD.decode(salt).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    let hash = STANDARD.decode(hash).ok()?;
    Some(hmac::verify(&key, label.to_ascii_lowercase().as_bytes(), &hash).is_ok())
}
