//! An agent's file to its profile.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::keys::{AGENT, AUTH, FILE, GRANTS, PROVIDER, STATE};
use super::profile::{
    AgentProfile, AuthMode, AuthProfile, FileTemplate, Provider, RefreshForm, RefreshTerms,
};
use super::template::Template;
use crate::document::{Document, FileError, Item, Section, SettingsFile};
use crate::env::EnvName;
use crate::network::HostPattern;

/// Reads the file of the agent called `name`.
pub(super) fn profile(name: &str, file: SettingsFile<'_>) -> Result<AgentProfile, FileError> {
    let document = Document::parse(file)?;
    let table = Section::of_document(&document, AGENT)?;
    let named = table.require("name")?;
    if named.text()? != name {
        return Err(named.invalid(format!("must be {name:?}, as the file is called")));
    }
    let providers = providers(&table)?;
    Ok(AgentProfile {
        name: name.to_owned(),
        cli_command: full(&table.require("cli_command")?)?,
        cli_flags: texts(&table, "cli_flags")?,
        default_model: table.read("default_model", full)?,
        default_provider: default_provider(&table, &providers)?,
        recipe: table.read("recipe", file_name)?,
        model_args: table.read("model_args", templates)?.unwrap_or_default(),
        unattended_flags: texts(&table, "unattended_flags")?,
        nested: table.read("nested", Item::flag)?.unwrap_or(false),
        env: env(&table)?,
        files: files(&table)?,
        state: sub_paths(&table, "state", STATE, "paths", relative)?,
        reads: sub_paths(&table, "grants", GRANTS, "read", any_path)?,
        silent_hosts: table.read("silent_hosts", host_patterns)?.unwrap_or_default(),
        providers,
    })
}

fn host_patterns(item: &Item<'_>) -> Result<Vec<HostPattern>, FileError> {
    item.list()?.iter().map(Item::parsed).collect()
}

fn full(item: &Item<'_>) -> Result<String, FileError> {
    match item.text()? {
        "" => Err(item.invalid("expected text that is not empty")),
        text => Ok(text.to_owned()),
    }
}

/// A name that becomes part of a path.
fn file_name(item: &Item<'_>) -> Result<String, FileError> {
    let text = full(item)?;
    match Path::new(&text).file_name() {
        Some(name) if name == text.as_str() => Ok(text),
        _ => Err(item.invalid("expected a name without `/`")),
    }
}

fn texts(table: &Section<'_>, key: &str) -> Result<Vec<String>, FileError> {
    Ok(table.read(key, Item::texts)?.unwrap_or_default())
}

fn templates(item: &Item<'_>) -> Result<Vec<Template>, FileError> {
    item.list()?.iter().map(Item::parsed).collect()
}

fn env(table: &Section<'_>) -> Result<Vec<(EnvName, Template)>, FileError> {
    let Some(item) = table.get("env") else { return Ok(Vec::new()) };
    let variable = |item: Item<'_>| {
        let name = item.name().parse().map_err(|error| item.invalid(error))?;
        Ok((name, item.parsed()?))
    };
    item.map()?.items().map(variable).collect()
}

fn files(table: &Section<'_>) -> Result<Vec<FileTemplate>, FileError> {
    let Some(item) = table.get("files") else { return Ok(Vec::new()) };
    let file = |item: &Item<'_>| {
        let table = item.table(FILE)?;
        Ok(FileTemplate {
            path: relative(&table.require("path")?)?,
            content: table.require("content")?.parsed()?,
            mode: table.read("mode", mode)?.unwrap_or(0o600),
            keep: table.read("keep", Item::flag)?.unwrap_or(false),
        })
    };
    item.list()?.iter().map(file).collect()
}

fn mode(item: &Item<'_>) -> Result<u32, FileError> {
    let text = item.text()?;
    let is_octal = text.len() <= 4 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if is_octal => Ok(mode),
        _ => Err(item.invalid("expected permission bits in octal, such as \"0600\"")),
    }
}

fn sub_paths(
    table: &Section<'_>,
    key: &str,
    known: &'static [crate::document::Key],
    list: &str,
    read: fn(&Item<'_>) -> Result<PathBuf, FileError>,
) -> Result<Vec<PathBuf>, FileError> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    let Some(paths) = item.table(known)?.get(list) else { return Ok(Vec::new()) };
    paths.list()?.iter().map(read).collect()
}

