//! Fields that several tables and files have, read alike.

use super::error::SettingsError;
use super::keys::{self, sub_keys};
use super::values::EnvSetting;
use crate::document::{Document, FileError, Item, Key, Section};
use crate::env::{EnvName, Owner, reserved};
use crate::limits::{Limits, MilliCpus};
use crate::origin::{Origin, Place, Valued};
use crate::path::HostPath;

/// Makes an origin of a place: which layer is being read.
pub(super) type Layer = fn(Place) -> Origin;

/// Returns the whole file. Of a `$schema` only the type is looked at.
pub(super) fn whole<'a>(
    document: &'a Document,
    known: &'static [Key],
) -> Result<Section<'a>, FileError> {
    let section = Section::of_document(document, known)?;
    section.read("$schema", |item| item.text().map(drop))?;
    Ok(section)
}

pub(super) fn word<T: std::str::FromStr<Err: ToString>>(
    section: &Section<'_>,
    key: &str,
    layer: Layer,
) -> Result<Option<Valued<T>>, FileError> {
    section.read(key, |item| Ok(Valued::new(item.parsed()?, layer(item.place()))))
}

pub(super) fn sub_table<'a>(
    section: &Section<'a>,
    known: &'static [Key],
    key: &str,
) -> Result<Option<Section<'a>>, FileError> {
    section.read(key, |item| item.table(sub_keys(known, key)))
}

/// Returns a list of values, each with its own line.
pub(super) fn list<'a, T>(
    section: Option<&Section<'a>>,
    key: &str,
    layer: Layer,
    read: impl Fn(&Item<'a>) -> Result<T, FileError>,
) -> Result<Vec<Valued<T>>, FileError> {
    let Some(item) = section.and_then(|section| section.get(key)) else { return Ok(Vec::new()) };
    let value = |item: Item<'a>| Ok(Valued::new(read(&item)?, layer(item.place())));
    item.list()?.into_iter().map(value).collect()
}

pub(super) fn limits(section: &Section<'_>, layer: Layer) -> Result<Limits, FileError> {
    let Some(item) = section.get("resources") else { return Ok(Limits::default()) };
    let table = item.table(keys::RESOURCES)?;
    let count =
        |key: &str| table.read(key, |item| Ok(Valued::new(item.count()?, layer(item.place()))));
    Ok(Limits {
        cpus: table.read("cpus", |item| {
            let cpus = MilliCpus::from_cpus(item.number()?);
            Ok(Valued::new(cpus.map_err(|error| item.invalid(error))?, layer(item.place())))
        })?,
        memory: word(&table, "memory", layer)?,
        pids: count("pids")?,
        disk: word(&table, "disk", layer)?,
        files: count("files")?,
        timeout: word(&table, "timeout", layer)?,
        build: word(&table, "build", layer)?,
    })
}

/// Reads `env`. `above` is the least owner that stands above the layer being read.
pub(super) fn env(
    section: &Section<'_>,
    layer: Layer,
    above: Owner,
) -> Result<Vec<EnvSetting>, SettingsError> {
    let Some(item) = section.get("env") else { return Ok(Vec::new()) };
    let mut settings = Vec::new();
    for item in item.map()?.items() {
        let name: EnvName = item.name().parse().map_err(|error| item.invalid(error))?;
        let origin = layer(item.place());
        check_reserved(&name, &origin, above)?;
        settings.push(EnvSetting { name, value: item.text()?.to_owned(), origin });
    }
    Ok(settings)
}

/// Refuses a name that belongs to `above` or to one higher still.
pub(super) fn check_reserved(
    name: &EnvName,
    origin: &Origin,
    above: Owner,
) -> Result<(), SettingsError> {
    match reserved(name) {
        Some(rule) if rule.owner >= above => {
            Err(SettingsError::Reserved { origin: origin.clone(), name: name.clone(), rule })
        }
        _ => Ok(()),
    }
}

/// Returns an absolute path, or one that begins with `~/`.
pub(crate) fn path(item: &Item<'_>, home: Option<&HostPath>) -> Result<HostPath, FileError> {
    let text = item.text()?;
    let below_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
    let path = match (below_home, home) {
        (None, _) if !text.starts_with('/') => {
            return Err(item.invalid("expected an absolute path or one that begins with ~/"));
        }
        (None, _) => HostPath::new(text),
        (Some(below), Some(home)) => home.join(below.trim_start_matches('/')),
        (Some(_), None) => {
            return Err(item.invalid("the home directory is not known; give an absolute path"));
        }
    };
    path.map_err(|error| item.invalid(error))
}
