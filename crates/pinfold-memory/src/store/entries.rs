//! Entries: added, read, listed and removed.

use pinfold_content::{Timestamp, Uuid, Value};
use rusqlite::types::ToSql;
use rusqlite::{OptionalExtension as _, Transaction, params, params_from_iter};

use super::row::{COLUMNS, Stored};
use super::{Diary, millis, number, uuid};
use crate::entry::{Entry, EntryType, NewEntry, check_tags};
use crate::known_secrets::KnownSecrets;
use crate::made::made;
use crate::query;
use crate::sign::{Signature, Signer};
use crate::{MemoryError, StoreError};

/// Which entries are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those with all of these tags.
    pub tags: Vec<String>,
    /// Those with none of these tags.
    pub exclude_tags: Vec<String>,
    /// Those of one of these types; of any if there are none.
    pub types: Vec<EntryType>,
    /// Those of which no other entry takes the place.
    pub exclude_superseded: bool,
}

/// A tag, and how many entries have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagCount {
    pub tag: String,
    /// How many entries have it.
    pub count: u64,
}

impl Filter {
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        check_tags("/tags", &self.tags)?;
        check_tags("/excludeTags", &self.exclude_tags)
    }

    /// Returns the conditions on a row of `entry`, and their values.
    fn conditions(&self) -> (String, Vec<String>) {
        let mut conditions = vec!["1".to_owned()];
        let mut values = Vec::new();
        let has_tag = "entry.number IN (SELECT entry FROM entry_tag JOIN tag ON tag.number = entry_tag.tag WHERE tag.text = ?)";
        for tag in &self.tags {
            conditions.push(has_tag.to_owned());
            values.push(tag.clone());
        }
        for tag in &self.exclude_tags {
            conditions.push(format!("NOT {has_tag}"));
            values.push(tag.clone());
        }
        if !self.types.is_empty() {
            let places = vec!["?"; self.types.len()].join(", ");
            conditions.push(format!("type IN ({places})"));
            values.extend(self.types.iter().map(|kind| kind.word().to_owned()));
        }
        if self.exclude_superseded {
            conditions.push(
                "NOT EXISTS (SELECT 1 FROM supersedes WHERE older = entry.number)".to_owned(),
            );
        }
        (conditions.join(" AND "), values)
    }
}

impl Diary {
    /// Adds an entry.
    ///
    /// # Errors
    /// Returns an error for values that are too long, for a secret in it, or if an entry that it supersedes is not there.
    pub fn create(&self, new: &NewEntry, secrets: &KnownSecrets) -> Result<Entry, MemoryError> {
        let entry = prepare(new, secrets)?;
        let sign = |signer: &Signer| Ok(signer.sign(&entry.cid, Uuid::generate()?));
        let signature = self.signer.as_ref().map(sign).transpose().map_err(StoreError::Io)?;
        let entry = Entry { signature, ..entry };
        self.write(|transaction, now| add(transaction, new, entry, now))
    }

    /// Adds an entry that its writer has signed.
    ///
    /// # Errors
    /// Returns the errors of [`Self::create`], and errors for a signature of something else or of another entry.
    pub fn create_signed(
        &self,
        new: &NewEntry,
        signature: Signature,
        secrets: &KnownSecrets,
    ) -> Result<Entry, MemoryError> {
        let entry = prepare(new, secrets)?;
        signature.check(&entry.cid)?;
        self.write(|transaction, now| {
            let mut used =
                transaction.prepare_cached("SELECT 1 FROM entry WHERE signature = ?1")?;
            if used.exists([&signature.signature])? {
                return Err(MemoryError::SignatureUsed);
            }
            add(transaction, new, Entry { signature: Some(signature), ..entry }, now)
        })
    }

