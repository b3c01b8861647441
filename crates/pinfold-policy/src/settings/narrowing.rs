//! What a task takes away from the policy of its sandboxes. By its form it can only narrow: limits are caps, hosts are
//! kept or not, names are hidden, modes become stricter. What would give something has no key.

use serde_json::{Map, Value, json};

use super::effective::Settings;
use super::error::SettingsError;
use super::fields::{limits, list, sub_table, word};
use super::keys::{NARROWING, PROJECT, USER, sub_keys};
use super::layers::FlagLimits;
use super::widen;
use super::words::{BoundaryName, LandlockMode, MemoryGrant};
use crate::document::{Document, FileError, Item, Key, SettingsFile};
use crate::glob::Glob;
use crate::limits::Limits;
use crate::network::NetworkRule;
use crate::origin::{Origin, Place, Valued};

/// What narrows a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowing {
    limits: Limits,
    hosts: Option<Valued<Vec<NetworkRule>>>,
    deny: Vec<Valued<Glob>>,
    boundary: Option<Valued<BoundaryName>>,
    landlock: Option<Valued<LandlockMode>>,
    /// Whether the sandbox may ask the host to run commands.
    host_exec: Option<Valued<bool>>,
    /// What tools may do with the identity's diary at most.
    memory: Option<Valued<MemoryGrant>>,
}

impl Narrowing {
    /// The keys that it has in a file.
    pub const KEYS: &[Key] = NARROWING;

    /// Reads the table `policy` of a task.
    ///
    /// # Errors
    /// Returns an error with the line for a mistake, and for what would widen.
    pub fn read(item: &Item<'_>) -> Result<Self, FileError> {
        refuse_widening(item, NARROWING)?;
        let section = item.table(NARROWING)?;
        for name in ["network", "files", "hostExec"] {
            let keys = sub_keys(NARROWING, name);
            section.get(name).map_or(Ok(()), |table| refuse_widening(&table, keys))?;
        }
        let network = sub_table(&section, NARROWING, "network")?;
        let hosts = network
            .as_ref()
            .and_then(|network| network.get("hosts"))
            .map(|item| item.list()?.iter().map(Item::parsed).collect());
        let host_exec = sub_table(&section, NARROWING, "hostExec")?
            .map(|table| table.read("allowed", Item::flag))
            .transpose()?;
        Ok(Self {
            limits: limits(&section, origin)?,
            hosts: hosts.transpose()?.map(valued),
            deny: list(
                sub_table(&section, NARROWING, "files")?.as_ref(),
                "deny",
                origin,
                Item::parsed,
            )?,
            boundary: word(&section, "boundary", origin)?,
            landlock: word(&section, "landlock", origin)?,
            host_exec: host_exec.flatten().map(valued),
            memory: word(&section, "memory", origin)?,
        })
    }

