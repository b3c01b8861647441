//! Lists of tasks.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pinfold_tasks::{Listing, Status, Store, Task, TaskId, Timestamp, Transaction};

use super::caller::Caller;
use super::document::{Document, changing};
use super::query::Query;
use super::render;
use super::service::Service;
use crate::problem::Problem;
use pinfold_content::{Value, times};

/// How many tasks a page has, and may have.
const PAGE: u32 = 20;
const LONGEST_PAGE: u32 = 100;
/// A page that has more bytes ends: clients read a page as a whole.
const LARGEST_PAGE: usize = 8 << 20;
/// How many tasks are read from the store at once.
const READ_AT_ONCE: u32 = 1_000;

/// Which tasks are wanted.
struct Filter {
    query: Query,
    statuses: Vec<Status>,
    times: [Option<Timestamp>; 4],
    has_attempts: Option<bool>,
}

/// Where a page begins: after this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    at: Timestamp,
    id: TaskId,
}

impl<S: Store> Service<S> {
    /// Lists tasks: the newest first, but the oldest first if only queued ones are asked for. A worker takes the first
    /// ones, and the others would have to wait for as long as new ones come.
    pub(super) fn list(&self, caller: &Caller, query: &Query) -> Result<Value, Problem> {
        let filter = Filter::read(query)?;
        let limit = query.number("limit", 1, LONGEST_PAGE)?.unwrap_or(PAGE) as usize;
        let cursor = query.parsed("cursor", Cursor::read)?;
        let is_oldest_first = filter.statuses == [Status::Queued];
        self.store.read(|transaction| {
            let mut found = self.all(transaction, caller, &filter)?;
            if is_oldest_first {
                found.reverse();
            }
            let total = found.len() as u64;
            let key = |task: &Task| (task.added_at, task.id);
            let begin = cursor.map_or(0, |Cursor { at, id }| {
                found.partition_point(|task| {
                    if is_oldest_first { key(task) <= (at, id) } else { key(task) >= (at, id) }
                })
            });
            let rest = &found[begin..];
            let (mut items, mut bytes) = (Vec::new(), 0);
            for task in rest.iter().take(limit) {
                if bytes > LARGEST_PAGE {
                    break;
                }
                let document =
                    self.document(transaction, task.id)?.ok_or_else(Problem::internal)?;
                let item = render::task(transaction, task, &document)?;
                bytes += item.to_string().len();
                items.push(item);
            }
            let last = rest[..items.len()].last().filter(|_| rest.len() > items.len());
            let list = Value::object([("items", Value::Array(items)), ("total", total.into())]);
            match (list, last) {
                (Value::Object(list), Some(task)) => {
                    let cursor = Cursor { at: task.added_at, id: task.id };
                    Ok(list.with("nextCursor", cursor.write()).into())
                }
                (list, _) => Ok(list),
            }
        })
    }

    /// Returns all tasks that are wanted, the newest first. Their documents could be more than fits into the memory.
    fn all(
        &self,
        transaction: &mut S::Transaction<'_>,
        caller: &Caller,
        filter: &Filter,
    ) -> Result<Vec<Task>, Problem> {
        let mut found = Vec::new();
        let statuses = filter.statuses.clone();
        let mut listing = Listing { statuses, before: None, limit: READ_AT_ONCE };
        loop {
            let tasks = transaction.list(&listing)?;
            let is_last = tasks.len() < READ_AT_ONCE as usize;
            listing.before = tasks.last().map(|task| (task.added_at, task.id));
            for task in tasks {
                let Some(document) = self.document(transaction, task.id)? else { continue };
                if filter.wants(transaction, caller, &task, &document)? {
                    found.push(task);
                }
            }
            if is_last {
                return Ok(found);
            }
        }
    }
}

