//! Packs: made, found and ended.

use std::time::Duration;

use pinfold_content::{Cid, Object, Timestamp, Uuid, Value, read};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::{Diary, entries, millis, number, timestamp, uuid};
use crate::entry::Entry;
use crate::known_secrets::KnownSecrets;
use crate::pack::{Compiled, NewPack, Pack, PackEntry, PackedEntry, compile};
use crate::{MemoryError, StoreError};

/// How long a pack stays that is not pinned.
pub(super) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Bytes of the texts of a pack's entries at most: ten times what a reader is given. Lists and graphs of packs are made of
/// whole entries.
const LARGEST: usize = 4 << 20;

const COLUMNS: &str = "id, cid, params, supersedes, pinned, expires_at, created_at";
/// The condition on a pack or rendering that has not ended.
const IS_LIVE: &str = "(expires_at IS NULL OR expires_at > ?1)";

impl Diary {
    /// Makes a pack. One with the same content is returned as it is, and pinned if this one is to be.
    ///
    /// # Errors
    /// Returns an error for entries that are not in this diary or are there twice, that read like instructions to a model, or
    /// that do not fit.
    pub fn create_pack(
        &self,
        new: &NewPack,
        secrets: &KnownSecrets,
    ) -> Result<(Uuid, Compiled), MemoryError> {
        new.check()?;
        secrets.check_value("/params", &Value::Object(new.params.clone()))?;
        let id = Uuid::generate().map_err(StoreError::from)?;
        self.write(|transaction, now| {
            sweep(transaction, now)?;
            let compiled = compiled(transaction, new, self.id)?;
            if let Some(older) = new.supersedes {
                let is_there = load(transaction, older, self.id, now)?.is_some();
                is_there.then_some(()).ok_or_else(|| MemoryError::NoPack(older.to_string()))?;
            }
            if let Some(existing) = by_cid(transaction, compiled.cid.as_str())? {
                return same(transaction, existing, new).map(|id| (id, compiled));
            }
            insert(transaction, id, new, &compiled, now)?;
            Ok((id, compiled))
        })
    }

    /// Returns what a pack would be.
    ///
    /// # Errors
    /// Returns the errors of [`Self::create_pack`].
    pub fn preview_pack(&self, new: &NewPack) -> Result<Compiled, MemoryError> {
        new.check()?;
        self.read(|transaction, _| compiled(transaction, new, self.id))
    }

    /// Returns a pack with its entries.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    pub fn pack(&self, id: Uuid) -> Result<Pack, MemoryError> {
        self.read(|transaction, now| {
            let pack = load(transaction, id, self.id, now)?;
            pack.ok_or_else(|| MemoryError::NoPack(id.to_string()))
        })
    }

    /// Returns the id of the pack with this address.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    pub fn pack_with_cid(&self, cid: &str) -> Result<Uuid, MemoryError> {
        self.read(|transaction, now| {
            let query = format!("SELECT id FROM pack WHERE {IS_LIVE} AND cid = ?2");
            let found: Option<String> = transaction
                .query_row(&query, params![millis(now), cid], |row| row.get(0))
                .optional()?;
            let found = found.map(|id| uuid(&id)).transpose()?;
            found.ok_or_else(|| MemoryError::NoPack(cid.to_owned()))
        })
    }

    /// Returns the ids of packs that begin so, of which there are at most `limit`.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn packs_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError> {
        entries::ids_that_begin(self, "pack", beginning, limit)
    }

    /// Returns the packs that have not ended, the newest first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn packs(&self, limit: u32, offset: u32) -> Result<Vec<Pack>, MemoryError> {
        self.read(|transaction, now| {
            let query = format!(
                "SELECT {COLUMNS} FROM pack WHERE {IS_LIVE} ORDER BY created_at DESC, id LIMIT ?2 OFFSET ?3"
            );
            let mut statement = transaction.prepare_cached(&query)?;
            let rows = statement.query_map(params![millis(now), limit, offset], StoredPack::of)?;
            rows.map(|row| row?.pack(transaction, self.id)).collect()
        })
    }

    /// Returns how many packs there are that have not ended.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn pack_count(&self) -> Result<u64, MemoryError> {
        self.read(|transaction, now| {
            let query = format!("SELECT count(*) FROM pack WHERE {IS_LIVE}");
            let count = transaction.query_row(&query, [millis(now)], |row| row.get(0))?;
            Ok(number("count", count)?)
        })
    }

    /// Pins a pack, so that it stays, or has it end after seven days.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    pub fn pin_pack(&self, id: Uuid, pinned: bool) -> Result<(), MemoryError> {
        self.write(|transaction, now| {
            let is_there = load(transaction, id, self.id, now)?.is_some();
            is_there.then_some(()).ok_or_else(|| MemoryError::NoPack(id.to_string()))?;
            let expires_at = (!pinned).then(|| millis(now + LIFETIME));
            transaction.execute(
                "UPDATE pack SET pinned = ?2, expires_at = ?3 WHERE id = ?1",
                params![id.to_string(), pinned, expires_at],
            )?;
            Ok(())
        })
    }
}