    /// Adds entries of another diary, all or none, and returns how many. Those are left out whose content is here already.
    ///
    /// # Errors
    /// Returns the errors of [`Self::create`], with the number of the entry, counted from 1.
    pub fn import(
        &self,
        all: &[NewEntry],
        secrets: &KnownSecrets,
    ) -> Result<u64, (usize, MemoryError)> {
        let mut prepared = Vec::with_capacity(all.len());
        for (new, number) in all.iter().zip(1..) {
            prepared.push(prepare(new, secrets).map_err(|error| (number, error))?);
        }
        let mut count = 0;
        let mut number = 0;
        let imported = self.write(|transaction, now| {
            for (new, entry) in all.iter().zip(prepared) {
                number += 1;
                let mut known = transaction.prepare_cached("SELECT 1 FROM entry WHERE cid = ?1")?;
                if !known.exists([entry.cid.as_str()])? {
                    add(transaction, new, entry, now)?;
                    count += 1;
                }
            }
            Ok(())
        });
        imported.map(|()| count).map_err(|error| (number, error))
    }

    /// Returns an entry, and counts that it was read.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary.
    pub fn entry(&self, id: Uuid) -> Result<Entry, MemoryError> {
        self.write(|transaction, now| {
            let counted = transaction
                .prepare_cached("UPDATE entry SET access_count = access_count + 1, last_accessed_at = ?2 WHERE id = ?1")?
                .execute(params![id.to_string(), millis(now)])?;
            if counted == 0 {
                return Err(MemoryError::NoEntry(id));
            }
            load(transaction, id)?.ok_or(MemoryError::NoEntry(id))
        })
    }

    /// Returns the ids that begin so, of which there are at most `limit`, the newest first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn entries_that_begin(
        &self,
        beginning: &str,
        limit: u32,
    ) -> Result<Vec<Uuid>, MemoryError> {
        ids_that_begin(self, "entry", beginning, limit)
    }

    /// Returns entries, the newest first.
    ///
    /// # Errors
    /// Returns an error for a filter with too many tags.
    pub fn list(
        &self,
        filter: &Filter,
        limit: u32,
        offset: u32,
    ) -> Result<Vec<Entry>, MemoryError> {
        filter.check()?;
        let (conditions, values) = filter.conditions();
        let query = format!(
            "SELECT {COLUMNS} FROM entry WHERE {conditions} ORDER BY created_at DESC, number DESC LIMIT ? OFFSET ?"
        );
        self.read(|transaction, _| {
            let mut statement = transaction.prepare_cached(&query)?;
            let values = values.iter().map(|value| value as &dyn ToSql);
            let rows = statement.query_map(
                params_from_iter(values.chain([&limit as _, &offset as _])),
                Stored::of,
            )?;
            rows.map(|row| Ok(row?.entry()?)).collect()
        })
    }

    /// Returns the entries with these ids, in their order. One that is not there is left out.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn entries_with(&self, ids: &[Uuid]) -> Result<Vec<Entry>, MemoryError> {
        self.read(|transaction, _| {
            let found = ids.iter().map(|id| load(transaction, *id));
            found.filter_map(Result::transpose).collect()
        })
    }

    /// Returns how many entries there are.
    ///
    /// # Errors
    /// Returns an error for a filter with too many tags.
    pub fn count(&self, filter: &Filter) -> Result<u64, MemoryError> {
        filter.check()?;
        let (conditions, values) = filter.conditions();
        let query = format!("SELECT count(*) FROM entry WHERE {conditions}");
        self.read(|transaction, _| {
            let count =
                transaction.query_row(&query, params_from_iter(values), |row| row.get(0))?;
            Ok(number("count", count)?)
        })
    }

    /// Has an entry take the place of an older one. Returns whether it did not before.
    ///
    /// # Errors
    /// Returns an error if one of them is not in this diary.
    pub fn supersede(&self, entry: Uuid, older: Uuid) -> Result<bool, MemoryError> {
        if entry == older {
            return Err(MemoryError::invalid("/targetId", "must be another entry"));
        }
        self.write(|transaction, _| {
            let numbers = [number_of(transaction, older)?, number_of(transaction, entry)?];
            let added = transaction
                .prepare_cached("INSERT OR IGNORE INTO supersedes (older, entry) VALUES (?1, ?2)")?
                .execute(numbers)?;
            Ok(added > 0)
        })
    }

    /// Removes an entry. Packs that it is in keep its address.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary.
    pub fn remove(&self, id: Uuid) -> Result<(), MemoryError> {
        self.write_less(|transaction, _| {
            let number = number_of(transaction, id)?;
            transaction.execute("DELETE FROM entry_text WHERE rowid = ?1", [number])?;
            transaction.execute("DELETE FROM entry WHERE number = ?1", [number])?;
            Ok(())
        })
    }

    /// Returns the tags that begin so and that at least so many entries of these types have: the most used first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn tags(
        &self,
        prefix: &str,
        least: u64,
        types: &[EntryType],
    ) -> Result<Vec<TagCount>, MemoryError> {
        let types = Filter { types: types.to_vec(), ..Filter::default() };
        let (conditions, values) = types.conditions();
        let query = format!(
            "SELECT tag.text, count(*) AS uses FROM entry_tag JOIN tag ON tag.number = entry_tag.tag
             JOIN entry ON entry.number = entry_tag.entry WHERE {conditions} AND substr(tag.text, 1, length(?)) = ?
             GROUP BY tag.number HAVING uses >= ? ORDER BY uses DESC, tag.text"
        );
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        self.read(|transaction, _| {
            let mut statement = transaction.prepare_cached(&query)?;
            let values = values.iter().map(|value| value as &dyn ToSql).chain([
                &prefix as &dyn ToSql,
                &prefix,
                &least,
            ]);
            let rows = statement
                .query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let counts = rows.map(|row| {
                let (tag, count) = row?;
                Ok(TagCount { tag, count: number("count", count)? })
            });
            counts.collect()
        })
    }
}

