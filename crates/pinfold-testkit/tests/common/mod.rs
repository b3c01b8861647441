//! A client as small as the server's tests need, and requests of each API.
#![allow(clippy::allow_attributes, dead_code, reason = "each test file uses its part")]
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

/// Status, and body with the chunks put together.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The chunked body ended as it should.
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The data of each event, its name included.
    pub(crate) fn events(&self) -> Vec<Value> {
        let frames = self.body.split("\n\n").filter(|frame| !frame.is_empty());
        frames
            .map(|frame| {
                let (name, data) = match frame.strip_prefix("event: ") {
                    Some(rest) => rest.split_once('\n').unwrap(),
                    None => ("", frame),
                };
                let data = data.strip_prefix("data: ").unwrap();
                json!([name, serde_json::from_str(data).unwrap_or(Value::from(data))])
            })
            .collect()
    }
}

pub(crate) fn call(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(server).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    if !head.to_lowercase().contains("chunked") {
        return Answer { status, body: body.to_owned(), whole: true };
    }
    let (body, whole) = dechunk(body);
    Answer { status, body, whole }
}

fn dechunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body += &after[..size];
        rest = &after[size + 2..];
    }
    (body, false)
}

/// A conversation in one API: what the client has so far.
pub(crate) struct Talk {
    pub(crate) path: &'static str,
    tools: Value,
    items: Vec<Value>,
}

/// Tools as clients of each API declare them.
fn properties(names: &[&str]) -> Value {
    let members = names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" })));
    json!({ "type": "object", "properties": members.collect::<serde_json::Map<_, _>>() })
}

impl Talk {
    pub(crate) fn all() -> [Self; 3] {
        let named = [
            ("bash", properties(&["command"])),
            ("read", properties(&["path"])),
            ("edit", properties(&["path", "oldText", "newText"])),
            ("write", properties(&["path", "content"])),
        ];
        let tools = |make: &dyn Fn(&str, &Value) -> Value| {
            named.iter().map(|(name, schema)| make(name, schema)).collect::<Value>()
        };
        let user = json!({ "role": "user", "content": "fix the bug" });
        [
            Self {
                path: "/v1/messages",
                tools: tools(&|name, schema| json!({ "name": name, "input_schema": schema })),
                items: vec![user.clone()],
            },
            Self {
                path: "/v1/chat/completions",
                tools: tools(&|name, schema| {
                    let function = json!({ "name": name, "parameters": schema });
                    json!({ "type": "function", "function": function })
                }),
                items: vec![user.clone()],
            },
            Self {
                path: "/v1/responses",
                tools: tools(
                    &|name, schema| json!({ "type": "function", "name": name, "parameters": schema }),
                ),
                items: vec![user],
            },
        ]
    }

    pub(crate) fn body(&self, stream: bool) -> String {
        let key = if self.path == "/v1/responses" { "input" } else { "messages" };
        json!({ "model": "m", "stream": stream, "tools": self.tools, key: self.items }).to_string()
    }

    /// Adds the assistant's turn, and one result for each of its calls. Gives the calls' inputs.
    pub(crate) fn go_on(&mut self, turn: &Value, result: &str) -> Vec<(String, Value)> {
        let parse = |text: &Value| serde_json::from_str(text.as_str().unwrap()).unwrap();
        let mut calls = Vec::new();
        match self.path {
            "/v1/messages" => {
                self.items.push(json!({ "role": "assistant", "content": turn["content"] }));
                for block in turn["content"].as_array().unwrap() {
                    if block["type"] == "tool_use" {
                        calls
                            .push((block["name"].as_str().unwrap().into(), block["input"].clone()));
                        let result = json!({
                            "type": "tool_result", "tool_use_id": block["id"], "content": result,
                        });
                        self.items.push(json!({ "role": "user", "content": [result] }));
                    }
                }
            }
            "/v1/chat/completions" => {
                let message = &turn["choices"][0]["message"];
                self.items.push(message.clone());
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let function = &call["function"];
                    calls.push((
                        function["name"].as_str().unwrap().into(),
                        parse(&function["arguments"]),
                    ));
                    let id = &call["id"];
                    self.items
                        .push(json!({ "role": "tool", "tool_call_id": id, "content": result }));
                }
            }
            _ => {
                for item in turn["output"].as_array().unwrap() {
                    self.items.push(item.clone());
                    if item["type"] == "function_call" {
                        calls.push((
                            item["name"].as_str().unwrap().into(),
                            parse(&item["arguments"]),
                        ));
                        self.items.push(json!({
                            "type": "function_call_output", "call_id": item["call_id"],
                            "output": result,
                        }));
                    }
                }
            }
        }
        calls
    }

    /// Puts the real result in place of the last one.
    pub(crate) fn replace_last_result(&mut self, result: &str) {
        let last = self.items.last_mut().unwrap();
        match self.path {
            "/v1/messages" => last["content"][0]["content"] = json!(result),
            "/v1/chat/completions" => last["content"] = json!(result),
            _ => last["output"] = json!(result),
        }
    }
}
