//! A transaction of the embedded store.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, Params, Row, named_params, params};

use super::rows;
use crate::attempt::Attempt;
use crate::failure::Failure;
use crate::id::{TaskId, Token};
use crate::queue::{Message, NewMessage};
use crate::record::Record;
use crate::store::{Listing, Note, StoreError, Transaction};
use crate::task::{Status, Task};
use crate::time::Timestamp;
use crate::touch::Touch;

/// A transaction of a [`SqliteStore`](super::SqliteStore). Dropped without a commit, it never was.
#[derive(Debug)]
pub struct SqliteTransaction<'a> {
    database: rusqlite::Transaction<'a>,
    now: Timestamp,
}

impl<'a> SqliteTransaction<'a> {
    pub(super) fn new(database: rusqlite::Transaction<'a>, now: Timestamp) -> Self {
        Self { database, now }
    }

    pub(super) fn commit(self) -> Result<(), StoreError> {
        Ok(self.database.commit()?)
    }

    /// Runs a statement, and returns how many rows it changed.
    fn execute(&self, statement: &str, parameters: impl Params) -> Result<usize, StoreError> {
        Ok(self.database.prepare_cached(statement)?.execute(parameters)?)
    }

    /// Returns the rows of a query.
    fn all<T>(
        &self,
        query: &str,
        parameters: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.database.prepare_cached(query)?;
        let mut rows = statement.query(parameters)?;
        let mut values = Vec::new();
        while let Some(row) = rows.next()? {
            values.push(read(row)?);
        }
        Ok(values)
    }

    /// Returns the first row of a query.
    fn first<T>(
        &self,
        query: &str,
        parameters: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.database.prepare_cached(query)?;
        let mut rows = statement.query(parameters)?;
        rows.next()?.map(read).transpose()
    }

    /// Writes a task's row, by a statement that names its columns.
    fn write_task(&self, statement: &str, record: &Record) -> Result<usize, StoreError> {
        let Record { task, version, .. } = record;
        self.execute(
            statement,
            named_params! {
                ":id": task.id.to_string(),
                ":version": whole(*version),
                ":title": task.title,
                ":status": task.status.word(),
                ":priority": task.priority,
                ":attempts": task.attempts,
                ":max_attempts": task.max_attempts,
                ":allowance": task.allowance,
                ":losses": task.losses,
                ":waits_for": task.waits_for,
                ":dispatch_timeout": millis(task.timeouts.dispatch),
                ":running_timeout": millis(task.timeouts.running),
                ":added_at": time(task.added_at),
                ":queued_at": time(task.queued_at),
                ":updated_at": time(task.updated_at),
                ":ended_at": task.ended_at.map(time),
                ":expires_at": task.expires_at.map(time),
                ":due_at": record.due().map(time),
                ":accepted": task.accepted,
                ":failure": failure(task.failure.as_ref())?,
            },
        )
    }

