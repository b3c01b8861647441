//! Changes of entries and renderings that are there.

use pinfold_content::{Timestamp, Uuid, Value};
use rusqlite::params;

use super::entries::{index, load, number_of, threats_of};
use super::packs::LIFETIME;
use super::{Diary, millis};
use crate::MemoryError;
use crate::entry::{Entry, NewEntry};
use crate::known_secrets::KnownSecrets;
use crate::made::made;

impl Diary {
    /// Changes an entry to what a function makes of it, and returns it. Its id and its times of creation and reading stay.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary or is signed, and the errors of [`Self::create`].
    pub fn update(
        &self,
        id: Uuid,
        secrets: &KnownSecrets,
        change: impl FnOnce(&Entry) -> Result<NewEntry, MemoryError>,
    ) -> Result<Entry, MemoryError> {
        self.write(|transaction, now| {
            let old = load(transaction, id)?.ok_or(MemoryError::NoEntry(id))?;
            if old.signature.is_some() {
                return Err(MemoryError::Signed);
            }
            let new = change(&old)?;
            new.check()?;
            secrets.check(&new)?;
            let entry = changed(new, &old, now);
            let number = number_of(transaction, id)?;
            transaction.execute("DELETE FROM entry_text WHERE rowid = ?1", [number])?;
            transaction.execute("DELETE FROM entry_tag WHERE entry = ?1", [number])?;
            let tags: Value = entry.tags.iter().map(String::as_str).collect();
            transaction.execute(
                "UPDATE entry SET title = ?2, content = ?3, tags = ?4, importance = ?5, type = ?6, cid = ?7, threats = ?8,
                 updated_at = ?9 WHERE number = ?1",
                params![
                    number,
                    entry.title,
                    entry.content,
                    tags.to_string(),
                    entry.importance,
                    entry.entry_type.word(),
                    entry.cid.as_str(),
                    threats_of(&entry),
                    millis(now),
                ],
            )?;
            index(transaction, number, &entry)?;
            Ok(entry)
        })
    }

    /// Pins a rendering, so that it stays, or has it end after seven days.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary, or has ended.
    pub fn pin_rendering(&self, id: Uuid, pinned: bool) -> Result<(), MemoryError> {
        self.write(|transaction, now| {
            let expires_at = (!pinned).then(|| millis(now + LIFETIME));
            let changed = transaction.execute(
                "UPDATE rendered_pack SET pinned = ?2, expires_at = ?3
                 WHERE id = ?1 AND (expires_at IS NULL OR expires_at > ?4)",
                params![id.to_string(), pinned, expires_at, millis(now)],
            )?;
            (changed > 0).then_some(()).ok_or_else(|| MemoryError::NoPack(id.to_string()))
        })
    }
}

fn changed(new: NewEntry, old: &Entry, now: Timestamp) -> Entry {
    Entry {
        updated_at: now,
        access_count: old.access_count,
        last_accessed_at: old.last_accessed_at,
        is_superseded: old.is_superseded,
        ..made(new, old.id, old.created_at)
    }
}
