//! Diaries wherever they are kept.

use pinfold_content::{Uuid, Value};

use crate::entry::{Entry, EntryType, NewEntry};
use crate::error::MemoryError;
use crate::known_secrets::KnownSecrets;
use crate::name::DiaryName;
use crate::pack::{Compiled, NewPack, Pack};
use crate::render::{RenderedPack, Rendering};
use crate::store::{Diary, Filter, Search, TagCount};

/// A diary on this machine or on a server.
pub trait DiaryStore {
    /// Returns its id.
    fn id(&self) -> Uuid;

    /// Adds an entry.
    ///
    /// # Errors
    /// Returns an error for values that are too long, or for a secret in it.
    fn create(&self, new: &NewEntry, secrets: &KnownSecrets) -> Result<Entry, MemoryError>;

    /// Adds entries of another diary, and returns how many. Those are left out whose content is here already.
    ///
    /// # Errors
    /// Returns the errors of [`Self::create`], with the number of the entry and how many were added before.
    fn import(&self, all: &[NewEntry], secrets: &KnownSecrets) -> Result<u64, ImportError>;

    /// Returns an entry.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary.
    fn entry(&self, id: Uuid) -> Result<Entry, MemoryError>;

    /// Returns the ids that begin so, of which there are at most `limit`. A server has them looked for among the newest.
    ///
    /// # Errors
    /// Returns the store's error.
    fn entries_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError>;

    /// Returns entries, the newest first.
    ///
    /// # Errors
    /// Returns an error for a filter with too many tags, or for a page that a server does not give.
    fn list(&self, filter: &Filter, limit: u32, offset: u32) -> Result<Vec<Entry>, MemoryError>;

    /// Returns the entries that have the words, the best ones first.
    ///
    /// # Errors
    /// Returns an error for a query that is too long, or for a page that a server does not give.
    fn search(&self, search: &Search) -> Result<Vec<Entry>, MemoryError>;

    /// Removes an entry.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary.
    fn remove(&self, id: Uuid) -> Result<(), MemoryError>;

    /// Returns the tags that begin so and that at least so many entries of these types have: the most used first.
    ///
    /// # Errors
    /// Returns the store's error.
    fn tags(
        &self,
        prefix: &str,
        least: u64,
        types: &[EntryType],
    ) -> Result<Vec<TagCount>, MemoryError>;

    /// Makes a pack. One with the same content is returned as it is.
    ///
    /// # Errors
    /// Returns an error for entries that are not in this diary or are there twice, that read like instructions to a model, or
    /// that do not fit.
    fn create_pack(
        &self,
        new: &NewPack,
        secrets: &KnownSecrets,
    ) -> Result<(Uuid, Compiled), MemoryError>;

    /// Returns what a pack would be.
    ///
    /// # Errors
    /// Returns the errors of [`Self::create_pack`].
    fn preview_pack(&self, new: &NewPack) -> Result<Compiled, MemoryError>;

    /// Returns a pack with its entries.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    fn pack(&self, id: Uuid) -> Result<Pack, MemoryError>;

    /// Returns the id of the pack with this address.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    fn pack_with_cid(&self, cid: &str) -> Result<Uuid, MemoryError>;

    /// Returns the ids of packs that begin so, of which there are at most `limit`.
    ///
    /// # Errors
    /// Returns the store's error.
    fn packs_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError>;

    /// Returns the packs that have not ended, the newest first.
    ///
    /// # Errors
    /// Returns the store's error.
    fn packs(&self, limit: u32, offset: u32) -> Result<Vec<Pack>, MemoryError>;

    /// Renders a pack and keeps the text.
    ///
    /// # Errors
    /// Returns an error if the pack is not in this diary, or for a text that does not fit the method.
    fn render_pack(
        &self,
        pack: Uuid,
        rendering: &Rendering,
        pinned: bool,
        secrets: &KnownSecrets,
    ) -> Result<RenderedPack, MemoryError>;

    /// Returns the graph of where a pack comes from, over so many packs that it takes the place of.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    fn provenance(&self, pack: Uuid, depth: u32) -> Result<Value, MemoryError>;
}

/// Why entries of another diary were not all added.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct ImportError {
    /// The number of the entry that was refused, counted from 1.
    pub number: usize,
    /// How many were added before, and stay.
    pub added: u64,
    /// Whether the entry may have been added, too: its answer was lost, and the server does not say.
    pub is_unknown: bool,
    pub error: MemoryError,
}

/// How a user names a diary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiaryChoice {
    /// The one that is meant unless another is named.
    Usual,
    Id(Uuid),
    Name(String),
}

impl From<&str> for DiaryChoice {
    fn from(text: &str) -> Self {
        match text.to_ascii_lowercase().parse() {
            Ok(id) => Self::Id(id),
            Err(_) if text == DiaryName::DEFAULT => Self::Usual,
            Err(_) => Self::Name(text.to_owned()),
        }
    }
}

impl DiaryStore for Diary {
    fn id(&self) -> Uuid {
        self.id()
    }

    fn create(&self, new: &NewEntry, secrets: &KnownSecrets) -> Result<Entry, MemoryError> {
        self.create(new, secrets)
    }

    fn import(&self, all: &[NewEntry], secrets: &KnownSecrets) -> Result<u64, ImportError> {
        let failed = |(number, error)| ImportError { number, added: 0, is_unknown: false, error };
        self.import(all, secrets).map_err(failed)
    }

    fn entry(&self, id: Uuid) -> Result<Entry, MemoryError> {
        self.entry(id)
    }

    fn entries_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError> {
        self.entries_that_begin(beginning, limit)
    }

    fn list(&self, filter: &Filter, limit: u32, offset: u32) -> Result<Vec<Entry>, MemoryError> {
        self.list(filter, limit, offset)
    }

    fn search(&self, search: &Search) -> Result<Vec<Entry>, MemoryError> {
        self.search(search)
    }

    fn remove(&self, id: Uuid) -> Result<(), MemoryError> {
        self.remove(id)
    }

    fn tags(
        &self,
        prefix: &str,
        least: u64,
        types: &[EntryType],
    ) -> Result<Vec<TagCount>, MemoryError> {
        self.tags(prefix, least, types)
    }

    fn create_pack(
        &self,
        new: &NewPack,
        secrets: &KnownSecrets,
    ) -> Result<(Uuid, Compiled), MemoryError> {
        self.create_pack(new, secrets)
    }

    fn preview_pack(&self, new: &NewPack) -> Result<Compiled, MemoryError> {
        self.preview_pack(new)
    }

    fn pack(&self, id: Uuid) -> Result<Pack, MemoryError> {
        self.pack(id)
    }

    fn pack_with_cid(&self, cid: &str) -> Result<Uuid, MemoryError> {
        self.pack_with_cid(cid)
    }

    fn packs_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError> {
        self.packs_that_begin(beginning, limit)
    }

    fn packs(&self, limit: u32, offset: u32) -> Result<Vec<Pack>, MemoryError> {
        self.packs(limit, offset)
    }

    fn render_pack(
        &self,
        pack: Uuid,
        rendering: &Rendering,
        pinned: bool,
        secrets: &KnownSecrets,
    ) -> Result<RenderedPack, MemoryError> {
        self.render_pack(pack, rendering, pinned, secrets)
    }

    fn provenance(&self, pack: Uuid, depth: u32) -> Result<Value, MemoryError> {
        self.provenance(pack, depth)
    }
}
