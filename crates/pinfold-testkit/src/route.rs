//! From a request to its answer.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::conversation::{Api, Conversation};
use crate::http::{Answer, Incoming};
use crate::record::Request;
use crate::reply::{CallOut, Reply};
use crate::script::Step;
use crate::server::Shared;

/// Answers a request and completes its record.
pub(crate) fn answer(shared: &Shared, incoming: &Incoming, record: &mut Request) -> Answer {
    let path = incoming.target.split('?').next().unwrap_or_default();
    let path = without_version(path.trim_end_matches('/'));
    let api = match path {
        "/messages" | "/messages/count_tokens" => Some(Api::Anthropic),
        "/chat/completions" => Some(Api::Chat),
        "/responses" => Some(Api::Responses),
        _ => None,
    };
    record.api = api.map(Api::word);
    let anthropic = api == Some(Api::Anthropic) || record.header("anthropic-version").is_some();
    let dialect = if anthropic { Api::Anthropic } else { Api::Chat };
    let keys = &shared.options.require_keys;
    if !keys.is_empty() && !record.keys().iter().any(|key| keys.iter().any(|k| k == key)) {
        return error(dialect, 401, "authentication_error", "mock: invalid credential");
    }
    if path.is_empty() || path == "/api/hello" {
        return Answer::Json { status: 200, body: json!({ "ok": true }) };
    }
    if incoming.header("connection").is_some_and(|v| v.to_ascii_lowercase().contains("upgrade")) {
        // Codex tries the Responses API over WebSocket first; 426 makes it use plain HTTP.
        return error(dialect, 426, "upgrade_unsupported", "mock: no WebSocket here");
    }
    if let Some(rest) = path.strip_prefix("/models") {
        return models(&shared.script.models, rest.strip_prefix('/'), anthropic);
    }
    match api {
        Some(api) if incoming.method == "POST" => converse(shared, api, path, incoming, record),
        _ => {
            let message = format!("mock: no route {} {path}", incoming.method);
            let body = json!({
                "type": "error", "error": { "type": "not_found_error", "message": message },
            });
            Answer::Json { status: 404, body }
        }
    }
}

/// Removes `/v1`, which is optional and may be doubled, so that any convention of base addresses works.
fn without_version(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix("/v1") {
        if !rest.is_empty() && !rest.starts_with('/') {
            break;
        }
        path = rest;
    }
    path
}

fn converse(
    shared: &Shared,
    api: Api,
    path: &str,
    incoming: &Incoming,
    record: &mut Request,
) -> Answer {
    let Ok(body) = serde_json::from_slice::<Value>(&incoming.body) else {
        let encoding = incoming.header("content-encoding").unwrap_or("none");
        let message = format!("mock: body is not JSON (encoding {encoding})");
        return error(api, 400, "invalid_request_error", &message);
    };
    if path == "/messages/count_tokens" {
        let tokens = (incoming.body.len() / 4).max(1);
        return Answer::Json { status: 200, body: json!({ "input_tokens": tokens }) };
    }
    let conversation = Conversation::read(api, &body);
    record.model = body["model"].as_str().map(str::to_owned);
    record.stream = body["stream"] == true;
    record.tools = conversation.tools.keys().cloned().collect();
    record.last_result = conversation.last_result.chars().take(300).collect();
    let (step, reply) = plan(shared, &conversation, record);
    thread::sleep(Duration::from_millis(step.delay_ms));
    let place = (api, conversation.step);
    if let Some(fault) = &step.error
        && shared.take_fault(("error", place), fault.times)
    {
        return error(api, fault.status, &fault.r#type, &fault.message);
    }
    if !record.stream {
        return Answer::Json { status: 200, body: reply.json(api) };
    }
    let cut_after = step.cut_after.filter(|_| shared.take_fault(("cut", place), step.cut_times));
    let pause = Duration::from_millis(step.chunk_delay_ms);
    Answer::Stream { events: reply.events(api), pause, cut_after }
}

/// Chooses the step of a request.
fn plan(shared: &Shared, talk: &Conversation, record: &mut Request) -> (Step, Reply) {
    let model = record.model.clone().unwrap_or_else(|| "mock-model".to_owned());
    let says = |at, text| Reply::says(at, &model, text);
    if talk.tools.is_empty() {
        // A request outside the conversation: its turn must not look like a step.
        return (Step::default(), says(9999, shared.script.side_text.clone()));
    }
    record.step = Some(talk.step);
    let Some(step) = shared.script.steps.get(talk.step) else {
        return (Step::default(), says(talk.step, shared.script.exhausted_text.clone()));
    };
    if let Some(pattern) = &step.expect {
        let matched = pattern.matches(&talk.last_result);
        record.expect = Some(matched);
        if !matched {
            let result: String = talk.last_result.chars().take(400).collect();
            let text = format!(
                "MOCK-EXPECT-FAILED step {}: /{}/ not in {result:?}",
                talk.step,
                pattern.as_str()
            );
            return (step.clone(), says(talk.step, text));
        }
    }
    let mut calls = Vec::new();
    for operation in step.operations() {
        let Some((name, input)) = operation.translate(&talk.tools, talk.cwd.as_deref()) else {
            let names: Vec<_> = talk.tools.keys().collect();
            let word = operation.word();
            let text = format!("MOCK: client offers no tool for {word:?} (has {names:?})");
            return (step.clone(), says(talk.step, text));
        };
        let custom = talk.custom.contains(&name);
        let namespace = talk.namespaces.get(&name).cloned();
        calls.push(CallOut { name, input, custom, namespace });
    }
    let text = step
        .text
        .replace("{{last_result}}", &talk.last_result)
        .replace("{{last_user}}", &talk.last_user);
    let reply = Reply {
        step: talk.step,
        model: model.clone(),
        text,
        calls,
        thinking: step.thinking.clone(),
        usage: step.usage,
    };
    (step.clone(), reply)
}

fn models(ids: &[String], wanted: Option<&str>, anthropic: bool) -> Answer {
    let one = |id: &str| {
        if anthropic {
            json!({
                "type": "model", "id": id, "display_name": id,
                "created_at": "2025-01-01T00:00:00Z",
            })
        } else {
            json!({ "id": id, "object": "model", "created": 0, "owned_by": "mock" })
        }
    };
    let all: Vec<Value> = ids.iter().map(|id| one(id)).collect();
    let body = match wanted {
        Some(id) => one(id),
        None if anthropic => json!({
            "data": all, "has_more": false, "first_id": ids.first(), "last_id": ids.last(),
        }),
        None => json!({ "object": "list", "data": all, "models": [] }),
    };
    Answer::Json { status: 200, body }
}

fn error(api: Api, status: u16, kind: &str, message: &str) -> Answer {
    let body = match api {
        Api::Anthropic => {
            json!({ "type": "error", "error": { "type": kind, "message": message } })
        }
        Api::Chat | Api::Responses => json!({
            "error": { "type": kind, "code": kind, "message": message, "param": null },
        }),
    };
    Answer::Json { status, body }
}
