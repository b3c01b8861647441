//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::turn::{Data, Event, Reply, pieces};

pub(super) fn message(reply: &Reply) -> Value {
    let text = if reply.text.is_empty() { Value::Null } else { json!(reply.text) };
    let mut message = json!({ "role": "assistant", "content": text });
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().enumerate().map(|(index, call)| {
            json!({
                "id": reply.call_id("call", index), "type": "function",
                "function": { "name": call.name, "arguments": call.input.to_string() },
            })
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": format!("chatcmpl_mock_{}", reply.step), "object": "chat.completion", "created": 0,
        "model": reply.model, "usage": usage(reply),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(reply) }],
    })
}

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let delta = |delta: Value, finish: Value| {
        chunk(reply, json!([{ "index": 0, "delta": delta, "finish_reason": finish }]))
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if !reply.text.is_empty() {
        let pieces = pieces(&reply.text).into_iter();
        events.extend(pieces.map(|piece| delta(json!({ "content": piece }), Value::Null)));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let start = json!({
            "index": index, "id": reply.call_id("call", index), "type": "function",
            "function": { "name": call.name, "arguments": "" },
        });
        events.push(delta(json!({ "tool_calls": [start] }), Value::Null));
        for piece in pieces(&call.input.to_string()) {
            let part = json!({ "index": index, "function": { "arguments": piece } });
            events.push(delta(json!({ "tool_calls": [part] }), Value::Null));
        }
    }
    events.push(delta(json!({}), json!(finish(reply))));
    let mut last = chunk_json(reply, json!([]));
    last["usage"] = usage(reply);
    events.push((None, Data::Json(last)));
    events.push((None, Data::Done));
    events
}

fn finish(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn chunk(reply: &Reply, choices: Value) -> Event {
    (None, Data::Json(chunk_json(reply, choices)))
}

fn chunk_json(reply: &Reply, choices: Value) -> Value {
    json!({
        "id": format!("chatcmpl_mock_{}", reply.step), "object": "chat.completion.chunk",
        "created": 0, "model": reply.model, "choices": choices,
    })
}

fn usage(reply: &Reply) -> Value {
    json!({
        "prompt_tokens": reply.usage.input, "completion_tokens": reply.usage.output,
        "total_tokens": reply.usage.input + reply.usage.output,
        "prompt_tokens_details": { "cached_tokens": reply.usage.cache_read },
    })
}
