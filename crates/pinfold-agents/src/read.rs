//! An agent's file to its profile.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::host_files::{HostFile, HostVariables};
use crate::keys::{
    AGENT, AUTH, CONFIG_KEY, FILE, GRANTS, HOST, HOST_FILE, MY_CONFIG, PROVIDER, STATE,
};
use crate::place::UrlTemplate;
use crate::profile::{
    AgentProfile, AuthMode, AuthProfile, ConfigKey, FileTemplate, HostDirectory, MyConfig,
    Provider, RefreshForm, RefreshTerms,
};
use crate::template::Template;
use pinfold_policy::document::{Document, FileError, Item, Section, SettingsFile};
use pinfold_policy::env::EnvName;
use pinfold_policy::network::HostPattern;
use pinfold_policy::settings::Api;

/// Reads the file of the agent called `name`.
pub(crate) fn profile(name: &str, file: SettingsFile<'_>) -> Result<AgentProfile, FileError> {
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
        headless_args: texts(&table, "headless_args")?,
        permission_args: texts(&table, "permission_args")?,
        memory_flags: texts(&table, "memory_flags")?,
        memory_env: env(&table, "memory_env")?,
        memory_files: files(&table, "memory_files")?,
        prompt_args: texts(&table, "prompt_args")?,
        nested: table.read("nested", Item::flag)?.unwrap_or(false),
        env: env(&table, "env")?,
        files: files(&table, "files")?,
        state: sub_paths(&table, "state", STATE, "paths", relative)?,
        reads: sub_paths(&table, "grants", GRANTS, "read", any_path)?,
        silent_hosts: table.read("silent_hosts", host_patterns)?.unwrap_or_default(),
        providers,
        compatible: compatible(&table)?,
        host_refused: host_refused(&table)?,
        model_variables: names(&table, "model_variables")?,
        host_files: host_files(&table)?,
        host_directories: host_directories(&table)?,
        my_config: my_config(&table)?,
        stateless_flags: match table.get("state") {
            Some(state) => texts(&state.table(STATE)?, "without_flags")?,
            None => Vec::new(),
        },
    })
}

fn my_config(table: &Section<'_>) -> Result<MyConfig, FileError> {
    let Some(item) = table.get("my_config") else { return Ok(MyConfig::default()) };
    let table = item.table(MY_CONFIG)?;
    let read = table.read("read", |item| item.list()?.iter().map(relative).collect())?;
    Ok(MyConfig {
        read: read.unwrap_or_default(),
        servers: config_keys(&table, "servers")?,
        keys: config_keys(&table, "keys")?,
        server_args: table.read("server_args", templates)?.unwrap_or_default(),
        server_env: env(&table, "server_env")?,
        without_flags: texts(&table, "without_flags")?,
    })
}

fn config_keys(table: &Section<'_>, key: &str) -> Result<Vec<ConfigKey>, FileError> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    let one = |item: &Item<'_>| {
        let table = item.table(CONFIG_KEY)?;
        Ok(ConfigKey {
            from: relative(&table.require("from")?)?,
            key: full(&table.require("key")?)?,
            into: relative(&table.require("into")?)?,
        })
    };
    item.list()?.iter().map(one).collect()
}

fn compatible(table: &Section<'_>) -> Result<BTreeMap<Api, Provider>, FileError> {
    let Some(item) = table.get("compatible") else { return Ok(BTreeMap::new()) };
    let one = |item: Item<'_>| {
        let api = item.name().parse().map_err(|error| item.invalid(error))?;
        Ok((api, provider(&item.table(PROVIDER)?)?))
    };
    item.map()?.items().map(one).collect()
}

fn host_refused(table: &Section<'_>) -> Result<BTreeMap<EnvName, String>, FileError> {
    let Some(item) = table.get("host_refused") else { return Ok(BTreeMap::new()) };
    let one = |item: Item<'_>| {
        let name = item.name().parse().map_err(|error| item.invalid(error))?;
        Ok((name, full(&item)?))
    };
    item.map()?.items().map(one).collect()
}

fn host_files(table: &Section<'_>) -> Result<Vec<HostFile>, FileError> {
    let Some(item) = table.get("host_files") else { return Ok(Vec::new()) };
    let file = |item: &Item<'_>| {
        let table = item.table(HOST_FILE)?;
        Ok(HostFile {
            path: any_path(&table.require("path")?)?,
            key: full(&table.require("key")?)?,
            sets: table.require("sets")?.parsed()?,
            provider: table.read("provider", full)?,
            except: texts(&table, "except")?,
        })
    };
    item.list()?.iter().map(file).collect()
}

