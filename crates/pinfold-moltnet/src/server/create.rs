//! Creating tasks.

use std::time::Duration;

use pinfold_host::digest::name_of;
use pinfold_tasks::{Note, Record, Status, Store, Task, TaskId, TaskSpec, Timeouts, Transaction};

use super::caller::Caller;
use super::document::{Document, is_ready, load, notes};
use super::render;
use super::service::{Service, check};
use crate::condition;
use crate::problem::Problem;
use crate::task_type::TaskType;
use pinfold_content::{Cid, Uuid, Value};

/// How long a task waits for a worker: the default, and the longest.
const LIFETIME: Duration = Duration::from_secs(90 * 86_400);
/// The largest task, in bytes of its JSON: a page of ten fits into what a worker reads.
const LARGEST: usize = 1 << 20;
/// The longest idempotency key, in characters.
const LONGEST_KEY: usize = 200;

impl<S: Store> Service<S> {
    /// Creates a task. The same request with the same key creates nothing, and returns the same task.
    pub(super) fn create(
        &self,
        caller: &Caller,
        body: &Value,
        key: Option<&str>,
    ) -> Result<Value, Problem> {
        check("create", body)?;
        let kind = body.text_of("taskType").unwrap_or_default();
        let kind = TaskType::find(&kind)
            .ok_or_else(|| Problem::field("/taskType", format!("unknown task type: {kind}")))?;
        let document = Document(document(caller, body, &kind)?);
        if document.0.to_string().len() > LARGEST {
            return Err(Problem::field(
                "/input",
                format!("the task has more than {LARGEST} bytes"),
            ));
        }
        let request = key.map(|key| request(caller, key, body)).transpose()?;
        self.store.write(|transaction| {
            if let Some((name, digest)) = &request
                && let Some(kept) = transaction.note(notes::REQUEST, name)?
            {
                let (id, of) = kept.split_once(' ').unwrap_or_default();
                if of != digest {
                    return Err(Problem::conflict("Idempotency key was used for another request"));
                }
                let id = id.parse().map_err(|_| Problem::internal())?;
                let (record, document) = load(transaction, caller, id)?;
                return render::record(transaction, &record, &document);
            }
            check_target(transaction, caller, &kind, &document)?;
            let task = add(transaction, caller, &document)?;
            if let Some((name, digest)) = request {
                let note = Note { key: name, content: format!("{} {digest}", task.id) };
                transaction.set_note(notes::REQUEST, &note, Some(task.id))?;
            }
            render::task(transaction, &task, &document)
        })
    }
}

/// Returns what a task is.
fn document(caller: &Caller, body: &Value, kind: &TaskType<'_>) -> Result<Value, Problem> {
    let empty = Value::Array(Vec::new());
    let input = body.get("input").unwrap_or(&Value::Null);
    let input = kind.normalize(input)?;
    let references = body.given("references").unwrap_or(&empty).as_array().unwrap_or_default();
    let lacks_output =
        |it: &&Value| it.given("taskId").is_some() && it.given("outputCid").is_none();
    if references.iter().any(|it| lacks_output(&it)) {
        let message = "outputCid is required for a reference to a task";
        return Err(Problem::field("/references", message));
    }
    if kind.needs_references() && references.is_empty() {
        return Err(Problem::field("/references", "references are required for this task type"));
    }
    let trust = body.text_of("requiredExecutorTrustLevel").unwrap_or("selfDeclared".into());
    if trust != "selfDeclared" {
        let message = "this server checks no executors; only selfDeclared is supported";
        return Err(Problem::field("/requiredExecutorTrustLevel", message));
    }
    let given = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
    let list = |name: &str| body.given(name).cloned().unwrap_or(Value::Array(Vec::new()));
    let correlation = match body.text_of("correlationId") {
        Some(id) => id.into_owned(),
        None => Uuid::generate().map_err(|_| Problem::internal())?.to_string(),
    };
    Ok(Value::object([
        ("taskType", kind.name.as_str().into()),
        ("title", given("title")),
        ("tags", list("tags")),
        ("teamId", caller.agent.team.as_str().into()),
        ("diaryId", given("diaryId")),
        ("outputKind", kind.output_kind().into()),
        ("inputCid", Cid::of_json(&input).to_string().into()),
        ("input", input),
        ("inputSchemaCid", kind.schema_cid().into()),
        ("references", references.iter().cloned().collect()),
        ("correlationId", correlation.into()),
        ("proposedByAgentId", caller.agent.id.as_str().into()),
        ("claimCondition", given("claimCondition")),
        ("requiredExecutorTrustLevel", trust.into_owned().into()),
        ("allowedProfiles", list("allowedProfiles")),
        ("maxAttempts", given("maxAttempts")),
        ("expiresInSec", given("expiresInSec")),
        ("dispatchTimeoutSec", given("dispatchTimeoutSec")),
        ("runningTimeoutSec", given("runningTimeoutSec")),
    ]))
}

