//! A new diary of all that can be read of a damaged one.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_content::{Clock, Timestamp, Uuid};
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_host::owned;
use pinfold_sqlite::{distrust, with_ending};
use rusqlite::config::DbConfig;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, params_from_iter};

use super::row::{Stored, columns_of};
use super::{Diary, entries, uuid};
use crate::{DiaryName, MemoryError, StoreError};

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Entries of the new diary.
    pub entries: u64,
    /// Entries that could not be read, or whose content is not what their address says.
    pub lost: u64,
    /// Where the damaged file is now.
    pub damaged: PathBuf,
}

/// Numbers of entries that are tried where a table is damaged: more than a diary has, and some minutes.
const MOST_TRIES: u32 = 10_000_000;

/// Rows that name nothing else, or only what was copied before them: table, columns, and how many of these there are.
const OTHERS: [(&str, &str, usize); 4] = [
    ("supersedes", "older, entry", 2),
    ("pack", "id, cid, params, supersedes, pinned, expires_at, created_at", 7),
    ("pack_entry", "pack, rank, id, entry, cid, level, original_tokens, packed_tokens", 8),
    (
        "rendered_pack",
        "id, cid, pack, pack_cid, method, content, content_hash, tokens, pinned, expires_at, created_at",
        11,
    ),
];

impl Diary {
    /// Makes a new diary of all that can be read of this one, and keeps the damaged file next to it. No other process may
    /// use the diary.
    ///
    /// # Errors
    /// Returns an error if nothing can be read, or if the new file cannot be made.
    pub fn repair(
        places: &Places,
        name: &DiaryName,
        clock: Box<dyn Clock>,
    ) -> Result<Repaired, MemoryError> {
        Self::repair_file(&name.path(places), clock)
    }

    /// Does so with the file of a diary.
    pub(super) fn repair_file(path: &Path, clock: Box<dyn Clock>) -> Result<Repaired, MemoryError> {
        let now = clock.now();
        let (old, id) = open_damaged(path)?;
        let new_path = with_ending(path, &format!(".new-{}", now.millis()));
        let made = Self::open_file(&new_path, Some(id), clock).map_err(MemoryError::from).and_then(
            |new| {
                let counts = new.write(|transaction, _| copy(&old, transaction));
                // All of it is to be in the one file that is renamed.
                new.connection.lock().pragma_update(None, "journal_mode", "delete")?;
                counts
            },
        );
        let (entries, lost) = made.inspect_err(|_| remove(&new_path))?;
        // Closed before its files are renamed: SQLite removes the log with the last connection.
        drop(old);
        let damaged = set_aside(path, now).inspect_err(|_| remove(&new_path))?;
        fs::rename(&new_path, path).at("rename", &new_path).map_err(StoreError::from)?;
        Ok(Repaired { entries, lost, damaged })
    }
}

fn remove(path: &Path) {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(with_ending(path, ending));
    }
}