fn any_path(item: &Item<'_>) -> Result<PathBuf, FileError> {
    let path = Path::new(item.text()?);
    let plain = |part| !matches!(part, Component::ParentDir | Component::CurDir);
    if path.as_os_str().is_empty() || !path.components().all(plain) {
        return Err(item.invalid("expected a path without `..`"));
    }
    Ok(path.components().collect())
}

fn relative(item: &Item<'_>) -> Result<PathBuf, FileError> {
    let path = any_path(item)?;
    if path.has_root() {
        return Err(item.invalid("expected a path relative to the home directory"));
    }
    Ok(path)
}

fn default_provider(
    table: &Section<'_>,
    providers: &BTreeMap<String, Provider>,
) -> Result<Option<String>, FileError> {
    match table.get("default_provider") {
        None if providers.is_empty() => Ok(None),
        None => Err(table.missing("default_provider")),
        Some(item) => match item.text()? {
            name if providers.contains_key(name) => Ok(Some(name.to_owned())),
            _ => Err(item.invalid("names none of the providers")),
        },
    }
}

fn providers(table: &Section<'_>) -> Result<BTreeMap<String, Provider>, FileError> {
    let Some(item) = table.get("providers") else { return Ok(BTreeMap::new()) };
    item.map()?
        .items()
        .map(|item| Ok((item.name().to_owned(), provider(&item.table(PROVIDER)?)?)))
        .collect()
}

fn provider(table: &Section<'_>) -> Result<Provider, FileError> {
    let auth_modes: Vec<AuthMode> = table
        .read("auth_modes", |item| item.list()?.iter().map(Item::parsed).collect())?
        .unwrap_or_default();
    let default_auth_mode = match table.get("default_auth_mode") {
        None if auth_modes.is_empty() => None,
        None => return Err(table.missing("default_auth_mode")),
        Some(item) => Some(among(&item, item.parsed()?, &auth_modes)?),
    };
    let api = table.read("api", Item::parsed)?;
    if api.is_some() {
        table.require("base_url")?;
        table.require("secret")?;
    }
    Ok(Provider {
        sandbox_agent: table.read("sandbox_agent", full)?,
        base_image: table.read("base_image", full)?,
        uses_proxy: table.read("uses_proxy", Item::flag)?.unwrap_or(true),
        allowed_hosts: texts(table, "allowed_hosts")?,
        env_var_name: table.read("env_var_name", Item::parsed)?,
        default_auth_mode,
        api,
        base_url: table.read("base_url", Item::parsed)?,
        secret: table.read("secret", file_name)?,
        model_prefix: table.read("model_prefix", full)?.unwrap_or_default(),
        default_model: table.read("default_model", full)?,
        env: env(table)?,
        files: files(table)?,
        auth: auth(table, &auth_modes)?,
        auth_modes,
    })
}

fn among(item: &Item<'_>, mode: AuthMode, modes: &[AuthMode]) -> Result<AuthMode, FileError> {
    if modes.contains(&mode) {
        return Ok(mode);
    }
    Err(item.invalid("is not among auth_modes"))
}

fn auth(
    table: &Section<'_>,
    modes: &[AuthMode],
) -> Result<BTreeMap<AuthMode, AuthProfile>, FileError> {
    let Some(item) = table.get("auth") else { return Ok(BTreeMap::new()) };
    let read = |item: Item<'_>| {
        let mode = item.name().parse().map_err(|error| item.invalid(error))?;
        let table = item.table(AUTH)?;
        let profile = AuthProfile {
            key_prefix: table.read("key_prefix", full)?.unwrap_or_default(),
            env: env(&table)?,
            base_url: table.read("base_url", Item::parsed)?,
            versioned: table.read("versioned", Item::flag)?.unwrap_or(true),
            account_header: table.read("account_header", full)?,
            refresh: refresh(&table)?,
        };
        Ok((among(&item, mode, modes)?, profile))
    };
    item.map()?.items().map(read).collect()
}

fn refresh(table: &Section<'_>) -> Result<Option<RefreshTerms>, FileError> {
    if table.get("token_url").is_none() {
        return Ok(None);
    }
    Ok(Some(RefreshTerms {
        token_url: table.require("token_url")?.parsed()?,
        client_id: full(&table.require("client_id")?)?,
        form: table.read("refresh_form", Item::parsed)?.unwrap_or(RefreshForm::Json),
    }))
}