/// Checks that what is to be assessed is there.
fn check_target(
    transaction: &mut impl Transaction,
    caller: &Caller,
    kind: &TaskType<'_>,
    document: &Document,
) -> Result<(), Problem> {
    if kind.name != "assess_brief" {
        return Ok(());
    }
    let input = document.field("input");
    let id = input.text_of("targetTaskId").and_then(|id| id.to_ascii_lowercase().parse().ok());
    let target = id.map(|id| load(transaction, caller, id)).transpose();
    let is_done = target.ok().flatten().is_some_and(|(record, target)| {
        record.task.status == Status::Completed && target.text("taskType") == "fulfill_brief"
    });
    let message = "must be a completed fulfill_brief task";
    if is_done { Ok(()) } else { Err(Problem::field("input/targetTaskId", message)) }
}

fn add(
    transaction: &mut impl Transaction,
    caller: &Caller,
    document: &Document,
) -> Result<Task, Problem> {
    let now = transaction.now();
    let needs = document.condition().map(condition::tasks).transpose()?.unwrap_or_default();
    for id in &needs {
        let message = format!("refers to a task that does not exist: {id}");
        load(transaction, caller, *id).map_err(|_| Problem::field("/claimCondition", message))?;
    }
    let is_ready = is_ready(transaction, document)?;
    let seconds = |name: &str, default: Duration| {
        let given = document.0.get(name).and_then(Value::as_count);
        given.map_or(default, Duration::from_secs)
    };
    let timeouts = Timeouts::default();
    let attempts = document.0.get("maxAttempts").and_then(Value::as_count).unwrap_or(1);
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    let title = document.text("title");
    let title = if title.is_empty() { document.text("taskType") } else { title };
    let task = Task {
        id: TaskId::generate().map_err(|_| Problem::internal())?,
        title: title.chars().take(TaskSpec::LONGEST_TITLE).collect(),
        status: if is_ready { Status::Queued } else { Status::Waiting },
        priority: 0,
        attempts: 0,
        max_attempts: attempts,
        allowance: attempts,
        losses: 0,
        // The condition as a whole.
        waits_for: u32::from(!is_ready),
        timeouts: Timeouts {
            dispatch: seconds("dispatchTimeoutSec", timeouts.dispatch),
            running: seconds("runningTimeoutSec", timeouts.running),
        },
        added_at: now,
        queued_at: now,
        updated_at: now,
        ended_at: None,
        expires_at: Some(now + seconds("expiresInSec", LIFETIME)),
        accepted: None,
        failure: None,
    };
    let needs = if is_ready { &[] } else { &needs[..] };
    transaction.insert(&Record::new(task.clone()), &document.0.to_string(), needs, &[])?;
    Ok(task)
}

/// Returns the name that a request is kept by, and the digest of its body.
fn request(caller: &Caller, key: &str, body: &Value) -> Result<(String, String), Problem> {
    if key.is_empty() || key.chars().count() > LONGEST_KEY {
        let message = format!("must have 1 to {LONGEST_KEY} characters");
        return Err(Problem::field("headers/idempotency-key", message));
    }
    let name = format!("{}/{}", caller.agent.id, name_of(key.as_bytes()));
    Ok((name, name_of(body.to_string().as_bytes())))
}
