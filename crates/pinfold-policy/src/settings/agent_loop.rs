//! Ralph's `.agent-loop/config.json`: which model pi is asked with, and how strong the wall is.

use super::error::SettingsError;
use super::words::BoundaryName;
use crate::document::{Document, FileError, Item, Section, SettingsFile};
use crate::origin::{Origin, Valued};
use crate::path::Escaped;

/// What the file says of what concerns pinfold. Its other keys are Ralph's own.
#[derive(Clone, Debug, Default)]
pub struct AgentLoop {
    pub(super) boundary: Option<Valued<BoundaryName>>,
    pub(super) provider: Option<Valued<String>>,
    pub(super) model: Option<Valued<String>>,
}

/// Ralph's types, and the boundary that each is here.
const TYPES: [(&str, BoundaryName); 4] = [
    ("docker-sandbox", BoundaryName::Container),
    ("docker-container", BoundaryName::Container),
    ("nono", BoundaryName::Namespace),
    ("tart", BoundaryName::Vm),
];

impl AgentLoop {
    /// The provider that pi has by itself (`agents/pi.toml`).
    pub const PROVIDER: &str = "anthropic";

    /// Returns whether the file chooses another provider than pi's own, which waits for trust.
    pub fn chooses_provider(&self) -> bool {
        self.provider.as_ref().is_some_and(|provider| provider.value != Self::PROVIDER)
    }

    /// Reads the file. `{}` says nothing.
    ///
    /// # Errors
    /// Returns an error for anything but a JSON object, an invalid `pi` (in Ralph's words), an unknown type.
    pub fn read(file: SettingsFile<'_>) -> Result<Self, SettingsError> {
        let document = Document::parse(file)?;
        let section = Item::of_document(&document).map()?;
        let pi = match section.get("pi") {
            None => None,
            Some(pi) => Some(pi.map().map_err(|_| SettingsError::NoObject {
                section: "pi",
                file: Escaped(file.path).to_string(),
            })?),
        };
        let of_pi = |key| pi.as_ref().map_or(Ok(None), |pi| text(pi, key));
        Ok(Self {
            boundary: section.read("type", boundary)?,
            provider: of_pi("provider")?,
            model: of_pi("model")?,
        })
    }
}

fn text(section: &Section<'_>, key: &str) -> Result<Option<Valued<String>>, FileError> {
    section
        .read(key, |item| Ok(Valued::new(item.text()?.to_owned(), Origin::Project(item.place()))))
}

fn boundary(item: &Item<'_>) -> Result<Valued<BoundaryName>, FileError> {
    let word = item.text()?;
    let found = TYPES.iter().find(|(name, _)| *name == word).map(|(_, boundary)| *boundary);
    let boundary = found.ok_or_else(|| {
        let known = TYPES.map(|(name, _)| name).join(", ");
        item.invalid(format!("unknown type \"{}\"; known: {known}", word.escape_debug()))
    })?;
    Ok(Valued::new(boundary, Origin::Project(item.place())))
}