impl Filter {
    fn read(query: &Query) -> Result<Self, Problem> {
        let words = query.all("status").chain(query.all("statuses"));
        let invalid = |_| Problem::field("query/statuses", "unknown status");
        let mut statuses =
            words.map(|word| word.parse().map_err(invalid)).collect::<Result<Vec<Status>, _>>()?;
        statuses.dedup();
        if statuses.len() > 8 {
            return Err(Problem::field("query/statuses", "must NOT have more than 8 items"));
        }
        let time = |name: &str| query.parsed(name, times::read);
        let times = [
            time("queuedAfter")?,
            time("queuedBefore")?,
            time("completedAfter")?,
            time("completedBefore")?,
        ];
        let has_attempts = query.parsed("hasAttempts", |text| text.parse().ok())?;
        Ok(Self { query: query.clone(), statuses, times, has_attempts })
    }

    fn wants(
        &self,
        transaction: &mut impl Transaction,
        caller: &Caller,
        task: &Task,
        document: &Document,
    ) -> Result<bool, Problem> {
        let is = |name: &str, field: &str| {
            self.query.one(name).is_none_or(|wanted| document.text(field) == wanted)
        };
        let types = || self.query.all("taskTypes");
        let kind = document.text("taskType");
        let [after, before, ended_after, ended_before] = self.times;
        let is_wanted = document.text("teamId") == caller.agent.team
            && (types().next().is_none() || types().any(|wanted| wanted == kind))
            && is("correlationId", "correlationId")
            && is("diaryId", "diaryId")
            && is("proposedByAgentId", "proposedByAgentId")
            && self.query.one("proposedByHumanId").is_none()
            && self.query.one("profileId").is_none_or(|id| document.allows_profile(Some(id)))
            && self.has_attempts.is_none_or(|wanted| wanted == (task.attempts > 0))
            && is_between(Some(task.added_at), after, before)
            && is_between(task.ended_at, ended_after, ended_before);
        if !is_wanted {
            return Ok(false);
        }
        if let Some(agent) = self.query.one("claimedByAgentId") {
            let attempts = transaction.attempts(task.id)?;
            if !attempts.iter().any(|attempt| attempt.worker == agent) {
                return Ok(false);
            }
        }
        self.has_text(transaction, task, document)
    }

    /// Checks what of a task may change: its tags and its title.
    fn has_text(
        &self,
        transaction: &mut impl Transaction,
        task: &Task,
        document: &Document,
    ) -> Result<bool, Problem> {
        let names = ["tags", "excludeTags", "query"];
        if names.iter().all(|name| self.query.one(name).is_none()) {
            return Ok(true);
        }
        let changing = changing(transaction, task.id, document)?;
        let tags = changing.get("tags").and_then(Value::as_array).unwrap_or_default();
        let has = |tag: &str| tags.iter().any(|it| it.as_text().is_some_and(|it| it == tag));
        let words = self.query.one("query").map(str::to_lowercase);
        let input = document.field("input");
        let texts = [changing.text_of("title"), input.text_of("brief")];
        let is_in = |words: &String| {
            texts.iter().flatten().any(|text| text.to_lowercase().contains(words.as_str()))
        };
        Ok(self.query.all("tags").all(has)
            && !self.query.all("excludeTags").any(has)
            && words.as_ref().is_none_or(is_in))
    }
}

fn is_between(
    time: Option<Timestamp>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
) -> bool {
    let is_late = after.is_none_or(|after| time.is_some_and(|time| time > after));
    is_late && before.is_none_or(|before| time.is_some_and(|time| time < before))
}

impl Cursor {
    /// Returns the cursor as a text. It says nothing that the list did not: a forged one begins elsewhere in the same list.
    fn write(self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{} {}", self.at.millis(), self.id))
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (at, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
        Some(Self { at: Timestamp::from_millis(at.parse().ok()?), id: id.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use pinfold_tasks::Timestamp;

    use super::Cursor;

    #[test]
    fn cursor_is_read_as_it_is_written_and_others_are_refused() {
        let id = "44444444-4444-4444-8444-444444444444".parse().unwrap();
        let cursor = Cursor { at: Timestamp::from_millis(7), id };
        assert_eq!(Cursor::read(&cursor.write()), Some(cursor));
        for wrong in ["", "x", "////", "NyA0", &"A".repeat(10_000)] {
            assert_eq!(Cursor::read(wrong), None, "{wrong:.10}");
        }
    }
}
