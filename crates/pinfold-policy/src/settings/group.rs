//! Groups of sessions, and how far they are trusted.

use std::collections::BTreeMap;

use super::ceiling::at_most;
use super::error::SettingsError;
use super::fields::word;
use super::group_home::{self, GroupFiles};
use super::keys::GROUP;
use super::words::GroupTrust;
use crate::document::{FileError, Item, Section};
use crate::limits::WallTime;
use crate::network::{Brokered, Hint, NetworkPolicy, SecretRule};
use crate::origin::{Origin, Valued};
use crate::path::HostPath;

/// What a user says of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupSettings {
    pub(super) trust: Option<Valued<GroupTrust>>,
    pub(super) timeout: Option<Valued<WallTime>>,
    pub(super) concurrency: Option<u32>,
    pub(super) files: GroupFiles,
}

/// Returns the user's `[groups]`.
pub(super) fn groups(
    section: &Section<'_>,
    home: Option<&HostPath>,
) -> Result<Vec<(String, GroupSettings)>, FileError> {
    let Some(item) = section.get("groups") else { return Ok(Vec::new()) };
    let mut groups = Vec::new();
    for item in item.map()?.items() {
        let table = item.table(GROUP)?;
        let group = GroupSettings {
            trust: word(&table, "trust", Origin::User)?,
            timeout: word(&table, "timeout", Origin::User)?,
            concurrency: table.read("concurrency", concurrency)?,
            files: group_home::files_of(&table, item.name(), home)?,
        };
        groups.push((item.name().to_owned(), group));
    }
    Ok(groups)
}

fn concurrency(item: &Item<'_>) -> Result<u32, FileError> {
    const MOST: u32 = 64;
    match u32::try_from(item.count()?) {
        Ok(count) if count <= MOST => Ok(count),
        _ => Err(item.invalid(format!("expected at most {MOST}"))),
    }
}

/// Returns what the user says of the chosen group.
pub(super) fn named<'g>(
    group: Option<&Valued<String>>,
    groups: &'g [(String, GroupSettings)],
) -> Option<&'g GroupSettings> {
    let group = group?;
    groups.iter().find(|(name, _)| *name == group.value).map(|(_, settings)| settings)
}

/// Returns how many tasks of each group are worked on at once.
pub(super) fn concurrencies(groups: &[(String, GroupSettings)]) -> BTreeMap<String, u32> {
    groups.iter().filter_map(|(name, group)| Some((name.clone(), group.concurrency?))).collect()
}

/// Returns the files of the chosen group. No other group has them.
pub(super) fn files(
    group: &Valued<String>,
    named: Option<&GroupSettings>,
    groups: &[(String, GroupSettings)],
) -> Result<GroupFiles, SettingsError> {
    let files = match named {
        Some(named) if group_home::is_name(&named.files.folder) => named.files.clone(),
        _ => GroupFiles::of_unnamed(&group.value)?,
    };
    let other = groups
        .iter()
        .find(|(name, other)| *name != group.value && other.files.folder == files.folder);
    match other {
        Some((other, _)) => {
            Err(SettingsError::SharedFolder { group: group.value.clone(), other: other.clone() })
        }
        None => Ok(files),
    }
}

/// Returns how far a session is trusted. One of no group is the user's own, and has what the user's
/// settings give it.
pub(super) fn trust(
    group: Option<&Valued<String>>,
    groups: &[(String, GroupSettings)],
    ceiling: Option<&Valued<GroupTrust>>,
) -> Result<Valued<GroupTrust>, SettingsError> {
    let given = match group {
        None => Valued::default_of(GroupTrust::Admin),
        Some(group) => {
            let named = groups.iter().find(|(name, _)| *name == group.value);
            let given = named.and_then(|(_, group)| group.trust.clone());
            given.unwrap_or(Valued::default_of(GroupTrust::Member))
        }
    };
    let trust = at_most("groups.trust", Some(given), ceiling)?;
    Ok(trust.unwrap_or(Valued::default_of(GroupTrust::Member)))
}

/// Admits a secret: it opens its hosts, or it is brokered.
pub(super) fn admit(
    policy: &mut NetworkPolicy,
    secret: &Valued<SecretRule>,
    group: Option<&Valued<String>>,
    trust: &Valued<GroupTrust>,
) {
    if trust.value == GroupTrust::Admin || !secret.value.is_for_github() {
        let rules = secret.value.rules();
        policy.allow.extend(rules.map(|rule| Valued::new(rule, secret.origin.clone())));
        return;
    }
    let whom = group.map_or("this session".to_owned(), |group| format!("group {}", group.value));
    let hint = group.map(|group| format!("trust = \"admin\" under [groups.{}]", group.value));
    let is_ours = !matches!(trust.origin, Origin::Ceiling(_));
    policy.brokered.push(Brokered {
        secret: secret.clone(),
        whom,
        hint: hint.filter(|_| is_ours).map(Hint::Setting),
        repositories: Vec::new(),
    });
}