/// Opens a file that may be damaged, and returns it with the diary's id.
fn open_damaged(path: &Path) -> Result<(Connection, Uuid), StoreError> {
    if owned::open(path)?.is_none() {
        return Err(std::io::Error::from(std::io::ErrorKind::NotFound)).at("open", path)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let old = Connection::open_with_flags(path, flags)?;
    distrust(&old)?;
    old.pragma_update(None, "query_only", true)?;
    // Otherwise SQLite reads nothing of a file that has fewer pages than it says. Nothing can be written.
    old.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    old.pragma_update(None, "writable_schema", true)?;
    let application: i64 = old.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != super::FORMAT.application {
        let reason = "another program made it".to_owned();
        return Err(StoreError::Foreign { path: path.to_owned(), reason });
    }
    let id = id_of(&old, path)?.map_or_else(|| Ok(Uuid::generate()?), |id| uuid(&id))?;
    Ok((old, id))
}

/// Returns the diary's id, if it can be read.
///
/// # Errors
/// Returns an error if the file has no entries that could be read.
fn id_of(old: &Connection, path: &Path) -> Result<Option<String>, StoreError> {
    let id = old.query_row("SELECT id FROM diary", [], |row| row.get(0)).optional();
    let reason = match id.map_err(StoreError::from) {
        Err(StoreError::Damaged(reason)) => reason,
        Err(StoreError::Database(error)) => error.to_string(),
        done => return done,
    };
    match old.prepare("SELECT number FROM entry") {
        Ok(_) => Ok(None),
        Err(_) => Err(StoreError::Unreadable { path: path.to_owned(), reason }),
    }
}

/// Copies what can be read, and returns how many entries that are and how many are lost.
fn copy(old: &Connection, new: &Transaction<'_>) -> Result<(u64, u64), MemoryError> {
    let format: i64 = old.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let query = format!("SELECT {} FROM entry WHERE number = ?1", columns_of(format));
    let mut statement = old.prepare(&query)?;
    let (mut copied, mut lost) = (0, 0);
    let mut next = Numbers::of(old)?;
    while let Some(number) = next.after(old) {
        match statement.query_row([number], Stored::of).optional() {
            Ok(None) => {}
            Ok(Some(stored)) => match stored.entry() {
                Ok(entry) => {
                    // Entries that supersede others name them by their numbers.
                    renumber(new, number)?;
                    entries::insert(new, &entry)?;
                    copied += 1;
                }
                Err(_) => lost += 1,
            },
            Err(_) => lost += 1,
        }
    }
    for (table, columns, count) in OTHERS {
        copy_table(old, new, table, columns, count)?;
    }
    Ok((copied, lost))
}

/// The numbers of entries. Where the table says which one is next they are taken from it, elsewhere each is tried.
struct Numbers {
    current: i64,
    last: i64,
    tries: u32,
    /// Whether the table could not be followed.
    is_damaged: bool,
}

impl Numbers {
    fn of(old: &Connection) -> Result<Self, StoreError> {
        // Numbers are never given twice, so this is the largest there was, unless it is damaged, too.
        let query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence";
        let last = old.query_row(query, [], |row| row.get(0))?;
        Ok(Self { current: 0, last, tries: MOST_TRIES, is_damaged: false })
    }

    fn after(&mut self, old: &Connection) -> Option<i64> {
        let next = old
            .prepare_cached("SELECT number FROM entry WHERE number > ?1 ORDER BY number LIMIT 1")
            .and_then(|mut next| next.query_row([self.current], |row| row.get(0)).optional());
        self.current = match next {
            Ok(Some(next)) if next > self.current => next,
            Ok(None) if !self.is_damaged => return None,
            // Where pages are missing, SQLite has also found a smaller one, or no more.
            _ if self.current < self.last => {
                self.is_damaged = true;
                self.tries = self.tries.checked_sub(1)?;
                self.current + 1
            }
            _ => return None,
        };
        Some(self.current)
    }
}

/// Has the next entry get this number.
fn renumber(new: &Transaction<'_>, number: i64) -> Result<(), MemoryError> {
    let changed = new.execute(
        "UPDATE sqlite_sequence SET seq = ?1 - 1 WHERE name = 'entry' AND seq < ?1",
        [number],
    )?;
    if changed == 0 {
        new.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('entry', ?1 - 1)", [number])?;
    }
    Ok(())
}

/// Copies rows up to the first one that cannot be read. A row that names what was lost is left out.
fn copy_table(
    old: &Connection,
    new: &Transaction<'_>,
    table: &str,
    columns: &str,
    count: usize,
) -> Result<(), MemoryError> {
    let places = vec!["?"; count].join(", ");
    let insert = format!("INSERT INTO {table} ({columns}) VALUES ({places})");
    let Ok(mut statement) = old.prepare(&format!("SELECT {columns} FROM {table}")) else {
        return Ok(());
    };
    let Ok(mut rows) = statement.query([]) else { return Ok(()) };
    while let Ok(Some(row)) = rows.next() {
        let cells: Result<Vec<Cell>, _> = (0..count).map(|column| row.get(column)).collect();
        let Ok(cells) = cells else { continue };
        match new.prepare_cached(&insert)?.execute(params_from_iter(cells)) {
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.code == rusqlite::ErrorCode::ConstraintViolation => {}
            done => drop(done?),
        }
    }
    Ok(())
}

/// Gives a diary's files another name, and returns it. The diary itself keeps its own until the new one takes that: another
/// process would make an empty one in its place.
pub(super) fn set_aside(path: &Path, now: Timestamp) -> Result<PathBuf, StoreError> {
    let damaged = with_ending(path, &format!(".damaged-{}", now.millis()));
    fs::hard_link(path, &damaged).at("link", path)?;
    for ending in ["-wal", "-shm"] {
        let from = with_ending(path, ending);
        match fs::rename(&from, with_ending(&damaged, ending)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            done => done.at("rename", &from)?,
        }
    }
    Ok(damaged)
}
