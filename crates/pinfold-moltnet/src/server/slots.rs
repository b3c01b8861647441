//! Slots of runtimes: where on its machine a daemon has the session and the working tree of what it worked on last. The
//! server only remembers them.

use pinfold_host::digest::name_of;
use pinfold_tasks::{Note, Store, TaskId, Timestamp, Transaction};

use super::attempts::AttemptId;
use super::caller::Caller;
use super::document::{load, notes};
use super::query::Query;
use super::runtime::{SESSION_TTL, id_of};
use super::service::{Service, check};
use crate::problem::{Kind, Problem};
use pinfold_content::{Object, Value, read};

/// The most slots of one agent. A further one takes the place of the one that was not used for the longest time.
const MOST: u32 = 1_000;
/// How many slots a list has, and may have.
const LISTED: u32 = 20;
const MOST_LISTED: u32 = 200;

impl<S: Store> Service<S> {
    /// Notes that a slot is in use.
    pub(super) fn begin_slot(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        check("beginSlot", body)?;
        let key = key(caller, body);
        self.store.write(|transaction| {
            let (task, number) =
                attempt_of(transaction, caller, body, "lastTaskId", "lastAttemptN")?;
            let now = transaction.now();
            let before = found(transaction, &key)?;
            let created =
                before.as_ref().and_then(|it| it.get("slot")?.get("createdAtMs").cloned());
            let workspace = workspace(caller, body, now);
            let given = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
            let slot = Value::object([
                ("id", id_of(&format!("runtime slot {key}")).into()),
                ("teamId", caller.agent.team.as_str().into()),
                ("agentName", given("agentName")),
                ("runtimeProfileId", given("runtimeProfileId")),
                ("provider", given("provider")),
                ("model", given("model")),
                ("slotKey", given("slotKey")),
                ("taskType", given("taskType")),
                ("state", "active".into()),
                ("lastTaskId", task),
                ("lastAttemptN", number),
                ("sessionDir", given("sessionDir")),
                ("sessionPath", given("sessionPath")),
                ("workspaceRowId", workspace.get("id").cloned().unwrap_or(Value::Null)),
                ("createdAtMs", created.unwrap_or(now.millis().into())),
                ("lastUsedAtMs", now.millis().into()),
                ("expiresAtMs", end_of(now).into()),
            ]);
            if before.is_none() {
                make_room(transaction, caller)?;
            }
            keep(transaction, &key, &slot, workspace)?;
            Ok(slot)
        })
    }

    /// Notes that a slot is no longer in use.
    pub(super) fn finish_slot(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        check("finishSlot", body)?;
        let key = key(caller, body);
        self.store.write(|transaction| {
            let (task, number) = attempt_of(transaction, caller, body, "taskId", "attemptN")?;
            let found = found(transaction, &key)?;
            let slot = found.as_ref().and_then(|it| it.get("slot")).and_then(Value::as_object);
            let is_same = |slot: &&Object| {
                slot.get("lastTaskId") == Some(&task) && slot.get("lastAttemptN") == Some(&number)
            };
            let changed = || Problem::conflict("Runtime slot changed before finish");
            let slot = slot.filter(is_same).ok_or_else(changed)?;
            let now = transaction.now();
            let slot = Object::new(
                slot.members()
                    .map(|(name, value)| {
                        let value = match &*name.to_str() {
                            "state" => "idle".into(),
                            "sessionPath" => body.get("sessionPath").unwrap_or(value).clone(),
                            "lastUsedAtMs" => now.millis().into(),
                            "expiresAtMs" => end_of(now).into(),
                            _ => value.clone(),
                        };
                        (name.clone(), value)
                    })
                    .collect(),
            );
            let slot = Value::from(slot);
            let workspace = found.as_ref().and_then(|it| it.get("workspace")).cloned();
            keep(transaction, &key, &slot, workspace.unwrap_or(Value::Null))?;
            Ok(slot)
        })
    }

