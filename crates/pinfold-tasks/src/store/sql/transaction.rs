//! A transaction of a database: what the queue needs, as statements.

use std::sync::LazyLock;
use std::time::Duration;

use super::{Row, SqlDatabase, Value, rows};
use crate::attempt::Attempt;
use crate::failure::Failure;
use crate::id::{TaskId, Token};
use crate::queue::{Message, NewMessage};
use crate::record::Record;
use crate::store::{Listing, Note, StoreError, Transaction};
use crate::task::{Status, Task};
use crate::touch::{GroupLimits, Touch};
use pinfold_content::Timestamp;

/// What a task changes, joined with what those change that somebody works on.
const OVERLAPPING: &str = "FROM touch AS mine \
     JOIN touch AS other ON other.repository = mine.repository AND other.task <> mine.task \
     JOIN task AS busy ON busy.id = other.task AND busy.status IN ('dispatched', 'running') \
     WHERE (substr(other.beginning, 1, length(mine.beginning)) = mine.beginning \
       OR substr(mine.beginning, 1, length(other.beginning)) = other.beginning)";

/// A transaction of a database. The store commits it or rolls it back.
pub struct SqlTransaction<'a> {
    database: &'a mut dyn SqlDatabase,
    now: Timestamp,
}

impl<'a> SqlTransaction<'a> {
    /// Returns a transaction that began at this time, by the store's clock.
    #[must_use]
    pub fn new(database: &'a mut dyn SqlDatabase, now: Timestamp) -> Self {
        Self { database, now }
    }

    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, StoreError> {
        self.database.execute(statement, values)
    }

    /// Returns the rows of a query.
    fn all<T>(
        &mut self,
        query: &str,
        values: &[Value],
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.database.query(query, values)?.iter().map(read).collect()
    }

    /// Returns the first row of a query.
    fn first<T>(
        &mut self,
        query: &str,
        values: &[Value],
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.database.query(query, values)?.first().map(read).transpose()
    }
}

/// Reads a task with its latest attempt. It is put together once: a claim reads several tasks.
static LOAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, {} FROM task AS its LEFT JOIN attempt AS latest \
         ON latest.task = its.id AND latest.number = its.attempts WHERE its.id = ?1",
        rows::of("its", rows::TASK),
        rows::of("latest", rows::ATTEMPT)
    )
});

/// Writes an attempt. What says whose it is never changes.
const WRITE_ATTEMPT: &str = "INSERT INTO attempt (task, number, status, worker, token, claimed_at, started_at, \
     ended_at, lease_until, ttl, output, usage, failure) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
     ON CONFLICT (task, number) DO UPDATE SET status = ?3, started_at = ?7, ended_at = ?8, \
     lease_until = ?9, ttl = ?10, output = ?11, usage = ?12, failure = ?13";

/// Returns the parameters of [`WRITE_ATTEMPT`].
fn attempt_values(task: TaskId, attempt: &Attempt) -> Result<[Value; 13], StoreError> {
    let completion = attempt.completion.as_ref();
    let usage = completion
        .map(|completion| serde_json::to_string(&completion.usage))
        .transpose()
        .map_err(|error| StoreError::invalid("usage", error))?;
    Ok([
        task.to_string().into(),
        attempt.number.into(),
        attempt.status.word().into(),
        attempt.worker.as_str().into(),
        attempt.token.digits().into(),
        time(attempt.claimed_at),
        attempt.started_at.map(time).into(),
        attempt.ended_at.map(time).into(),
        time(attempt.lease_until),
        millis(attempt.ttl),
        completion.map(|completion| completion.output.as_str()).into(),
        usage.into(),
        failure(attempt.failure.as_ref())?,
    ])
}