    fn write_attempt(&self, task: TaskId, attempt: &Attempt) -> Result<(), StoreError> {
        // What says whose an attempt is never changes.
        const STATEMENT: &str = "INSERT INTO attempt (task, number, status, worker, token, claimed_at, started_at, \
             ended_at, lease_until, ttl, output, usage, failure) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
             ON CONFLICT (task, number) DO UPDATE SET status = ?3, started_at = ?7, ended_at = ?8, \
             lease_until = ?9, ttl = ?10, output = ?11, usage = ?12, failure = ?13";
        let completion = attempt.completion.as_ref();
        let usage = completion.map(|completion| serde_json::to_string(&completion.usage));
        let usage = usage.transpose().map_err(|error| StoreError::invalid("usage", error))?;
        self.execute(
            STATEMENT,
            params![
                task.to_string(),
                attempt.number,
                attempt.status.word(),
                attempt.worker,
                attempt.token.digits(),
                time(attempt.claimed_at),
                attempt.started_at.map(time),
                attempt.ended_at.map(time),
                time(attempt.lease_until),
                millis(attempt.ttl),
                completion.map(|completion| completion.output.as_str()),
                usage,
                failure(attempt.failure.as_ref())?,
            ],
        )
        .map(drop)
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn insert(
        &mut self,
        record: &Record,
        spec: &str,
        waits_for: &[TaskId],
        touches: &[Touch],
    ) -> Result<(), StoreError> {
        const STATEMENT: &str = "INSERT INTO task (id, version, title, status, priority, attempts, max_attempts, \
             allowance, losses, waits_for, dispatch_timeout, running_timeout, added_at, queued_at, updated_at, \
             ended_at, expires_at, due_at, accepted, failure) \
             VALUES (:id, :version, :title, :status, :priority, :attempts, :max_attempts, :allowance, :losses, \
             :waits_for, :dispatch_timeout, :running_timeout, :added_at, :queued_at, :updated_at, :ended_at, \
             :expires_at, :due_at, :accepted, :failure) ON CONFLICT (id) DO NOTHING";
        if self.write_task(STATEMENT, record)? == 0 {
            return Err(StoreError::Exists);
        }
        let id = record.task.id.to_string();
        self.execute("INSERT INTO spec (task, content) VALUES (?1, ?2)", params![id, spec])?;
        for needs in waits_for {
            let statement = "INSERT INTO dependency (task, needs) VALUES (?1, ?2)";
            self.execute(statement, params![id, needs.to_string()])?;
        }
        for Touch { repository, beginning } in touches {
            let statement = "INSERT INTO touch (task, repository, beginning) VALUES (?1, ?2, ?3)";
            self.execute(statement, params![id, repository, beginning])?;
        }
        Ok(())
    }

    fn load(&mut self, id: TaskId) -> Result<Option<Record>, StoreError> {
        let query = format!("SELECT {} FROM task WHERE id = ?1", rows::TASK);
        let record = self.first(&query, [id.to_string()], rows::record)?;
        let Some(mut record) = record else { return Ok(None) };
        if record.task.attempts > 0 {
            let columns = rows::ATTEMPT;
            let query = format!("SELECT {columns} FROM attempt WHERE task = ?1 AND number = ?2");
            let key = params![id.to_string(), record.task.attempts];
            record.attempt = self.first(&query, key, rows::attempt)?;
        }
        Ok(Some(record))
    }

    fn save(&mut self, record: &Record) -> Result<(), StoreError> {
        // All columns are named, so that one list of values serves both statements.
        const STATEMENT: &str = "UPDATE task SET version = :version + 1, title = :title, status = :status, \
             priority = :priority, attempts = :attempts, max_attempts = :max_attempts, allowance = :allowance, \
             losses = :losses, waits_for = :waits_for, dispatch_timeout = :dispatch_timeout, \
             running_timeout = :running_timeout, added_at = :added_at, queued_at = :queued_at, \
             updated_at = :updated_at, ended_at = :ended_at, expires_at = :expires_at, due_at = :due_at, \
             accepted = :accepted, failure = :failure WHERE id = :id AND version = :version";
        if self.write_task(STATEMENT, record)? != 1 {
            return Err(StoreError::Changed);
        }
        match &record.attempt {
            Some(attempt) => self.write_attempt(record.task.id, attempt),
            None => Ok(()),
        }
    }

    fn remove(&mut self, id: TaskId) -> Result<(), StoreError> {
        self.execute("DELETE FROM task WHERE id = ?1", [id.to_string()]).map(drop)
    }

    fn spec(&mut self, id: TaskId) -> Result<Option<String>, StoreError> {
        let query = "SELECT content FROM spec WHERE task = ?1";
        let mut statement = self.database.prepare_cached(query)?;
        Ok(statement.query_row([id.to_string()], |row| row.get(0)).optional()?)
    }

    fn next_queued(&mut self) -> Result<Option<TaskId>, StoreError> {
        let query = "SELECT id FROM task WHERE status = 'queued' AND NOT EXISTS ( \
               SELECT 1 FROM touch AS mine \
               JOIN touch AS other ON other.repository = mine.repository AND other.task <> mine.task \
               JOIN task AS busy ON busy.id = other.task AND busy.status IN ('dispatched', 'running') \
               WHERE mine.task = task.id \
                 AND (substr(other.beginning, 1, length(mine.beginning)) = mine.beginning \
                   OR substr(mine.beginning, 1, length(other.beginning)) = other.beginning)) \
             ORDER BY priority DESC, queued_at, added_at, id LIMIT 1";
        self.first(query, [], rows::id)
    }

    fn with_token(&mut self, token: Token) -> Result<Option<TaskId>, StoreError> {
        self.first("SELECT task FROM attempt WHERE token = ?1", [token.digits()], rows::id)
    }

    fn due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let query = "SELECT id FROM task WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2";
        self.all(query, params![time(now), limit], rows::id)
    }

