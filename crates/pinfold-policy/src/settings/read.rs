//! The three files, read into what they say. Nothing is merged here.

use std::collections::BTreeMap;

use super::ask::{self, AskSettings};
use super::budget::{self, Budget};
use super::ceiling::Ceiling;
use super::diary::{self, DiarySettings};
use super::error::SettingsError;
use super::fields::{check_reserved, env, limits, list, path, sub_table, whole, word};
use super::group::GroupSettings;
use super::group_home::{self, GroupHome};
use super::host_exec::{self, HostExecFile};
use super::keys;
use super::publish::PublishedPort;
use super::scalars::FileScalars;
use super::task_rules::TaskRules;
use super::url::{BaseUrl, BaseUrlError};
use super::values::{EnvSetting, ProviderSettings};
use super::words::{AgentState, GroupTrust};
use super::wrapper::{self, WrapperSetting};
use super::{group, network, ssh};
use crate::document::{Document, FileError, Item, Section, SettingsFile};
use crate::env::{EnvName, Owner};
use crate::glob::Glob;
use crate::limits::Limits;
use crate::network::{NetworkPolicy, SecretRule};
use crate::origin::{Origin, Place, Valued};
use crate::path::HostPath;
use crate::prices::{self, Price};
use crate::ssh::SshSettings;

/// What the user's file says.
#[derive(Debug, Default)]
pub(super) struct UserFile {
    pub(super) scalars: FileScalars,
    pub(super) env: Vec<EnvSetting>,
    pub(super) forward_env: Vec<Valued<EnvName>>,
    pub(super) limits: Limits,
    pub(super) files: UserFiles,
    pub(super) network: NetworkPolicy,
    pub(super) host_exec: HostExecFile,
    pub(super) ask: AskSettings,
    pub(super) secrets: Vec<Valued<SecretRule>>,
    pub(super) publish: Vec<Valued<PublishedPort>>,
    pub(super) diary: DiarySettings,
    pub(super) ssh: SshSettings,
    pub(super) providers: Vec<(String, ProviderSettings)>,
    pub(super) groups: Vec<(String, GroupSettings)>,
    pub(super) group_home: Option<GroupHome>,
    pub(super) budgets: Vec<Budget>,
    pub(super) prices: BTreeMap<String, Price>,
    pub(super) task_rules: TaskRules,
    pub(super) task_database: Option<Valued<String>>,
    pub(super) wrappers: Vec<Valued<WrapperSetting>>,
}

/// The user's `[files]`.
#[derive(Debug, Default)]
pub(super) struct UserFiles {
    pub(super) read: Vec<Valued<HostPath>>,
    pub(super) write: Vec<Valued<HostPath>>,
    pub(super) deny: Vec<Valued<Glob>>,
    pub(super) sockets: Vec<Valued<HostPath>>,
    pub(super) opt_in: Vec<Valued<String>>,
    pub(super) state: Option<Valued<AgentState>>,
    pub(super) my_config: Option<Valued<bool>>,
}

/// What the administrator's file says.
#[derive(Debug, Default)]
pub(super) struct CeilingFile {
    /// What limits; the rest is added to the settings.
    pub(super) ceiling: Ceiling,
    pub(super) deny: Vec<Valued<Glob>>,
    pub(super) env: Vec<EnvSetting>,
    pub(super) budget: Option<Budget>,
    pub(super) group_trust: Option<Valued<GroupTrust>>,
    pub(super) wrappers: Vec<Valued<WrapperSetting>>,
}

pub(super) fn user(
    file: SettingsFile<'_>,
    home: Option<&HostPath>,
) -> Result<UserFile, SettingsError> {
    let document = Document::parse(file)?;
    let section = whole(&document, keys::USER)?;
    Ok(UserFile {
        scalars: FileScalars::read(&section, home)?,
        env: env(&section, Origin::User, Owner::Administrator)?,
        forward_env: forward_env(&section)?,
        limits: limits(&section, Origin::User)?,
        files: user_files(&section, home)?,
        network: network::policy(&section, Origin::User)?,
        host_exec: host_exec::of_user(&section)?,
        ask: ask::of_user(&section)?,
        secrets: network::secrets(&section, Origin::User)?,
        publish: network::publish(&section, Origin::User)?,
        diary: diary::of_user(&section)?,
        ssh: ssh::settings(&section, home)?,
        providers: providers(&section)?,
        groups: group::groups(&section, home)?,
        group_home: group_home::home(&section, home)?,
        budgets: budget::of_user(&section)?,
        prices: section.read("prices", prices::read)?.unwrap_or_default(),
        task_rules: TaskRules::read(&section, home)?,
        task_database: text(&section, "task_database")?,
        wrappers: wrapper::of_file(&section, Origin::User)?,
    })
}

