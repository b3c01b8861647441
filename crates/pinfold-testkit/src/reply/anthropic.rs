//! Anthropic Messages.

use serde_json::{Value, json};

use super::turn::{Data, Event, Reply, pieces};

pub(super) fn message(reply: &Reply) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &reply.thinking {
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": "bW9jaw==" }));
    }
    if !reply.text.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text }));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        content.push(json!({
            "type": "tool_use", "id": reply.call_id("toolu", index),
            "name": call.name, "input": call.input,
        }));
    }
    json!({
        "id": format!("msg_mock_{}", reply.step), "type": "message", "role": "assistant",
        "model": reply.model, "content": content,
        "stop_reason": if reply.calls.is_empty() { "end_turn" } else { "tool_use" },
        "stop_sequence": null,
        "usage": {
            "input_tokens": reply.usage.input, "output_tokens": reply.usage.output,
            "cache_read_input_tokens": reply.usage.cache_read,
            "cache_creation_input_tokens": reply.usage.cache_write,
        },
    })
}

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let full = message(reply);
    let mut start = full.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![event("message_start", json!({ "message": start }))];
    for (index, block) in full["content"].as_array().into_iter().flatten().enumerate() {
        let (empty, deltas) = block_parts(block);
        let start = json!({ "index": index, "content_block": empty });
        events.push(event("content_block_start", start));
        for delta in deltas {
            let data = json!({ "index": index, "delta": delta });
            events.push(event("content_block_delta", data));
        }
        events.push(event("content_block_stop", json!({ "index": index })));
    }
    let delta = json!({ "stop_reason": full["stop_reason"], "stop_sequence": null });
    events.push(event("message_delta", json!({ "delta": delta, "usage": full["usage"] })));
    events.push(event("message_stop", json!({})));
    events
}

/// Returns the block as it begins, and the deltas that fill it.
fn block_parts(block: &Value) -> (Value, Vec<Value>) {
    let text = |key: &str| pieces(block[key].as_str().unwrap_or_default());
    match block["type"].as_str() {
        Some("text") => {
            let deltas = text("text")
                .into_iter()
                .map(|piece| json!({ "type": "text_delta", "text": piece }));
            (json!({ "type": "text", "text": "" }), deltas.collect())
        }
        Some("thinking") => {
            let deltas = text("thinking")
                .into_iter()
                .map(|piece| json!({ "type": "thinking_delta", "thinking": piece }));
            let end = json!({ "type": "signature_delta", "signature": block["signature"] });
            let empty = json!({ "type": "thinking", "thinking": "", "signature": "" });
            (empty, deltas.chain([end]).collect())
        }
        _ => {
            let deltas = pieces(&block["input"].to_string())
                .into_iter()
                .map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
            let mut empty = block.clone();
            empty["input"] = json!({});
            (empty, deltas.collect())
        }
    }
}

fn event(name: &'static str, mut data: Value) -> Event {
    data["type"] = json!(name);
    (Some(name), Data::Json(data))
}