    /// Reads it from JSON, as [`Self::to_json`] writes it.
    ///
    /// # Errors
    /// Returns what is wrong, and the key.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        let path = std::path::Path::new("policy.json");
        let document = Document::parse(SettingsFile { path, bytes: text.as_bytes() })?;
        Self::read(&Item::of_document(&document))
    }

    /// Lowers limits to these, where they are higher or there are none.
    pub fn cap(&mut self, caps: FlagLimits) {
        let FlagLimits { cpus, memory, pids, disk, files, timeout } = caps;
        lower(&mut self.limits.cpus, cpus.map(valued));
        lower(&mut self.limits.memory, memory.map(valued));
        lower(&mut self.limits.pids, pids.map(valued));
        lower(&mut self.limits.disk, disk.map(valued));
        lower(&mut self.limits.files, files.map(valued));
        lower(&mut self.limits.timeout, timeout.map(valued));
    }

    /// Returns it as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { limits, hosts, deny, boundary, landlock, host_exec, memory: diary } = self;
        let Limits { cpus, memory, pids, disk, files, timeout, build } = limits;
        let mut whole = Map::new();
        let mut resources = Map::new();
        let mut limit = |key: &str, value: Option<Value>| {
            resources.extend(value.map(|value| (key.to_owned(), value)));
        };
        let number = |cpus: u32| Value::from(f64::from(cpus) / 1000.0);
        limit("cpus", cpus.as_ref().map(|value| number(value.value.thousandths())));
        limit("memory", memory.as_ref().map(text));
        limit("pids", pids.as_ref().map(|value| value.value.into()));
        limit("disk", disk.as_ref().map(text));
        limit("files", files.as_ref().map(|value| value.value.into()));
        limit("timeout", timeout.as_ref().map(text));
        limit("build", build.as_ref().map(text));
        let mut set = |key: &str, value: Option<Value>| {
            whole.extend(value.map(|value| (key.to_owned(), value)));
        };
        set("resources", (!resources.is_empty()).then_some(Value::Object(resources)));
        let rules = |hosts: &Valued<Vec<NetworkRule>>| {
            hosts.value.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        set("network", hosts.as_ref().map(|hosts| json!({ "hosts": rules(hosts) })));
        let globs: Vec<String> = deny.iter().map(|glob| glob.value.to_string()).collect();
        set("files", (!globs.is_empty()).then(|| json!({ "deny": globs })));
        set("boundary", boundary.as_ref().map(text));
        set("landlock", landlock.as_ref().map(text));
        set("hostExec", host_exec.as_ref().map(|allowed| json!({ "allowed": allowed.value })));
        set("memory", diary.as_ref().map(text));
        Value::Object(whole)
    }

    /// Takes from the settings what this does not leave.
    ///
    /// # Errors
    /// Returns an error if a weaker boundary than this asks for was chosen.
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), SettingsError> {
        let Self { limits, hosts, deny, boundary, landlock, host_exec, memory: diary } = self;
        // Each by its name: a limit that is added later does not compile until it is lowered here.
        let Limits { cpus, memory, pids, disk, files, timeout, build } = limits;
        let kept = &mut settings.limits;
        lower(&mut kept.cpus, cpus);
        lower(&mut kept.memory, memory);
        lower(&mut kept.pids, pids);
        lower(&mut kept.disk, disk);
        lower(&mut kept.files, files);
        lower(&mut kept.timeout, timeout);
        lower(&mut kept.build, build);
        if let Some(hosts) = hosts {
            let network = &mut settings.network;
            network.allow = both(&network.allow, &hosts);
            network.internal = both(&network.internal, &hosts);
            // A rule for a published port, an approval or a remote of git comes later.
            settings.ceiling.narrow_hosts(hosts);
        }
        settings.files.deny.extend(deny);
        settings.scalars.boundary =
            widen::boundary(settings.scalars.boundary.take(), [boundary, None])?;
        if let Some(landlock) =
            landlock.filter(|least| least.value > settings.scalars.landlock.value)
        {
            settings.scalars.landlock = landlock;
        }
        if host_exec.as_ref().is_some_and(|allowed| !allowed.value) {
            settings.host_exec = super::HostExec::default();
            settings.approve.clear();
        }
        if let Some(diary) = diary.filter(|most| most.value < settings.scalars.memory.value) {
            settings.scalars.memory = diary;
        }
        Ok(())
    }
}

/// Refuses keys that other settings files have and that would give the sandbox something.
fn refuse_widening(item: &Item<'_>, known: &[Key]) -> Result<(), FileError> {
    let has = |keys: &[Key], name: &str| keys.iter().any(|key| key.name == name);
    let elsewhere = |name: &str| {
        let tables = ["network", "files", "hostExec"].map(|table| sub_keys(USER, table));
        [PROJECT, USER].into_iter().chain(tables).any(|keys| has(keys, name))
    };
    for entry in item.map()?.items() {
        if !has(known, entry.name()) && elsewhere(entry.name()) {
            return Err(entry.invalid(
                "a task's policy only narrows; ask for more in the repository's sandbox.json, which `pinfold trust` \
                 trusts, or in your config.toml",
            ));
        }
    }
    Ok(())
}

fn origin(_: Place) -> Origin {
    Origin::Flag { name: "--narrow" }
}

fn valued<T>(value: T) -> Valued<T> {
    Valued::new(value, Origin::Flag { name: "--narrow" })
}

fn text<T: ToString>(value: &Valued<T>) -> Value {
    value.value.to_string().into()
}

/// Lowers a limit to a cap, or sets it if it was missing.
fn lower<T: Copy + Ord>(limit: &mut Option<Valued<T>>, cap: Option<Valued<T>>) {
    if let Some(cap) = cap
        && limit.as_ref().is_none_or(|limit| cap.value < limit.value)
    {
        *limit = Some(cap);
    }
}

/// Returns what both allow: rules that one of `hosts` covers as they are, and those of `hosts` that a rule covers. A rule
/// on some requests covers nothing but itself.
fn both(
    rules: &[Valued<NetworkRule>],
    hosts: &Valued<Vec<NetworkRule>>,
) -> Vec<Valued<NetworkRule>> {
    let kept = rules.iter().filter(|rule| hosts.value.iter().any(|host| host.covers(&rule.value)));
    let is_given = |host: &&NetworkRule| {
        let mut all = rules.iter().map(|rule| &rule.value);
        all.any(|rule| !rule.looks_at_requests() && rule.covers(host))
    };
    let further = hosts
        .value
        .iter()
        .filter(is_given)
        .map(|host| Valued::new(host.clone(), hosts.origin.clone()));
    kept.cloned().chain(further).collect()
}
