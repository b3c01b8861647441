//! The tools as a client sees them.

use std::path::PathBuf;

use pinfold_tools::{EditDone, Find, Grep, List, Replacement, Stat, StatDone, WriteDone};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Arguments of `read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// The file's path.
    pub(super) path: String,
    /// The first line, counted from 1.
    pub(super) offset: Option<u64>,
    /// The most lines to read; 2 000 if absent.
    pub(super) limit: Option<u64>,
}

/// Arguments of `write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArguments {
    /// The file's path. Missing parent directories are created.
    pub(super) path: String,
    /// The whole new content.
    pub(super) content: String,
}

/// Arguments of `edit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditArguments {
    /// The file's path.
    pub(super) path: String,
    /// The replacements. Each text must occur exactly once unless `all` is set.
    pub(super) edits: Vec<Replacement>,
}

/// Arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashArguments {
    /// The command line for bash.
    pub(super) command: String,
    /// Seconds (at least 1) after which the command and its descendants are killed; no limit if absent.
    pub(super) timeout: Option<u64>,
    /// The working directory.
    pub(super) cwd: Option<PathBuf>,
}

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// The sessions of this server.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionsDone {
    /// The sessions' names. Tools use the first one unless a session is named.
    pub(super) sessions: Vec<String>,
}

/// The output of a subcommand of pinfold.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SaidDone {
    /// The subcommand's output.
    pub(super) said: String,
}

/// The effect of a tool, for clients that ask their user.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Adds,
    Changes,
}

struct Definition {
    name: &'static str,
    description: &'static str,
    effect: Effect,
    /// Whether the tool acts in one session.
    of_session: bool,
    input: fn() -> Value,
    /// What a program reads. None where that would be content: clients give a model either this or
    /// the text, and JSON around what it is to read costs it tokens, and reads badly.
    output: Option<fn() -> Value>,
}

const ALL: [Definition; 13] = [
    Definition {
        name: "read",
        description: "Read a file of the workspace. Text is returned by lines, an image as an image.",
        effect: Effect::Reads,
        of_session: true,
        input: input::<ReadArguments>,
        output: None,
    },
    Definition {
        name: "write",
        description: "Write a whole file atomically; missing parent directories are created.",
        effect: Effect::Changes,
        of_session: true,
        input: input::<WriteArguments>,
        output: Some(output::<WriteDone>),
    },
    Definition {
        name: "edit",
        description: "Replace exact texts in a file: either all of them or none.",
        effect: Effect::Changes,
        of_session: true,
        input: input::<EditArguments>,
        output: Some(output::<EditDone>),
    },
    Definition {
        name: "bash",
        description: "Run a command in the sandbox and return its output when it has ended.",
        effect: Effect::Changes,
        of_session: true,
        input: input::<BashArguments>,
        output: None,
    },
    Definition {
        name: "ls",
        description: "List a directory.",
        effect: Effect::Reads,
        of_session: true,
        input: input::<List>,
        output: None,
    },
    Definition {
        name: "find",
        description: "Find files by a glob, except those that .gitignore excludes.",
        effect: Effect::Reads,
        of_session: true,
        input: input::<Find>,
        output: None,
    },
    Definition {
        name: "grep",
        description: "Search the lines of files by a regular expression, as ripgrep does.",
        effect: Effect::Reads,
        of_session: true,
        input: input::<Grep>,
        output: None,
    },
    Definition {
        name: "stat",
        description: "Return what is at a path.",
        effect: Effect::Reads,
        of_session: true,
        input: input::<Stat>,
        output: Some(output::<StatDone>),
    },
    Definition {
        name: "session_list",
        description: "List the sandboxes that this server has started.",
        effect: Effect::Reads,
        of_session: false,
        input: input::<NoArguments>,
        output: Some(output::<SessionsDone>),
    },
    Definition {
        name: "session_start",
        description: "Start another sandbox with the same workspace and policy.",
        effect: Effect::Adds,
        of_session: false,
        input: input::<NoArguments>,
        output: Some(output::<SessionsDone>),
    },
    Definition {
        name: "session_stop",
        description: "End a sandbox of this server and everything that runs in it.",
        effect: Effect::Changes,
        of_session: true,
        input: input::<NoArguments>,
        output: Some(output::<SessionsDone>),
    },
    Definition {
        name: "snapshot_inspect",
        description: "Tell of which system sandboxes of this workspace are made, and whether it is built.",
        effect: Effect::Reads,
        of_session: false,
        input: input::<NoArguments>,
        output: Some(output::<SaidDone>),
    },
    Definition {
        name: "snapshot_build",
        description: "Build the system that sandbox.json and its user's settings describe. A session started afterwards has it.",
        effect: Effect::Adds,
        of_session: false,
        input: input::<NoArguments>,
        output: Some(output::<SaidDone>),
    },
];

