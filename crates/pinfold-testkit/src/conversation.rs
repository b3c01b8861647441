//! What the server needs to know about a request, whichever API it came in by.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;

use crate::operation::Tools;

/// An API that carries conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Api {
    /// `/messages`.
    Anthropic,
    /// `/chat/completions`.
    Chat,
    /// `/responses`.
    Responses,
}

impl Api {
    /// Returns the word used in logs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }
}

/// The history of a request, reduced to what chooses the answer.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) tools: Tools,
    /// Tools whose input is free text.
    pub(crate) custom: BTreeSet<String>,
    /// Namespaces of tools of the Responses API.
    pub(crate) namespaces: BTreeMap<String, String>,
    /// The step to play.
    pub(crate) step: usize,
    pub(crate) last_result: String,
    pub(crate) last_user: String,
    pub(crate) cwd: Option<String>,
}

impl Conversation {
    pub(crate) fn read(api: Api, body: &Value) -> Self {
        match api {
            Api::Anthropic => Self::anthropic(body),
            Api::Chat => Self::chat(body),
            Api::Responses => Self::responses(body),
        }
    }

    fn anthropic(body: &Value) -> Self {
        let mut this = Self::default();
        for tool in list(&body["tools"]) {
            let name = text_of(&tool["name"]).or(text_of(&tool["type"])).unwrap_or_default();
            this.tools.insert(name, keys(&tool["input_schema"]["properties"]));
        }
        let messages = list(&body["messages"]);
        let first: Vec<_> = messages.iter().take(2).map(|m| flatten(&m["content"])).collect();
        this.guess_cwd(&format!("{}\n{}", flatten(&body["system"]), first.join("\n")));
        for message in messages {
            let text = serde_json::json!([{ "type": "text", "text": message["content"] }]);
            let blocks = if message["content"].is_string() {
                list(&text)
            } else {
                list(&message["content"])
            };
            if message["role"] == "assistant" {
                let mut calls = blocks.iter().filter(|b| b["type"] == "tool_use").peekable();
                if calls.peek().is_none() {
                    this.step += 1;
                }
                calls.for_each(|call| this.see_call(&call["id"]));
                continue;
            }
            for block in blocks {
                if block["type"] == "tool_result" {
                    this.last_result = flatten(&block["content"]);
                } else if let Some(text) = text_of(&block["text"]) {
                    this.last_user = text;
                }
            }
        }
        this
    }

    fn chat(body: &Value) -> Self {
        let mut this = Self::default();
        for tool in list(&body["tools"]) {
            let function = if tool["function"].is_object() { &tool["function"] } else { tool };
            let name = text_of(&function["name"]).unwrap_or_default();
            this.tools.insert(name, keys(&function["parameters"]["properties"]));
        }
        let messages = list(&body["messages"]);
        let first: Vec<_> = messages.iter().take(3).map(|m| flatten(&m["content"])).collect();
        this.guess_cwd(&first.join("\n"));
        for message in messages {
            match message["role"].as_str() {
                Some("assistant") => {
                    let calls = list(&message["tool_calls"]);
                    if calls.is_empty() {
                        this.step += 1;
                    }
                    calls.iter().for_each(|call| this.see_call(&call["id"]));
                }
                Some("tool") => this.last_result = flatten(&message["content"]),
                Some("user") => this.last_user = flatten(&message["content"]),
                _ => {}
            }
        }
        this
    }

    fn responses(body: &Value) -> Self {
        let mut this = Self::default();
        list(&body["tools"]).iter().for_each(|tool| this.add_tool(tool, None));
        let text = serde_json::json!([{ "role": "user", "content": body["input"] }]);
        let items = if body["input"].is_string() { list(&text) } else { list(&body["input"]) };
        // Some clients send their tools as an item of the input.
        for item in items.iter().filter(|item| item["type"] == "additional_tools") {
            list(&item["tools"]).iter().for_each(|tool| this.add_tool(tool, None));
        }
        let first: Vec<_> = items.iter().take(6).map(|i| flatten(&i["content"])).collect();
        this.guess_cwd(&format!("{}\n{}", flatten(&body["instructions"]), first.join("\n")));
        for item in items {
            match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
                (kind, _) if kind.ends_with("_call_output") => {
                    this.last_result = flatten(&item["output"]);
                }
                (kind, _) if kind.ends_with("_call") => {
                    let id = if item["call_id"].is_string() { "call_id" } else { "id" };
                    this.see_call(&item[id]);
                }
                // A call in the same turn sets the step again.
                ("message", Some("assistant")) => this.step += 1,
                ("message", Some("user")) => this.last_user = flatten(&item["content"]),
                _ => {}
            }
        }
        this
    }

    fn add_tool(&mut self, tool: &Value, namespace: Option<&str>) {
        if tool["type"] == "namespace" {
            let inner = text_of(&tool["name"]);
            list(&tool["tools"]).iter().for_each(|tool| self.add_tool(tool, inner.as_deref()));
            return;
        }
        let name = text_of(&tool["name"]).or(text_of(&tool["type"])).unwrap_or_default();
        self.tools.insert(name.clone(), keys(&tool["parameters"]["properties"]));
        if tool["type"] == "custom" {
            self.custom.insert(name.clone());
        }
        if let Some(namespace) = namespace {
            self.namespaces.insert(name, namespace.to_owned());
        }
    }

    /// Notes a call. One of step N has `_mock_N_i` in its id.
    fn see_call(&mut self, id: &Value) {
        let number = id.as_str().and_then(|id| {
            let (_, rest) = id.split_once("_mock_")?;
            rest.split_once('_')?.0.parse::<usize>().ok()
        });
        if let Some(number) = number {
            self.step = number + 1;
        }
    }

    /// Finds the working directory in a prompt. Claude's prompt also speaks of it in prose and
    /// in markup (`working directory.</description>`): the gap before the path has no `<`.
    fn guess_cwd(&mut self, prompt: &str) {
        const PATTERN: &str = r#"(?:[Ww]orking directory|<cwd>|cwd)[^/\n<]{0,24}(/[^\s<>"\\]+)"#;
        let found = Regex::new(PATTERN).ok().and_then(|regex| {
            Some(regex.captures(prompt)?.get(1)?.as_str().trim_end_matches(['.', ',']).to_owned())
        });
        self.cwd = found;
    }
}

/// Returns the text of a content that may be text, a block or a list of blocks.
pub(crate) fn flatten(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Object(block) => ["text", "output_text", "output", "content"]
            .iter()
            .find_map(|key| block.get(*key))
            .map(flatten)
            .unwrap_or_default(),
        Value::Array(blocks) => {
            let texts: Vec<_> =
                blocks.iter().map(flatten).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn keys(value: &Value) -> Vec<String> {
    value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
