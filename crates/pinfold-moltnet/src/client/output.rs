//! What is reported of an attempt.

use pinfold_tasks::{Failure, Usage};

use super::config::Work;
use super::held::Held;
use pinfold_content::{Cid, Value, read};

/// The longest summary, message of a commit, and message of a failure, in characters.
const LONGEST: usize = 60_000;
/// The most commits that are named.
const MOST_COMMITS: usize = 500;

/// Returns the body that completes an attempt.
pub(super) fn completion(held: &Held, work: &Work, usage: &Usage) -> Value {
    let output = output(held, work);
    let usage = serde_json::to_string(usage).ok().and_then(|text| read(&text).ok());
    Value::object([
        ("outputCid", Cid::of_json(&output).to_string().into()),
        ("output", output),
        ("usage", usage.unwrap_or_else(|| Value::object([]))),
    ])
}

fn output(held: &Held, work: &Work) -> Value {
    let summary = || Value::from(cut(&work.summary));
    let commits = work.commits.iter().take(MOST_COMMITS).map(|(sha, message)| {
        Value::object([
            ("sha", sha.as_str().into()),
            ("message", cut(message).into()),
            ("diaryEntryId", Value::Null),
        ])
    });
    let output = match held.offered.kind.as_str() {
        "fulfill_brief" => Value::object([
            ("branch", work.branch.as_str().into()),
            ("commits", commits.collect()),
            ("pullRequestUrl", Value::Null),
            ("diaryEntryIds", Value::Array(Vec::new())),
            ("summary", summary()),
        ]),
        _ => Value::object([("summary", summary()), ("branch", work.branch.as_str().into())]),
    };
    match (output, &held.offered.criteria) {
        (Value::Object(output), Some(criteria)) => {
            output.with("verification", verification(&held.offered.input_cid, criteria)).into()
        }
        (output, _) => output,
    }
}

/// Returns what is said of the criteria of a task. An output is always submitted once; what only a judge can say is
/// said by nobody here.
fn verification(input_cid: &str, criteria: &Value) -> Value {
    let result = |id: &str, kind: &str, status: &str, detail: Option<&str>| {
        let Value::Object(result) =
            Value::object([("id", id.into()), ("kind", kind.into()), ("status", status.into())])
        else {
            return Value::Null;
        };
        detail.map_or(result.clone(), |detail| result.with("detail", detail)).into()
    };
    let skipped = Some("not evaluated by this worker");
    let items = |name: &str| criteria.get(name).and_then(Value::as_array).unwrap_or_default();
    let id = |item: &Value| item.text_of("id").unwrap_or_default().into_owned();
    let gates = items("gates").iter().map(|gate| {
        let is_submitted = gate.text_of("kind").is_some_and(|kind| kind == "submit-tool-call");
        if is_submitted {
            result(&id(gate), "gate", "pass", None)
        } else {
            result(&id(gate), "gate", "skip", skipped)
        }
    });
    let assertions =
        items("assertions").iter().map(|it| result(&id(it), "assertion", "skip", skipped));
    let rubric = criteria
        .get("rubric")
        .and_then(|rubric| rubric.get("criteria"))
        .and_then(Value::as_array)
        .unwrap_or_default()
        .iter()
        .map(|it| result(&id(it), "rubric", "skip", skipped));
    let results = gates.chain(assertions).chain(rubric).take(256);
    Value::object([
        ("inputCid", input_cid.into()),
        ("results", results.collect()),
        ("passed", true.into()),
    ])
}

/// Returns the body that says why an attempt failed, and whether another one may help.
pub(super) fn failure(held: &Held, failure: &Failure) -> Value {
    let is_explicit = failure.retryable.is_some();
    let judged = failure.clone().judged();
    let is_left = held.number < held.offered.max_attempts;
    let retryable = judged.retryable == Some(true) && is_left;
    let source = match (is_left, is_explicit) {
        (false, _) => "attempts_exhausted",
        (true, true) => "explicit",
        (true, false) => "deterministic",
    };
    let decision = if retryable { "retry" } else { "do_not_retry" };
    let retry = Value::object([("source", source.into()), ("decision", decision.into())]);
    let error = Value::object([
        ("code", judged.code.as_str().into()),
        ("message", cut(&judged.message).into()),
        ("retryable", retryable.into()),
        ("retry", retry),
    ]);
    Value::object([("error", error)])
}

fn cut(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}