    /// Lists the slots of the caller, the one used last first.
    pub(super) fn slots(&self, caller: &Caller, query: &Query) -> Result<Value, Problem> {
        let limit = query.number("limit", 1, MOST_LISTED)?.unwrap_or(LISTED) as usize;
        let fits = |resolved: &Value| {
            // One that an older version kept has no such part, and counts for nothing.
            let Some(slot) = resolved.get("slot") else { return false };
            ["agentName", "runtimeProfileId", "state"].iter().all(|name| {
                let is = slot.text_of(name);
                query.one(name).is_none_or(|wanted| is.is_some_and(|is| is == wanted))
            })
        };
        let all = self.store.read(|transaction| all_of(transaction, caller))?;
        let items = all.into_iter().map(|(_, it)| it).filter(fits).take(limit).collect::<Value>();
        Ok(Value::object([("items", items)]))
    }

    /// Returns the slot that an attempt ran in.
    pub(super) fn latest_slot(&self, caller: &Caller, id: AttemptId) -> Result<Value, Problem> {
        let (task, number) = (Value::from(id.task.to_string()), Value::from(id.number));
        let all = self.store.read(|transaction| all_of(transaction, caller))?;
        let is_it = |resolved: &Value| {
            let slot = resolved.get("slot");
            slot.is_some_and(|slot| {
                slot.get("lastTaskId") == Some(&task) && slot.get("lastAttemptN") == Some(&number)
            })
        };
        let found = all.into_iter().map(|(_, it)| it).find(is_it);
        found.ok_or_else(|| Problem::not_found("Runtime slot not found"))
    }
}

/// Returns the key of a slot, which is known by the agent, its profile and the slot's own key.
fn key(caller: &Caller, body: &Value) -> String {
    let part = |name: &str| name_of(body.text_of(name).unwrap_or_default().as_bytes());
    let parts = ["agentName", "runtimeProfileId", "slotKey"].map(part).concat();
    format!("{}/{}", caller.agent.id, name_of(parts.as_bytes()))
}

/// Returns the task and the number of an attempt that a request names, which has to be one of the caller's team.
fn attempt_of(
    transaction: &mut impl Transaction,
    caller: &Caller,
    body: &Value,
    task: &str,
    number: &str,
) -> Result<(Value, Value), Problem> {
    let missing = |field: &str, what: &str| {
        Problem::field(field, format!("{what} does not exist in the team of the key"))
    };
    let id = body.text_of(task).and_then(|id| id.to_ascii_lowercase().parse::<TaskId>().ok());
    let id = id.ok_or_else(|| missing(task, "Task"))?;
    let (record, _) = load(transaction, caller, id).map_err(|problem| match problem.kind {
        Kind::NotFound => missing(task, "Task"),
        _ => problem,
    })?;
    let given = body.get(number).and_then(Value::as_count);
    let attempt = given.filter(|it| (1..=u64::from(record.task.attempts)).contains(it));
    let attempt = attempt.ok_or_else(|| missing(number, "Attempt"))?;
    Ok((id.to_string().into(), attempt.into()))
}

/// Returns until when a slot is kept that is used now, in milliseconds since the epoch.
fn end_of(now: Timestamp) -> u64 {
    now.millis().saturating_add(u64::from(SESSION_TTL) * 1_000)
}

/// Returns the working tree of a slot, if it has one of its own.
fn workspace(caller: &Caller, body: &Value, now: Timestamp) -> Value {
    let (Some(id), Some(path)) = (body.text_of("workspaceId"), body.text_of("worktreePath")) else {
        return Value::Null;
    };
    let team = &caller.agent.team;
    Value::object([
        ("id", id_of(&format!("runtime workspace {team} {}/{id}", caller.agent.id)).into()),
        ("teamId", team.as_str().into()),
        ("workspaceId", (&*id).into()),
        ("worktreePath", (&*path).into()),
        ("worktreeBranch", body.get("worktreeBranch").cloned().unwrap_or(Value::Null)),
        ("kind", body.text_of("workspaceKind").as_deref().unwrap_or("origin").into()),
        ("createdAtMs", now.millis().into()),
        ("lastUsedAtMs", now.millis().into()),
    ])
}

fn keep(
    transaction: &mut impl Transaction,
    key: &str,
    slot: &Value,
    workspace: Value,
) -> Result<(), Problem> {
    let resolved = Value::object([("slot", slot.clone()), ("workspace", workspace)]);
    let note = Note { key: key.to_owned(), content: resolved.to_string() };
    Ok(transaction.set_note(notes::SLOT, &note, None)?)
}

fn found(transaction: &mut impl Transaction, key: &str) -> Result<Option<Value>, Problem> {
    let note = transaction.note(notes::SLOT, key)?;
    note.map(|text| read(&text)).transpose().map_err(|_| Problem::internal())
}