/// Returns whether there is a tool of this name.
pub(super) fn has(name: &str) -> bool {
    ALL.iter().any(|definition| definition.name == name)
}

/// Returns every tool, as `tools/list` returns them.
pub(super) fn all() -> Vec<Value> {
    let tool = |definition: &Definition| {
        let mut input = (definition.input)();
        if definition.of_session {
            input["properties"]["session"] = json!({
                "type": "string",
                "description": "A sandbox listed by session_list; the first one if absent.",
            });
        }
        let mut tool = json!({
            "name": definition.name,
            "description": definition.description,
            "inputSchema": input,
            "annotations": {
                "readOnlyHint": definition.effect == Effect::Reads,
                "destructiveHint": definition.effect == Effect::Changes,
                "openWorldHint": definition.name == "bash",
            },
        });
        if let Some(output) = definition.output {
            tool["outputSchema"] = output();
        }
        tool
    };
    ALL.iter().map(tool).collect()
}

fn input<T: JsonSchema>() -> Value {
    schema::<T>(Side::Input)
}

fn output<T: JsonSchema>() -> Value {
    schema::<T>(Side::Output)
}

/// Who writes what a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// A model, which is shown what it can write, and not all that is understood.
    Input,
    Output,
}

fn schema<T: JsonSchema>(side: Side) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema, side);
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("title");
        schema.remove("description");
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Leaves what every provider's tools know: no alternatives, no formats of Rust's numbers, and
/// descriptions of one line.
fn simplify(schema: &mut Value, side: Side) {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(items) => return items.iter_mut().for_each(|item| simplify(item, side)),
        _ => return,
    };
    members.retain(|key, value| key != "format" || !value.is_string());
    match members.get("oneOf").and_then(Value::as_array) {
        Some(any) if any.iter().any(|any| any.pointer("/properties/base64").is_some()) => {
            let types = json!(["string", "object"]);
            members.insert(
                "type".to_owned(),
                if side == Side::Input { json!("string") } else { types },
            );
            members.remove("oneOf");
        }
        Some(any) if any.iter().all(|any| any.get("const").is_some()) => {
            let names: Vec<Value> = any.iter().map(|any| any["const"].clone()).collect();
            let meanings = any.iter().map(|any| {
                format!(" {}: {}", any["const"], any["description"].as_str().unwrap_or_default())
            });
            let described: String = meanings.collect();
            let before = members.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = format!("{before}{described}");
            members.insert("description".to_owned(), description.into());
            members.insert("type".to_owned(), "string".into());
            members.insert("enum".to_owned(), names.into());
            members.remove("oneOf");
        }
        _ => {}
    }
    if side == Side::Input
        && let Some(Value::Array(types)) = members.get("type")
        && let [kind, Value::String(null)] = types.as_slice()
        && null == "null"
    {
        let kind = kind.clone();
        members.insert("type".to_owned(), kind);
    }
    if let Some(Value::String(description)) = members.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    members.values_mut().for_each(|member| simplify(member, side));
}