/// Removes packs and renderings that have ended.
pub(super) fn sweep(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), MemoryError> {
    for table in ["pack", "rendered_pack"] {
        transaction.execute(&format!("DELETE FROM {table} WHERE NOT {IS_LIVE}"), [millis(now)])?;
    }
    Ok(())
}

fn compiled(
    transaction: &Transaction<'_>,
    new: &NewPack,
    diary: Uuid,
) -> Result<Compiled, MemoryError> {
    let mut entries: Vec<(Entry, u32)> = Vec::new();
    let mut missing = Vec::new();
    for (id, rank) in &new.entries {
        match entries::load(transaction, *id)? {
            Some(entry) => entries.push((entry, *rank)),
            None => missing.push(id.to_string()),
        }
    }
    if entries.iter().map(|(entry, _)| entry.content.len()).sum::<usize>() > LARGEST {
        return Err(MemoryError::BadPack("the entries have more than 4 MiB of text".to_owned()));
    }
    if !missing.is_empty() {
        return Err(MemoryError::NoEntries { diary, entries: missing.join(", ") });
    }
    let is_flagged = |(entry, _): &&(Entry, u32)| !entry.threats.is_empty();
    let flagged: Vec<Uuid> = entries.iter().filter(is_flagged).map(|(entry, _)| entry.id).collect();
    if !flagged.is_empty() && !new.force {
        return Err(MemoryError::Flagged(flagged));
    }
    compile(new, &entries, diary)
}

fn by_cid(transaction: &Transaction<'_>, cid: &str) -> Result<Option<StoredPack>, MemoryError> {
    let query = format!("SELECT {COLUMNS} FROM pack WHERE cid = ?1");
    Ok(transaction.query_row(&query, [cid], StoredPack::of).optional()?)
}

/// Returns the pack that is there already, if it is the one that is wanted.
fn same(
    transaction: &Transaction<'_>,
    existing: StoredPack,
    new: &NewPack,
) -> Result<Uuid, MemoryError> {
    let wanted = new.supersedes.map(|older| older.to_string());
    if wanted.is_some() && wanted != existing.supersedes {
        return Err(MemoryError::Conflict);
    }
    if new.pinned && !existing.pinned {
        transaction.execute(
            "UPDATE pack SET pinned = 1, expires_at = NULL WHERE id = ?1",
            [&existing.id],
        )?;
    }
    Ok(uuid(&existing.id)?)
}