pub(super) fn ceiling(file: SettingsFile<'_>) -> Result<CeilingFile, SettingsError> {
    let document = Document::parse(file)?;
    let section = whole(&document, keys::CEILING)?;
    let host_exec = sub_table(&section, keys::CEILING, "host_exec")?;
    let files = sub_table(&section, keys::CEILING, "files")?;
    let files = files.as_ref();
    let ceiling = Ceiling {
        limits: limits(&section, Origin::Ceiling)?,
        boundaries: section.read("boundaries", |item| {
            let words = item.list()?.iter().map(Item::parsed).collect::<Result<_, _>>()?;
            Ok(Valued::new(words, Origin::Ceiling(item.place())))
        })?,
        landlock: word(&section, "landlock", Origin::Ceiling)?,
        roots: files.map_or(Ok(None), roots)?,
        narrowed_hosts: None,
        hosts: sub_table(&section, keys::CEILING, "network")?.map_or(Ok(None), |table| {
            table.read("hosts", |item| {
                let rules = item.list()?.iter().map(Item::parsed).collect::<Result<_, _>>()?;
                Ok(Valued::new(rules, Origin::Ceiling(item.place())))
            })
        })?,
        agents: section
            .read("agents", |item| Ok(Valued::new(item.texts()?, Origin::Ceiling(item.place()))))?,
        host_exec: host_exec
            .as_ref()
            .map_or(Ok(None), |table| flag(table, "allowed", Origin::Ceiling))?,
        executables: host_exec.as_ref().map_or(Ok(None), |table| {
            table.read("executables", |item| {
                Ok(Valued::new(item.texts()?, Origin::Ceiling(item.place())))
            })
        })?,
        allow_weaker: flag(&section, "allow_weaker", Origin::Ceiling)?,
        nested: flag(&section, "nested", Origin::Ceiling)?,
    };
    Ok(CeilingFile {
        ceiling,
        deny: list(files, "deny", Origin::Ceiling, Item::parsed)?,
        env: env(&section, Origin::Ceiling, Owner::Pinfold)?,
        budget: budget::of_ceiling(&section)?,
        group_trust: word(&section, "group_trust", Origin::Ceiling)?,
        wrappers: wrapper::of_file(&section, Origin::Ceiling)?,
    })
}

fn text(section: &Section<'_>, key: &str) -> Result<Option<Valued<String>>, FileError> {
    section.read(key, |item| {
        let text = item.text()?;
        if text.is_empty() {
            return Err(item.invalid("expected text that is not empty"));
        }
        Ok(Valued::new(text.to_owned(), Origin::User(item.place())))
    })
}

fn flag(
    section: &Section<'_>,
    key: &str,
    origin: fn(Place) -> Origin,
) -> Result<Option<Valued<bool>>, FileError> {
    section.read(key, |item| Ok(Valued::new(item.flag()?, origin(item.place()))))
}

fn forward_env(section: &Section<'_>) -> Result<Vec<Valued<EnvName>>, SettingsError> {
    let names: Vec<Valued<EnvName>> =
        list(Some(section), "forward_env", Origin::User, Item::parsed)?;
    for Valued { value, origin } in &names {
        check_reserved(value, origin, Owner::Administrator)?;
    }
    Ok(names)
}

fn user_files(section: &Section<'_>, home: Option<&HostPath>) -> Result<UserFiles, FileError> {
    let table = sub_table(section, keys::USER, "files")?;
    let table = table.as_ref();
    let paths = |key: &str| list(table, key, Origin::User, |item| path(item, home));
    Ok(UserFiles {
        read: paths("read")?,
        write: paths("write")?,
        deny: list(table, "deny", Origin::User, Item::parsed)?,
        sockets: paths("sockets")?,
        opt_in: list(table, "opt_in", Origin::User, |item| item.text().map(str::to_owned))?,
        state: table.map_or(Ok(None), |table| word(table, "state", Origin::User))?,
        my_config: table.map_or(Ok(None), |table| flag(table, "my_config", Origin::User))?,
    })
}

fn roots(section: &Section<'_>) -> Result<Option<Valued<Vec<HostPath>>>, FileError> {
    section.read("roots", |item| {
        let roots = item.list()?.iter().map(|item| path(item, None)).collect::<Result<_, _>>()?;
        Ok(Valued::new(roots, Origin::Ceiling(item.place())))
    })
}

fn providers(section: &Section<'_>) -> Result<Vec<(String, ProviderSettings)>, FileError> {
    let Some(item) = section.get("providers") else { return Ok(Vec::new()) };
    let mut providers = Vec::new();
    for item in item.map()?.items() {
        let table = item.table(keys::PROVIDER)?;
        let base_url = base_url(&table)?;
        let models = table.read("models", |item| match item.texts()? {
            models if models.is_empty() => Err(item.invalid("expected at least one model")),
            models => Ok(Valued::new(models, Origin::User(item.place()))),
        })?;
        let account = table.read("account", |item| {
            let header = |item: Item<'_>| {
                let value = Valued::new(item.text()?.to_owned(), Origin::User(item.place()));
                Ok((item.name().to_owned(), value))
            };
            item.map()?.items().map(header).collect()
        })?;
        let settings = ProviderSettings {
            base_url,
            api: word(&table, "api", Origin::User)?,
            env_var_name: word(&table, "env_var_name", Origin::User)?,
            keyless: flag(&table, "keyless", Origin::User)?,
            region: word(&table, "region", Origin::User)?,
            project: word(&table, "project", Origin::User)?,
            models,
            account: account.unwrap_or_default(),
        };
        providers.push((item.name().to_owned(), settings));
    }
    Ok(providers)
}

fn base_url(table: &Section<'_>) -> Result<Option<Valued<BaseUrl>>, FileError> {
    let accepts_plain = table.read("plain_http", Item::flag)?.unwrap_or(false);
    table.read("base_url", |item| {
        let text = item.text()?;
        let url = if accepts_plain { BaseUrl::with_plain_http(text) } else { text.parse() };
        let url = url.map_err(|error| match error {
            BaseUrlError::Plain => item.invalid(format!(
                "{error}, or add plain_http = true for a server of your own network"
            )),
            error => item.invalid(error),
        })?;
        Ok(Valued::new(url, Origin::User(item.place())))
    })
}
