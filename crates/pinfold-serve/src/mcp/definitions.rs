//! The tools as a client sees them.

use std::path::PathBuf;

use pinfold_tools::{
    EditDone, Find, FindDone, Grep, GrepDone, List, ListDone, ReadDone, Replacement, Stat,
    StatDone, WriteDone,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Reads a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// The file.
    pub(super) path: String,
    /// The first line, counted from 1.
    pub(super) offset: Option<u64>,
    /// How many lines at most; 2 000 for none.
    pub(super) limit: Option<u64>,
}

/// Writes a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArguments {
    /// The file. Directories above it are made.
    pub(super) path: String,
    /// All that it is to hold.
    pub(super) content: String,
}

/// Edits a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditArguments {
    /// The file.
    pub(super) path: String,
    /// What to replace. Each text must be there exactly once, unless all places are meant.
    pub(super) edits: Vec<Replacement>,
}

/// Runs a command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashArguments {
    /// A line for bash.
    pub(super) command: String,
    /// Seconds after which it is ended with all that it has started.
    pub(super) timeout: Option<u64>,
    /// The directory to run it in.
    pub(super) cwd: Option<PathBuf>,
}

/// How a command ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BashDone {
    /// Its status, or 128 and the signal that ended it.
    pub(super) status: u8,
    /// Whether its time was over.
    pub(super) timed_out: bool,
    /// The end of what it wrote, to both outputs.
    pub(super) output: String,
    /// Bytes that it wrote before.
    pub(super) dropped: u64,
}

/// Nothing is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// Sessions of this server.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionsDone {
    /// By their names. The first is what tools use unless a session is named.
    pub(super) sessions: Vec<String>,
}

/// What a subcommand of pinfold said.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SaidDone {
    /// Its output.
    pub(super) said: String,
}

/// What a tool does with the world, for clients that ask their user.
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
    /// Whether it is of one session.
    of_session: bool,
    input: fn() -> Value,
    output: fn() -> Value,
}

const ALL: [Definition; 13] = [
    Definition {
        name: "read",
        description: "Read a file of the workspace. Text comes by lines; an image comes as an image.",
        effect: Effect::Reads,
        of_session: true,
        input: schema::<ReadArguments>,
        output: schema::<ReadDone>,
    },
    Definition {
        name: "write",
        description: "Write a file whole, all at once; directories above it are made.",
        effect: Effect::Changes,
        of_session: true,
        input: schema::<WriteArguments>,
        output: schema::<WriteDone>,
    },
    Definition {
        name: "edit",
        description: "Replace exact texts in a file: all of them, or nothing.",
        effect: Effect::Changes,
        of_session: true,
        input: schema::<EditArguments>,
        output: schema::<EditDone>,
    },
    Definition {
        name: "bash",
        description: "Run a command in the sandbox. Its output comes when it has ended.",
        effect: Effect::Changes,
        of_session: true,
        input: schema::<BashArguments>,
        output: schema::<BashDone>,
    },
    Definition {
        name: "ls",
        description: "List a directory.",
        effect: Effect::Reads,
        of_session: true,
        input: schema::<List>,
        output: schema::<ListDone>,
    },
    Definition {
        name: "find",
        description: "Find files by a glob; what .gitignore leaves out is left out.",
        effect: Effect::Reads,
        of_session: true,
        input: schema::<Find>,
        output: schema::<FindDone>,
    },
    Definition {
        name: "grep",
        description: "Find lines of files by a regular expression, as ripgrep does.",
        effect: Effect::Reads,
        of_session: true,
        input: schema::<Grep>,
        output: schema::<GrepDone>,
    },
    Definition {
        name: "stat",
        description: "Tell what there is at a path.",
        effect: Effect::Reads,
        of_session: true,
        input: schema::<Stat>,
        output: schema::<StatDone>,
    },
    Definition {
        name: "session_list",
        description: "List the sandboxes that this server has started.",
        effect: Effect::Reads,
        of_session: false,
        input: schema::<NoArguments>,
        output: schema::<SessionsDone>,
    },
    Definition {
        name: "session_start",
        description: "Start one more sandbox around the same workspace, by the same rules.",
        effect: Effect::Adds,
        of_session: false,
        input: schema::<NoArguments>,
        output: schema::<SessionsDone>,
    },
    Definition {
        name: "session_stop",
        description: "End a sandbox of this server, with all that runs in it.",
        effect: Effect::Changes,
        of_session: true,
        input: schema::<NoArguments>,
        output: schema::<SessionsDone>,
    },
    Definition {
        name: "snapshot_inspect",
        description: "Tell of which system sandboxes of this workspace are made, and whether it is built.",
        effect: Effect::Reads,
        of_session: false,
        input: schema::<NoArguments>,
        output: schema::<SaidDone>,
    },
    Definition {
        name: "snapshot_build",
        description: "Build the system that sandbox.json describes. A session started afterwards has it.",
        effect: Effect::Adds,
        of_session: false,
        input: schema::<NoArguments>,
        output: schema::<SaidDone>,
    },
];

/// Whether there is a tool of this name.
pub(super) fn has(name: &str) -> bool {
    ALL.iter().any(|definition| definition.name == name)
}

/// Every tool, as `tools/list` tells.
pub(super) fn all() -> Vec<Value> {
    let tool = |definition: &Definition| {
        let mut input = (definition.input)();
        if definition.of_session {
            input["properties"]["session"] = json!({
                "type": "string",
                "description": "A sandbox of session_list; the first for none.",
            });
        }
        json!({
            "name": definition.name,
            "description": definition.description,
            "inputSchema": input,
            "outputSchema": (definition.output)(),
            "annotations": {
                "readOnlyHint": definition.effect == Effect::Reads,
                "destructiveHint": definition.effect == Effect::Changes,
                "openWorldHint": definition.name == "bash",
            },
        })
    };
    ALL.iter().map(tool).collect()
}

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("title");
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Bytes that need not be text are text or an object, and descriptions are of one line.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_bytes = members
                .get("oneOf")
                .is_some_and(|any| any.pointer("/1/properties/base64").is_some());
            if is_bytes {
                members.remove("oneOf");
                members.insert("type".to_owned(), json!(["string", "object"]));
            }
            if let Some(Value::String(description)) = members.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            members.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}