fn insert(
    transaction: &Transaction<'_>,
    id: Uuid,
    new: &NewPack,
    compiled: &Compiled,
    now: Timestamp,
) -> Result<(), MemoryError> {
    let expires_at = (!new.pinned).then(|| millis(now + LIFETIME));
    transaction.execute(
        "INSERT INTO pack (id, cid, params, supersedes, pinned, expires_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            id.to_string(),
            compiled.cid.as_str(),
            Value::Object(new.params.clone()).to_string(),
            new.supersedes.map(|older| older.to_string()),
            new.pinned,
            expires_at,
            millis(now),
        ],
    )?;
    for entry in &compiled.entries {
        let place = Uuid::generate().map_err(StoreError::from)?;
        transaction
            .prepare_cached(
                "INSERT INTO pack_entry (pack, rank, id, entry, cid, level, original_tokens, packed_tokens)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                id.to_string(),
                entry.rank,
                place.to_string(),
                entry.entry.to_string(),
                entry.cid.as_str(),
                entry.level.word(),
                i64::try_from(entry.original_tokens).unwrap_or(i64::MAX),
                i64::try_from(entry.packed_tokens).unwrap_or(i64::MAX),
            ])?;
    }
    Ok(())
}

/// Returns a pack that has not ended.
pub(super) fn load(
    transaction: &Transaction<'_>,
    id: Uuid,
    diary: Uuid,
    now: Timestamp,
) -> Result<Option<Pack>, MemoryError> {
    let query = format!("SELECT {COLUMNS} FROM pack WHERE {IS_LIVE} AND id = ?2");
    let stored = transaction
        .query_row(&query, params![millis(now), id.to_string()], StoredPack::of)
        .optional()?;
    stored.map(|stored| stored.pack(transaction, diary)).transpose()
}

/// The row of a pack.
struct StoredPack {
    id: String,
    cid: String,
    params: String,
    supersedes: Option<String>,
    pinned: bool,
    expires_at: Option<i64>,
    created_at: i64,
}

impl StoredPack {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            cid: row.get(1)?,
            params: row.get(2)?,
            supersedes: row.get(3)?,
            pinned: row.get(4)?,
            expires_at: row.get(5)?,
            created_at: row.get(6)?,
        })
    }

    fn pack(self, transaction: &Transaction<'_>, diary: Uuid) -> Result<Pack, MemoryError> {
        let mut statement = transaction.prepare_cached(
            "SELECT id, entry, cid, rank, level, original_tokens, packed_tokens FROM pack_entry
             WHERE pack = ?1 ORDER BY rank",
        )?;
        let rows = statement.query_map([&self.id], |row| {
            let (id, entry, cid): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let (rank, level): (i64, String) = (row.get(3)?, row.get(4)?);
            let tokens: [i64; 2] = [row.get(5)?, row.get(6)?];
            Ok((id, entry, cid, rank, level, tokens))
        })?;
        let mut entries = Vec::new();
        for row in rows {
            let (id, entry, cid, rank, level, [original, packed]) = row?;
            let invalid = |what| StoreError::invalid(what, "nothing writes it so");
            let packed = PackedEntry {
                entry: uuid(&entry)?,
                cid: cid.parse().map_err(|_| invalid("address of an entry"))?,
                rank: number("rank", rank)?,
                level: level.parse().map_err(|()| invalid("level of compression"))?,
                original_tokens: number("count", original)?,
                packed_tokens: number("count", packed)?,
            };
            let entry = entries::load(transaction, packed.entry)?;
            entries.push(PackEntry { id: uuid(&id)?, packed, entry });
        }
        Ok(Pack {
            id: uuid(&self.id)?,
            diary,
            cid: link(&self.cid)?,
            params: params_of(&self.params)?,
            supersedes: self.supersedes.as_deref().map(uuid).transpose()?,
            pinned: self.pinned,
            expires_at: self.expires_at.map(timestamp).transpose()?,
            created_at: timestamp(self.created_at)?,
            entries,
        })
    }
}

pub(super) fn link(text: &str) -> Result<Cid, StoreError> {
    Cid::parse_link(text).map_err(|error| StoreError::invalid("address of a pack", error))
}

fn params_of(text: &str) -> Result<Object, StoreError> {
    match read(text) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(StoreError::invalid("list of parameters", "it is not an object")),
    }
}
