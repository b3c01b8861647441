//! What the settings say about SSH.

use super::fields::{list, path};
use super::keys::{SSH, SSH_HOST};
use crate::document::{FileError, Item, Section};
use crate::network::Host;
use crate::origin::{Origin, Valued};
use crate::path::HostPath;
use crate::ssh::{SshHostRule, SshKey, SshSettings};

/// Returns the user's `[ssh]`.
pub(super) fn settings(
    section: &Section<'_>,
    home: Option<&HostPath>,
) -> Result<SshSettings, FileError> {
    let Some(item) = section.get("ssh") else { return Ok(SshSettings::default()) };
    let table = item.table(SSH)?;
    let hosts = list(Some(&table), "hosts", Origin::User, host)?;
    for (index, rule) in hosts.iter().enumerate() {
        let same = |other: &&Valued<SshHostRule>| {
            (&other.value.host, other.value.port) == (&rule.value.host, rule.value.port)
        };
        if let Some(other) = hosts[..index].iter().find(same) {
            let what = format!("{} is named twice, first by {}", rule.value.host, other.origin);
            return Err(item.invalid(what));
        }
    }
    let agent = table.read("agent", Item::flag)?.unwrap_or(false);
    let key = match (table.get("key"), table.get("public_key"), agent) {
        (None, None, false) => None,
        (Some(file), None, false) => {
            let key = SshKey::File(path(&file, home)?);
            Some(Valued::new(key, Origin::User(file.place())))
        }
        (None, Some(public), true) => {
            let key = SshKey::Agent(public_key(&public)?);
            Some(Valued::new(key, Origin::User(public.place())))
        }
        _ => {
            return Err(item.invalid(
                "expected either key, the path of a key file, or agent = true with public_key, \
                 the key in your ssh-agent",
            ));
        }
    };
    Ok(SshSettings { key, hosts })
}

fn host(item: &Item<'_>) -> Result<SshHostRule, FileError> {
    let table = item.table(SSH_HOST)?;
    let host = table.require("host")?;
    let Host::Name(name) = host.parsed()? else {
        return Err(host.invalid("expected a host by its name"));
    };
    let known = table.read("known", |item| {
        let keys: Vec<String> = item.list()?.iter().map(public_key).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(item.invalid("leave it out to use the keys that your own ssh knows"));
        }
        Ok(keys)
    })?;
    let port = table.read("port", |item| {
        u16::try_from(item.count()?).map_err(|_| item.invalid("expected at most 65535"))
    })?;
    Ok(SshHostRule {
        host: name,
        port: port.unwrap_or(SshHostRule::PORT),
        user: table.read("user", user)?.unwrap_or_else(|| SshHostRule::USER.to_owned()),
        known: known.unwrap_or_default(),
        hostbound: table.read("hostbound", Item::flag)?.unwrap_or(true),
    })
}

/// Returns a name that an `ssh_config` can hold in one word.
fn user(item: &Item<'_>) -> Result<String, FileError> {
    let text = item.text()?;
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.bytes().all(inner) {
        return Err(item.invalid("expected letters, digits, `.`, `_` and `-`"));
    }
    Ok(text.to_owned())
}

/// Returns the shape of a public key; what is in it is looked at when it is used.
fn public_key(item: &Item<'_>) -> Result<String, FileError> {
    let text = item.text()?;
    let mut words = text.split_ascii_whitespace();
    let data = |word: &str| word.starts_with("AAAA");
    match (words.next(), words.next()) {
        (Some(kind), Some(key)) if !kind.starts_with("AAAA") && data(key) => Ok(text.to_owned()),
        _ => Err(item.invalid("expected a public key as in a .pub file: ssh-ed25519 AAAA…")),
    }
}