/// Returns the slots of the caller with their keys, the one used last first.
fn all_of(
    transaction: &mut impl Transaction,
    caller: &Caller,
) -> Result<Vec<(String, Value)>, Problem> {
    let beginning = format!("{}/", caller.agent.id);
    let notes = transaction.notes(notes::SLOT, &beginning, "", MOST)?.into_iter();
    let mut all = notes
        .map(|note| Ok((note.key, read(&note.content)?)))
        .collect::<Result<Vec<_>, pinfold_content::InvalidJson>>()
        .map_err(|_| Problem::internal())?;
    all.sort_by_key(|(_, resolved)| std::cmp::Reverse(last_use(resolved)));
    Ok(all)
}

/// Returns when a slot was last used, in milliseconds since the epoch; 0 for one that an older version kept.
fn last_use(resolved: &Value) -> u64 {
    let time = resolved.get("slot").and_then(|slot| slot.get("lastUsedAtMs"));
    time.and_then(Value::as_count).unwrap_or_default()
}

/// Removes the slot that was not used for the longest time, if the agent has as many as it may have.
fn make_room(transaction: &mut impl Transaction, caller: &Caller) -> Result<(), Problem> {
    let all = all_of(transaction, caller)?;
    if all.len() >= MOST as usize
        && let Some((key, _)) = all.last()
    {
        transaction.remove_note(notes::SLOT, key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pinfold_content::{Value, read};
    use pinfold_tasks::{Note, SqliteStore, Store as _, SystemClock, Transaction as _};

    use super::MOST;
    use crate::agents::{Agents, NewAgent};
    use crate::scope::Scope;
    use crate::server::caller::Caller;
    use crate::server::document::notes;
    use crate::server::service::Service;

    #[test]
    fn slot_that_was_not_used_for_the_longest_time_makes_room() {
        let directory = tempfile::tempdir().unwrap();
        let new = NewAgent {
            name: "a".to_owned(),
            team: None,
            scopes: Scope::ALL.to_vec(),
            public_key: None,
        };
        let agents = Agents::new(directory.path().join("agents.json"));
        let caller = Caller { agent: agents.add(&new).unwrap().0, scopes: Scope::ALL.to_vec() };
        let store = SqliteStore::in_memory(Box::new(SystemClock)).unwrap();
        let service = Service::new(store, directory.path().join("files"));
        let task = r#"{"taskType":"freeform","diaryId":"22222222-2222-4222-8222-222222222222","input":{"brief":"x"}}"#;
        let task = service.create(&caller, &read(task).unwrap(), None).unwrap();
        let task = task.text_of("id").unwrap();
        service.claim(&caller, task.parse().unwrap(), &Value::object([])).unwrap();
        service
            .store
            .write(|transaction| {
                for number in 0..MOST {
                    let used = if number == 700 { 1 } else { 1_000 + number };
                    let key = format!("{}/{number:064}", caller.agent.id);
                    // One is of an older version.
                    let content = match number {
                        800 => r#"{"id":"x","state":"idle"}"#.to_owned(),
                        _ => format!(r#"{{"slot":{{"lastUsedAtMs":{used}}},"workspace":null}}"#),
                    };
                    transaction.set_note(notes::SLOT, &Note { key, content }, None)?;
                }
                Ok::<_, crate::problem::Problem>(())
            })
            .unwrap();
        for (key, gone) in [("one", 800), ("two", 700), ("two", 700)] {
            let body = format!(
                r#"{{"agentName":"a","runtimeProfileId":"88888888-8888-4888-8888-888888888888","provider":"x",
                "model":"y","slotKey":"{key}","taskType":"freeform","lastTaskId":"{task}","lastAttemptN":1}}"#
            );
            service.begin_slot(&caller, &read(&body).unwrap()).unwrap();
            let beginning = format!("{}/", caller.agent.id);
            let kept = service
                .store
                .read(|transaction| {
                    Ok::<_, crate::problem::Problem>(transaction.notes(
                        notes::SLOT,
                        &beginning,
                        "",
                        MOST + 1,
                    )?)
                })
                .unwrap();
            assert_eq!(kept.len(), MOST as usize, "{key}");
            assert!(!kept.iter().any(|note| note.key.ends_with(&format!("{gone:064}"))), "{key}");
        }
    }
}