/// Checks an entry, and returns it without its times.
fn prepare(new: &NewEntry, secrets: &KnownSecrets) -> Result<Entry, MemoryError> {
    new.check()?;
    secrets.check(new)?;
    let id = Uuid::generate().map_err(StoreError::from)?;
    Ok(made(new.clone(), id, Timestamp::from_millis(0)))
}

fn add(
    transaction: &Transaction<'_>,
    new: &NewEntry,
    entry: Entry,
    now: Timestamp,
) -> Result<Entry, MemoryError> {
    let entry = Entry { created_at: new.created_at.unwrap_or(now), updated_at: now, ..entry };
    let number = insert(transaction, &entry)?;
    for older in &new.supersedes {
        let older = number_of(transaction, *older)?;
        transaction
            .prepare_cached("INSERT OR IGNORE INTO supersedes (older, entry) VALUES (?1, ?2)")?
            .execute([older, number])?;
    }
    Ok(entry)
}

/// Adds the rows of an entry, and returns its number.
pub(super) fn insert(transaction: &Transaction<'_>, entry: &Entry) -> Result<i64, MemoryError> {
    let tags: Value = entry.tags.iter().map(String::as_str).collect();
    transaction
        .prepare_cached(
            "INSERT INTO entry (id, title, content, tags, importance, type, cid, threats, access_count,
             last_accessed_at, created_at, updated_at, identity, public_key, signature, nonce)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            entry.id.to_string(),
            entry.title,
            entry.content,
            tags.to_string(),
            entry.importance,
            entry.entry_type.word(),
            entry.cid.as_str(),
            threats_of(entry),
            i64::try_from(entry.access_count).unwrap_or(i64::MAX),
            entry.last_accessed_at.map(millis),
            millis(entry.created_at),
            millis(entry.updated_at),
            entry.signature.as_ref().map(|signature| &signature.identity),
            entry.signature.as_ref().map(|signature| &signature.public_key),
            entry.signature.as_ref().map(|signature| &signature.signature),
            entry.signature.as_ref().and_then(|signature| signature.nonce.as_ref()),
        ])?;
    let number = transaction.last_insert_rowid();
    index(transaction, number, entry)?;
    Ok(number)
}

