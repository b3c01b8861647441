//! What the settings say about the network and its secrets.

use super::error::SettingsError;
use super::fields::{Layer, check_reserved, list, sub_table};
use super::keys::{self, REQUESTS, SECRET};
use super::publish::PublishedPort;
use crate::document::{FileError, Item, Section};
use crate::env::Owner;
use crate::network::{
    HostPattern, NetworkPolicy, NetworkRule, PathPattern, Preset, SecretRule, Spots,
};
use crate::origin::{Origin, Valued};
use crate::ssh::SshHostRule;

/// What may be reached, on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagNetwork {
    /// `--allow-host RULE`.
    pub allow: Vec<NetworkRule>,
    /// `--allow PRESET`.
    pub presets: Vec<Preset>,
    /// `--allow-internal-host RULE`.
    pub internal: Vec<NetworkRule>,
    /// `--intercept HOST`.
    pub intercept: Vec<HostPattern>,
    /// `--publish [ADDRESS:][HOST_PORT:]PORT`.
    pub publish: Vec<PublishedPort>,
}

/// Reads `network` of the user's or a repository's file.
pub(super) fn policy(section: &Section<'_>, layer: Layer) -> Result<NetworkPolicy, FileError> {
    let table = sub_table(section, keys::USER, "network")?;
    let table = table.as_ref();
    let mut allow = list(table, "allow", layer, Item::parsed)?;
    allow.extend(list(table, "allowedHosts", layer, Item::parsed)?);
    allow.extend(list(table, "requests", layer, requests)?);
    Ok(NetworkPolicy {
        allow,
        internal: list(table, "allowedInternalHosts", layer, Item::parsed)?,
        intercept: list(table, "intercept", layer, Item::parsed)?,
        brokered: Vec::new(),
    })
}

fn requests(item: &Item<'_>) -> Result<NetworkRule, FileError> {
    let table = item.table(REQUESTS)?;
    let methods = table.read("methods", |item| some(item)?.iter().map(method).collect())?;
    let paths = table.read("paths", |item| {
        some(item)?.iter().map(Item::parsed::<PathPattern>).collect::<Result<Vec<_>, _>>()
    })?;
    let rule = NetworkRule {
        methods: methods.unwrap_or_default(),
        paths: paths.unwrap_or_default(),
        ..table.require("host")?.parsed()?
    };
    if !rule.looks_at_requests() {
        return Err(item.invalid("names neither methods nor paths; list the host under allow"));
    }
    Ok(rule)
}

/// Returns a list that is given names something: read as "all", an empty one would open what it looks as
/// if it closed.
fn some<'a>(item: &Item<'a>) -> Result<Vec<Item<'a>>, FileError> {
    let items = item.list()?;
    if items.is_empty() {
        return Err(item.invalid("an empty list; leave the key out for all"));
    }
    Ok(items)
}

fn method(item: &Item<'_>) -> Result<String, FileError> {
    match item.text()? {
        text if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            Ok(text.to_owned())
        }
        _ => Err(item.invalid(crate::network::InvalidRule::Method)),
    }
}

/// Reads `secrets` of the user's or a repository's file.
pub(super) fn secrets(
    section: &Section<'_>,
    layer: Layer,
) -> Result<Vec<Valued<SecretRule>>, SettingsError> {
    let secrets = list(Some(section), "secrets", layer, secret)?;
    for Valued { value, origin } in &secrets {
        check_reserved(&value.env, origin, Owner::Pinfold)?;
    }
    check_variables(&secrets)?;
    Ok(secrets)
}

/// Refuses two secrets that want one variable.
pub(super) fn check_variables(secrets: &[Valued<SecretRule>]) -> Result<(), SettingsError> {
    for (index, Valued { value, origin }) in secrets.iter().enumerate() {
        if let Some(other) = secrets[..index].iter().find(|other| other.value.env == value.env) {
            return Err(SettingsError::TwoSecrets {
                origin: origin.clone(),
                name: value.env.clone(),
                other: other.origin.clone(),
            });
        }
    }
    Ok(())
}

fn secret(item: &Item<'_>) -> Result<SecretRule, FileError> {
    const HTTPS: u16 = 443;
    let table = item.table(SECRET)?;
    let hosts = table.require("hosts")?;
    let spots = table.read("where", |item| {
        let words = some(item)?.iter().map(Item::parsed).collect::<Result<Vec<Spots>, _>>()?;
        Ok(words.into_iter().collect())
    })?;
    let ports = table.read("ports", |item| some(item)?.iter().map(port).collect())?;
    let rule = SecretRule {
        id: id(&table.require("id")?)?,
        env: table.require("env")?.parsed()?,
        hosts: hosts.list()?.iter().map(host).collect::<Result<_, _>>()?,
        ports: ports.unwrap_or_else(|| vec![HTTPS]),
        spots: spots.unwrap_or(Spots::USUAL),
        required: table.read("required", Item::flag)?.unwrap_or(false),
    };
    if rule.hosts.is_empty() {
        return Err(hosts.invalid("a secret needs at least one host"));
    }
    Ok(rule)
}

fn id(item: &Item<'_>) -> Result<String, FileError> {
    let text = item.text()?;
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.bytes().all(inner) {
        return Err(item.invalid("expected letters, digits, `.`, `_` and `-`"));
    }
    Ok(text.to_owned())
}

/// Reads a host of a secret: one that is named, never every host, never an address.
fn host(item: &Item<'_>) -> Result<HostPattern, FileError> {
    match item.parsed()? {
        HostPattern::AnyName | HostPattern::Exactly(crate::network::Host::Address(_)) => {
            Err(item.invalid("a secret goes to hosts by name: NAME or *.NAME"))
        }
        pattern => Ok(pattern),
    }
}

fn port(item: &Item<'_>) -> Result<u16, FileError> {
    u16::try_from(item.count()?).map_err(|_| item.invalid("expected at most 65535"))
}

/// Reads `publish` of the user's or a repository's file.
pub(super) fn publish(
    section: &Section<'_>,
    layer: Layer,
) -> Result<Vec<Valued<PublishedPort>>, FileError> {
    list(Some(section), "publish", layer, |item| item.parsed())
}

/// Returns the user's ports and those of the flags.
pub(super) fn published(
    mut ports: Vec<Valued<PublishedPort>>,
    flags: &mut FlagNetwork,
) -> Vec<Valued<PublishedPort>> {
    let origin = |port| Valued::new(port, Origin::Flag { name: "--publish" });
    ports.extend(std::mem::take(&mut flags.publish).into_iter().map(origin));
    ports
}

/// Returns the user's policy with what logins need and the flags add. A host that is allowed as an
/// internal one is allowed.
pub(super) fn merged<'a>(
    mut policy: NetworkPolicy,
    hosts: impl Iterator<Item = &'a Valued<SshHostRule>>,
    flags: FlagNetwork,
) -> NetworkPolicy {
    policy.allow.extend(hosts.map(|host| Valued::new(host.value.rule(), host.origin.clone())));
    fn by<T>(name: &'static str) -> impl Fn(T) -> Valued<T> {
        move |value| Valued::new(value, Origin::Flag { name })
    }
    policy.allow.extend(flags.allow.into_iter().map(by("--allow-host")));
    let presets = flags.presets.into_iter().flat_map(Preset::rules);
    policy.allow.extend(presets.map(by("--allow")));
    policy.allow.extend(flags.internal.iter().cloned().map(by("--allow-internal-host")));
    policy.internal.extend(flags.internal.into_iter().map(by("--allow-internal-host")));
    policy.intercept.extend(flags.intercept.into_iter().map(by("--intercept")));
    policy
}