fn host_directories(table: &Section<'_>) -> Result<Vec<HostDirectory>, FileError> {
    let Some(item) = table.get("host_directories") else { return Ok(Vec::new()) };
    let one = |item: Item<'_>| {
        let place = any_path(&item)?;
        let mut parts = place.iter().map(|part| part.to_str().unwrap_or_default());
        let variable = parts.next().unwrap_or_default().parse();
        Ok(HostDirectory {
            path: relative_path(item.name(), &item)?,
            variable: variable.map_err(|error| item.invalid(error))?,
            below: parts.collect(),
        })
    };
    item.map()?.items().map(one).collect()
}

fn names(table: &Section<'_>, key: &str) -> Result<Vec<EnvName>, FileError> {
    let names = table.read(key, |item| item.list()?.iter().map(Item::parsed).collect())?;
    Ok(names.unwrap_or_default())
}

fn host_variables(table: &Section<'_>) -> Result<HostVariables, FileError> {
    let Some(item) = table.get("host") else { return Ok(HostVariables::default()) };
    let table = item.table(HOST)?;
    Ok(HostVariables {
        chosen_by: names(&table, "chosen_by")?,
        base_url: names(&table, "base_url")?,
        region: names(&table, "region")?,
        project: names(&table, "project")?,
    })
}

fn base_url(table: &Section<'_>) -> Result<Option<UrlTemplate>, FileError> {
    let Some(item) = table.get("base_url") else { return Ok(None) };
    let mut template: UrlTemplate = item.parsed()?;
    if let Some(others) = table.get("region_urls") {
        let one = |item: Item<'_>| Ok((item.name().to_owned(), item.parsed()?));
        template.others = others.map()?.items().map(one).collect::<Result<_, _>>()?;
    }
    Ok(Some(template))
}

/// Reads the APIs of a provider that imitates some.
pub(crate) fn apis(table: &Section<'_>) -> Result<Vec<Api>, FileError> {
    table.require("apis")?.list()?.iter().map(Item::parsed).collect()
}

/// Reads the terms of a provider that imitates an API. Its secret has its name.
pub(crate) fn shared(table: &Section<'_>, name: String) -> Result<Provider, FileError> {
    let terms = provider(table)?;
    Ok(Provider { secret: Some(name), uses_proxy: true, ..terms })
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

/// Returns a name that becomes part of a path.
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

fn env(table: &Section<'_>, key: &str) -> Result<Vec<(EnvName, Template)>, FileError> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    let variable = |item: Item<'_>| {
        let name = item.name().parse().map_err(|error| item.invalid(error))?;
        Ok((name, item.parsed()?))
    };
    item.map()?.items().map(variable).collect()
}

fn files(table: &Section<'_>, key: &str) -> Result<Vec<FileTemplate>, FileError> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
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
    known: &'static [pinfold_policy::document::Key],
    list: &str,
    read: fn(&Item<'_>) -> Result<PathBuf, FileError>,
) -> Result<Vec<PathBuf>, FileError> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    let Some(paths) = item.table(known)?.get(list) else { return Ok(Vec::new()) };
    paths.list()?.iter().map(read).collect()
}

fn any_path(item: &Item<'_>) -> Result<PathBuf, FileError> {
    plain_path(item.text()?, item)
}

fn plain_path(text: &str, item: &Item<'_>) -> Result<PathBuf, FileError> {
    let path = Path::new(text);
    let plain = |part| !matches!(part, Component::ParentDir | Component::CurDir);
    if path.as_os_str().is_empty() || !path.components().all(plain) {
        return Err(item.invalid("expected a path without `..`"));
    }
    Ok(path.components().collect())
}

fn relative(item: &Item<'_>) -> Result<PathBuf, FileError> {
    relative_path(item.text()?, item)
}

fn relative_path(text: &str, item: &Item<'_>) -> Result<PathBuf, FileError> {
    let path = plain_path(text, item)?;
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
        base_url: base_url(table)?,
        key_header: table.read("key_header", full)?,
        secret: table.read("secret", file_name)?,
        secret_command: texts(table, "secret_command")?,
        host: host_variables(table)?,
        model_prefix: table.read("model_prefix", full)?.unwrap_or_default(),
        default_model: table.read("default_model", full)?,
        env: env(table, "env")?,
        files: files(table, "files")?,
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
            env: env(&table, "env")?,
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