/// Returns the values of a task's row, in the order of the parameters of `insert` and `save`.
fn task_values(record: &Record) -> Result<[Value; 20], StoreError> {
    let Record { task, version, .. } = record;
    Ok([
        task.id.to_string().into(),
        whole(*version),
        task.title.as_str().into(),
        task.status.word().into(),
        task.priority.into(),
        task.attempts.into(),
        task.max_attempts.into(),
        task.allowance.into(),
        task.losses.into(),
        task.waits_for.into(),
        millis(task.timeouts.dispatch),
        millis(task.timeouts.running),
        time(task.added_at),
        time(task.queued_at),
        time(task.updated_at),
        task.ended_at.map(time).into(),
        task.expires_at.map(time).into(),
        record.due().map(time).into(),
        task.accepted.into(),
        failure(task.failure.as_ref())?,
    ])
}

impl Transaction for SqlTransaction<'_> {
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
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20) \
             ON CONFLICT (id) DO NOTHING";
        if self.execute(STATEMENT, &task_values(record)?)? == 0 {
            return Err(StoreError::Exists);
        }
        let id = record.task.id.to_string();
        let values = [id.as_str().into(), spec.into()];
        self.execute("INSERT INTO spec (task, content) VALUES (?1, ?2)", &values)?;
        for needs in waits_for {
            let values = [id.as_str().into(), needs.to_string().into()];
            self.execute("INSERT INTO dependency (task, needs) VALUES (?1, ?2)", &values)?;
        }
        for Touch { repository, beginning } in touches {
            let values =
                [id.as_str().into(), repository.as_str().into(), beginning.as_str().into()];
            let statement = "INSERT INTO touch (task, repository, beginning) VALUES (?1, ?2, ?3)";
            self.execute(statement, &values)?;
        }
        Ok(())
    }

    fn load(&mut self, id: TaskId) -> Result<Option<Record>, StoreError> {
        self.first(&LOAD, &[id.to_string().into()], rows::record_with_attempt)
    }

    fn save(&mut self, record: &Record) -> Result<(), StoreError> {
        // All columns are set, so that one list of values serves both statements.
        const STATEMENT: &str = "UPDATE task SET version = ?2 + 1, title = ?3, status = ?4, priority = ?5, \
             attempts = ?6, max_attempts = ?7, allowance = ?8, losses = ?9, waits_for = ?10, \
             dispatch_timeout = ?11, running_timeout = ?12, added_at = ?13, queued_at = ?14, updated_at = ?15, \
             ended_at = ?16, expires_at = ?17, due_at = ?18, accepted = ?19, failure = ?20 \
             WHERE id = ?1 AND version = ?2";
        let (task, attempt) = (task_values(record)?, record.attempt.as_ref());
        let attempt = attempt.map(|attempt| attempt_values(record.task.id, attempt)).transpose()?;
        let mut statements: Vec<(&str, &[Value])> = vec![(STATEMENT, &task)];
        statements.extend(attempt.as_ref().map(|values| (WRITE_ATTEMPT, values.as_slice())));
        match self.database.execute_all(&statements)?.first() {
            Some(1) => Ok(()),
            _ => Err(StoreError::Changed),
        }
    }

    fn remove(&mut self, id: TaskId) -> Result<(), StoreError> {
        self.execute("DELETE FROM task WHERE id = ?1", &[id.to_string().into()]).map(drop)
    }

    fn spec(&mut self, id: TaskId) -> Result<Option<String>, StoreError> {
        let query = "SELECT content FROM spec WHERE task = ?1";
        let text = |row: &Row| Ok(row.text(0)?.map(str::to_owned));
        Ok(self.first(query, &[id.to_string().into()], text)?.flatten())
    }

    fn next_queued(&mut self, groups: &GroupLimits) -> Result<Option<TaskId>, StoreError> {
        let (several, full, values) = group_clauses(groups);
        // With its limit the inner query is not made a join of all queued tasks: PostgreSQL asks it for one task after
        // the other, in the order of the index, until one may run.
        let query = format!(
            "SELECT id FROM task WHERE status = 'queued' \
               AND NOT EXISTS (SELECT 1 {OVERLAPPING} {several} AND mine.task = task.id LIMIT 1 OFFSET 0) {full} \
             ORDER BY priority DESC, queued_at, added_at, id LIMIT 1"
        );
        self.first(&query, &values, rows::id)
    }

    fn queued(&mut self, limit: u32) -> Result<Vec<(TaskId, u32)>, StoreError> {
        const QUERY: &str = "SELECT id, attempts FROM task WHERE status = 'queued' \
             ORDER BY priority DESC, queued_at, added_at, id LIMIT ?1";
        self.all(QUERY, &[limit.into()], rows::id_and_attempts)
    }

    fn has_touches(&mut self, id: TaskId) -> Result<bool, StoreError> {
        const QUERY: &str = "SELECT task FROM touch WHERE task = ?1 LIMIT 1";
        Ok(self.first(QUERY, &[id.to_string().into()], rows::id)?.is_some())
    }

    fn overlapping(
        &mut self,
        id: TaskId,
        groups: &GroupLimits,
    ) -> Result<Option<TaskId>, StoreError> {
        let (several, full, mut values) = group_clauses(groups);
        let at = values.len() + 1;
        values.push(id.to_string().into());
        // It is in the way of itself if its group has enough to do.
        let query = format!(
            "SELECT busy.id {OVERLAPPING} {several} AND mine.task = ?{at} \
             UNION ALL SELECT id FROM task WHERE id = ?{at} AND NOT (1 = 1 {full}) LIMIT 1"
        );
        self.first(&query, &values, rows::id)
    }

    fn with_token(&mut self, token: Token) -> Result<Option<TaskId>, StoreError> {
        let query = "SELECT task FROM attempt WHERE token = ?1";
        self.first(query, &[token.digits().into()], rows::id)
    }

    fn due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let query = "SELECT id FROM task WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2";
        self.all(query, &[time(now), limit.into()], rows::id)
    }

    fn waiting_for(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
        let query = "SELECT task FROM dependency WHERE needs = ?1";
        self.all(query, &[id.to_string().into()], rows::id)
    }

    fn attempts(&mut self, id: TaskId) -> Result<Vec<Attempt>, StoreError> {
        let columns = rows::ATTEMPT;
        let query = format!("SELECT {columns} FROM attempt WHERE task = ?1 ORDER BY number");
        self.all(&query, &[id.to_string().into()], rows::attempt)
    }

    fn list(&mut self, listing: &Listing) -> Result<Vec<Task>, StoreError> {
        // A list of words of this program's own: nothing in it needs quoting.
        let words: Vec<String> =
            listing.statuses.iter().map(|status: &Status| format!("'{status}'")).collect();
        let chosen = if words.is_empty() {
            String::new()
        } else {
            format!("AND status IN ({})", words.join(", "))
        };
        let query = format!(
            "SELECT {} FROM task WHERE (added_at, id) < (?1, ?2) {chosen} \
             ORDER BY added_at DESC, id DESC LIMIT ?3",
            rows::TASK
        );
        // No id is after this text.
        let (at, id) = match listing.before {
            Some((at, id)) => (time(at), id.to_string()),
            None => (Value::Number(i64::MAX), "~".to_owned()),
        };
        let key = [at, id.into(), listing.limit.into()];
        self.all(&query, &key, |row| rows::record(row).map(|record| record.task))
    }

    fn append(
        &mut self,
        id: TaskId,
        attempt: u32,
        messages: &[NewMessage],
    ) -> Result<(), StoreError> {
        const STATEMENT: &str = "INSERT INTO message (task, attempt, number, at, kind, payload) VALUES (?1, ?2, \
             (SELECT coalesce(max(number) + 1, 0) FROM message WHERE task = ?1 AND attempt = ?2), ?3, ?4, ?5)";
        let id = id.to_string();
        let values = messages.iter().map(|message| -> [Value; 5] {
            [
                id.as_str().into(),
                attempt.into(),
                time(message.at.unwrap_or(self.now)),
                message.kind.as_str().into(),
                message.payload.as_str().into(),
            ]
        });
        let values: Vec<_> = values.collect();
        let statements: Vec<(&str, &[Value])> =
            values.iter().map(|values| (STATEMENT, values.as_slice())).collect();
        self.database.execute_all(&statements).map(drop)
    }

    fn messages(
        &mut self,
        id: TaskId,
        attempt: u32,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Message>, StoreError> {
        let query = format!(
            "SELECT {} FROM message \
             WHERE task = ?1 AND attempt = ?2 AND number >= ?3 ORDER BY number LIMIT ?4",
            rows::MESSAGE
        );
        let key = [id.to_string().into(), attempt.into(), whole(from), limit.into()];
        self.all(&query, &key, rows::message)
    }

    fn note(&mut self, kind: &str, key: &str) -> Result<Option<String>, StoreError> {
        const QUERY: &str = "SELECT content FROM note WHERE kind = ?1 AND key = ?2";
        let content = self
            .first(QUERY, &[kind.into(), key.into()], |row| Ok(row.text(0)?.map(str::to_owned)))?;
        Ok(content.flatten())
    }

    fn set_note(
        &mut self,
        kind: &str,
        note: &Note,
        task: Option<TaskId>,
    ) -> Result<(), StoreError> {
        const STATEMENT: &str = "INSERT INTO note (kind, key, task, content) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (kind, key) DO UPDATE SET task = ?3, content = ?4";
        let task = task.map(|task| task.to_string());
        let values =
            [kind.into(), note.key.as_str().into(), task.into(), note.content.as_str().into()];
        self.execute(STATEMENT, &values).map(drop)
    }

    fn remove_note(&mut self, kind: &str, key: &str) -> Result<(), StoreError> {
        let statement = "DELETE FROM note WHERE kind = ?1 AND key = ?2";
        self.execute(statement, &[kind.into(), key.into()]).map(drop)
    }

    fn notes(
        &mut self,
        kind: &str,
        beginning: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Note>, StoreError> {
        const QUERY: &str = "SELECT key, content FROM note WHERE kind = ?1 AND key > ?3 AND key >= ?2 \
             AND substr(key, 1, length(?2)) = ?2 ORDER BY key LIMIT ?4";
        let values = [kind.into(), beginning.into(), after.into(), limit.into()];
        self.all(QUERY, &values, rows::note)
    }
}

/// Returns what takes groups with more than one task at once out of [`OVERLAPPING`], what holds of a task whose group has
/// not enough to do, and the values of both.
fn group_clauses(groups: &GroupLimits) -> (String, String, Vec<Value>) {
    let (mut names, mut full, mut values) = (Vec::new(), String::new(), Vec::new());
    for (group, limit) in groups.touched() {
        values.extend([group.into(), limit.into()]);
        let (name, most) = (values.len() - 1, values.len());
        names.push(format!("?{name}"));
        full += &format!(
            " AND (NOT EXISTS (SELECT 1 FROM touch AS its WHERE its.task = task.id AND its.repository = ?{name}) \
             OR (SELECT count(*) FROM touch AS busy_touch \
                 JOIN task AS busy ON busy.id = busy_touch.task AND busy.status IN ('dispatched', 'running') \
                 WHERE busy_touch.repository = ?{name} AND busy_touch.task <> task.id) < ?{most})"
        );
    }
    let several = if names.is_empty() {
        String::new()
    } else {
        format!("AND mine.repository NOT IN ({})", names.join(", "))
    };
    (several, full, values)
}

fn failure(failure: Option<&Failure>) -> Result<Value, StoreError> {
    let text = failure.map(serde_json::to_string).transpose();
    text.map(Value::from).map_err(|error| StoreError::invalid("failure", error))
}

fn time(time: Timestamp) -> Value {
    whole(time.millis())
}

fn millis(duration: Duration) -> Value {
    Value::Number(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

fn whole(number: u64) -> Value {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}