/// Returns the marks of an entry as its row has them.
pub(super) fn threats_of(entry: &Entry) -> String {
    let threats = entry.threats.iter().map(|threat| {
        Value::object([
            ("type", threat.kind.into()),
            ("severity", threat.severity.into()),
            ("match", threat.found.as_str().into()),
        ])
    });
    Value::Array(threats.collect()).to_string()
}

/// Adds what finds an entry: its tags and words.
pub(super) fn index(
    transaction: &Transaction<'_>,
    number: i64,
    entry: &Entry,
) -> Result<(), MemoryError> {
    let mut marks = vec![query::every(), mark_of_type(entry.entry_type)];
    for tag in &entry.tags {
        transaction
            .prepare_cached("INSERT OR IGNORE INTO tag (text) VALUES (?1)")?
            .execute([tag])?;
        let tag = tag_number(transaction, tag)?.ok_or_else(|| StoreError::invalid("tag", tag))?;
        transaction
            .prepare_cached("INSERT OR IGNORE INTO entry_tag (tag, entry) VALUES (?1, ?2)")?
            .execute([tag, number])?;
        marks.push(mark_of_tag(tag));
    }
    let texts = entry.title.iter().chain([&entry.content]).chain(&entry.tags);
    let words: Vec<String> = texts.map(|text| query::without_marks(text)).collect();
    transaction
        .prepare_cached("INSERT INTO entry_text (rowid, words) VALUES (?1, ?2)")?
        .execute(params![number, format!("{}\n{}", words.join("\n"), marks.join(" "))])?;
    Ok(())
}

pub(super) fn mark_of_type(kind: EntryType) -> String {
    // Digits have no stem.
    let position = EntryType::ALL.iter().position(|other| *other == kind).unwrap_or_default();
    format!("{}k{position}", query::MARK)
}

pub(super) fn mark_of_tag(number: i64) -> String {
    format!("{}t{number}", query::MARK)
}

pub(super) fn tag_number(
    transaction: &Transaction<'_>,
    tag: &str,
) -> Result<Option<i64>, MemoryError> {
    let mut statement = transaction.prepare_cached("SELECT number FROM tag WHERE text = ?1")?;
    Ok(statement.query_row([tag], |row| row.get(0)).optional()?)
}

pub(super) fn number_of(transaction: &Transaction<'_>, id: Uuid) -> Result<i64, MemoryError> {
    let mut statement = transaction.prepare_cached("SELECT number FROM entry WHERE id = ?1")?;
    let number = statement.query_row([id.to_string()], |row| row.get(0)).optional()?;
    number.ok_or(MemoryError::NoEntry(id))
}

/// Returns an entry by its id.
pub(super) fn load(transaction: &Transaction<'_>, id: Uuid) -> Result<Option<Entry>, MemoryError> {
    let query = format!("SELECT {COLUMNS} FROM entry WHERE id = ?1");
    let mut statement = transaction.prepare_cached(&query)?;
    let stored = statement.query_row([id.to_string()], Stored::of).optional()?;
    Ok(stored.map(Stored::entry).transpose()?)
}

/// Returns the ids of a table that begin so.
pub(super) fn ids_that_begin(
    diary: &Diary,
    table: &str,
    beginning: &str,
    limit: u32,
) -> Result<Vec<Uuid>, MemoryError> {
    let beginning = beginning.to_ascii_lowercase();
    // `~` comes behind every letter of an id.
    let query = format!("SELECT id FROM {table} WHERE id >= ?1 AND id < ?1 || '~' LIMIT ?2");
    diary.read(|transaction, _| {
        let mut statement = transaction.prepare_cached(&query)?;
        let rows = statement.query_map(params![beginning, limit], |row| row.get::<_, String>(0))?;
        rows.map(|id| Ok(uuid(&id?)?)).collect()
    })
}
