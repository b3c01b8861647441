//! OpenAI Responses.

use serde_json::{Value, json};

use super::turn::{Data, Event, Reply, pieces};

pub(super) fn message(reply: &Reply) -> Value {
    object(reply, "completed", &items(reply))
}

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut stream = Stream::default();
    let items = items(reply);
    let begun = object(reply, "in_progress", &[]);
    stream.push("response.created", json!({ "response": begun }));
    stream.push("response.in_progress", json!({ "response": begun }));
    for (index, item) in items.iter().enumerate() {
        let place = json!({ "item_id": item["id"], "output_index": index });
        if item["type"] == "message" {
            stream.message(index, item, &place);
        } else {
            stream.call(index, item, &place);
        }
        let done = json!({ "output_index": index, "item": item });
        stream.push("response.output_item.done", done);
    }
    let done = object(reply, "completed", &items);
    stream.push("response.completed", json!({ "response": done }));
    stream.events
}

/// Events with their running number.
#[derive(Default)]
struct Stream {
    events: Vec<Event>,
}

impl Stream {
    fn push(&mut self, name: &'static str, mut data: Value) {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.events.len() + 1);
        self.events.push((Some(name), Data::Json(data)));
    }

    fn message(&mut self, index: usize, item: &Value, place: &Value) {
        let text = item["content"][0]["text"].as_str().unwrap_or_default();
        let begun = with(item, json!({ "status": "in_progress", "content": [] }));
        self.push("response.output_item.added", json!({ "output_index": index, "item": begun }));
        let place = with(place, json!({ "content_index": 0 }));
        let part = json!({ "type": "output_text", "text": "", "annotations": [] });
        self.push("response.content_part.added", with(&place, json!({ "part": part })));
        for piece in pieces(text) {
            self.push("response.output_text.delta", with(&place, json!({ "delta": piece })));
        }
        self.push("response.output_text.done", with(&place, json!({ "text": text })));
        let part = with(&part, json!({ "text": text }));
        self.push("response.content_part.done", with(&place, json!({ "part": part })));
    }

    fn call(&mut self, index: usize, item: &Value, place: &Value) {
        let custom = item["type"] == "custom_tool_call";
        let (field, delta, done) = if custom {
            (
                "input",
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
            )
        } else {
            (
                "arguments",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
            )
        };
        let begun = with(item, json!({ "status": "in_progress", field: "" }));
        self.push("response.output_item.added", json!({ "output_index": index, "item": begun }));
        for piece in pieces(item[field].as_str().unwrap_or_default()) {
            self.push(delta, with(place, json!({ "delta": piece })));
        }
        self.push(done, with(place, json!({ field: item[field] })));
    }
}

fn items(reply: &Reply) -> Vec<Value> {
    let mut items = Vec::new();
    if !reply.text.is_empty() {
        items.push(json!({
            "type": "message", "id": format!("msg_mock_{}", reply.step), "role": "assistant",
            "status": "completed",
            "content": [{ "type": "output_text", "text": reply.text, "annotations": [] }],
        }));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let mut item = json!({
            "id": reply.call_id("fc", index), "call_id": reply.call_id("call", index),
            "name": call.name, "status": "completed",
        });
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        let text = call.input.as_str().map_or_else(|| call.input.to_string(), str::to_owned);
        items.push(if call.custom {
            with(&item, json!({ "type": "custom_tool_call", "input": text }))
        } else {
            let arguments = call.input.to_string();
            with(&item, json!({ "type": "function_call", "arguments": arguments }))
        });
    }
    items
}

fn object(reply: &Reply, status: &str, items: &[Value]) -> Value {
    let usage = json!({
        "input_tokens": reply.usage.input, "output_tokens": reply.usage.output,
        "total_tokens": reply.usage.input + reply.usage.output,
        "input_tokens_details": { "cached_tokens": reply.usage.cache_read },
        "output_tokens_details": { "reasoning_tokens": 0 },
    });
    json!({
        "id": format!("resp_mock_{}", reply.step), "object": "response", "created_at": 0,
        "status": status, "model": reply.model, "output": items, "error": null,
        "incomplete_details": null, "parallel_tool_calls": true, "tools": [],
        "usage": if status == "completed" { usage } else { Value::Null },
    })
}

/// Returns an object with more or other members.
fn with(object: &Value, members: Value) -> Value {
    let mut object = object.clone();
    if let (Some(object), Value::Object(members)) = (object.as_object_mut(), members) {
        object.extend(members);
    }
    object
}