    fn waiting_for(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
        self.all("SELECT task FROM dependency WHERE needs = ?1", [id.to_string()], rows::id)
    }

    fn attempts(&mut self, id: TaskId) -> Result<Vec<Attempt>, StoreError> {
        let columns = rows::ATTEMPT;
        let query = format!("SELECT {columns} FROM attempt WHERE task = ?1 ORDER BY number");
        self.all(&query, [id.to_string()], rows::attempt)
    }

    fn list(&mut self, listing: &Listing) -> Result<Vec<Task>, StoreError> {
        // A list of words of this program's own: nothing in it needs quoting.
        let words: Vec<String> =
            listing.statuses.iter().map(|status: &Status| format!("'{status}'")).collect();
        let chosen = match words.is_empty() {
            true => String::new(),
            false => format!("AND status IN ({})", words.join(", ")),
        };
        let query = format!(
            "SELECT {} FROM task WHERE (added_at, id) < (?1, ?2) {chosen} \
             ORDER BY added_at DESC, id DESC LIMIT ?3",
            rows::TASK
        );
        // No id is after this text.
        let (at, id) = match listing.before {
            Some((at, id)) => (time(at), id.to_string()),
            None => (i64::MAX, "~".to_owned()),
        };
        let key = params![at, id, listing.limit];
        self.all(&query, key, |row| rows::record(row).map(|record| record.task))
    }

    fn append(
        &mut self,
        id: TaskId,
        attempt: u32,
        messages: &[NewMessage],
    ) -> Result<(), StoreError> {
        const NEXT: &str =
            "SELECT coalesce(max(number) + 1, 0) FROM message WHERE task = ?1 AND attempt = ?2";
        const STATEMENT: &str = "INSERT INTO message (task, attempt, number, at, kind, payload) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let id = id.to_string();
        let next = self.first(NEXT, params![id, attempt], |row| Ok(row.get(0)?))?;
        for (number, message) in (next.unwrap_or(0_i64)..).zip(messages) {
            let at = time(message.at.unwrap_or(self.now));
            let values = params![id, attempt, number, at, message.kind, message.payload];
            self.execute(STATEMENT, values)?;
        }
        Ok(())
    }

    fn messages(
        &mut self,
        id: TaskId,
        attempt: u32,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Message>, StoreError> {
        let query = "SELECT number, at, kind, payload FROM message \
             WHERE task = ?1 AND attempt = ?2 AND number >= ?3 ORDER BY number LIMIT ?4";
        self.all(query, params![id.to_string(), attempt, whole(from), limit], rows::message)
    }

    fn note(&mut self, kind: &str, key: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT content FROM note WHERE kind = ?1 AND key = ?2";
        self.first(query, params![kind, key], |row| Ok(row.get(0)?))
    }

    fn set_note(
        &mut self,
        kind: &str,
        note: &Note,
        task: Option<TaskId>,
    ) -> Result<(), StoreError> {
        let statement = "INSERT INTO note (kind, key, task, content) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (kind, key) DO UPDATE SET task = ?3, content = ?4";
        let task = task.map(|task| task.to_string());
        self.execute(statement, params![kind, note.key, task, note.content]).map(drop)
    }

    fn notes(
        &mut self,
        kind: &str,
        beginning: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Note>, StoreError> {
        let query = "SELECT key, content FROM note WHERE kind = ?1 AND key > ?3 AND key >= ?2 \
             AND substr(key, 1, length(?2)) = ?2 ORDER BY key LIMIT ?4";
        self.all(query, params![kind, beginning, after, limit], |row| {
            Ok(Note { key: row.get(0)?, content: row.get(1)? })
        })
    }
}

fn failure(failure: Option<&Failure>) -> Result<Option<String>, StoreError> {
    let text = failure.map(serde_json::to_string).transpose();
    text.map_err(|error| StoreError::invalid("failure", error))
}

fn time(time: Timestamp) -> i64 {
    whole(time.millis())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
