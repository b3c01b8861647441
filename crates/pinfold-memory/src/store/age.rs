//! Entries that are older than their user keeps them.

use std::time::Duration;

use pinfold_content::Timestamp;
use rusqlite::Transaction;

use super::{Diary, millis};
use crate::MemoryError;

/// Entries that are too old (?2) at a time (?1), without those in packs that stay. Age counts from when the last entry was added
/// where that is earlier, so that a clock which is wrong for a moment makes no diary old. What an entry says of its own time,
/// which may be of another machine, does not count for that.
const OLD: &str = "SELECT number FROM entry
    WHERE created_at < min(?1, (SELECT updated_at FROM entry ORDER BY number DESC LIMIT 1)) - ?2
    AND NOT EXISTS (SELECT 1 FROM pack_entry JOIN pack ON pack.id = pack_entry.pack
                    WHERE pack.pinned AND pack_entry.entry = entry.id)";

impl Diary {
    /// Removes entries of an age.
    pub(super) fn remove_older(&self, age: Duration) -> Result<(), MemoryError> {
        // Most openings find none, and wait for no other writer.
        if self.read(|transaction, now| old(transaction, now, age))?.is_empty() {
            return Ok(());
        }
        self.write_less(|transaction, now| {
            for number in old(transaction, now, age)? {
                transaction.execute("DELETE FROM entry_text WHERE rowid = ?1", [number])?;
                transaction.execute("DELETE FROM entry WHERE number = ?1", [number])?;
            }
            Ok(())
        })
    }
}

fn old(
    transaction: &Transaction<'_>,
    now: Timestamp,
    age: Duration,
) -> Result<Vec<i64>, MemoryError> {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let mut statement = transaction.prepare(OLD)?;
    let numbers = statement.query_map((millis(now), age), |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}
