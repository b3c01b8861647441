//! Abstract operations, translated to whatever tool a client offers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::script::{EditFile, ReadFile, ToolCall, WriteFile};

/// The tools of a request: their names with the names of their parameters (none: free-form).
pub(crate) type Tools = BTreeMap<String, Vec<String>>;

/// Something that an agent can do with one tool or another.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Bash(String),
    Write(WriteFile),
    Read(ReadFile),
    Edit(EditFile),
    Tool(ToolCall),
}

/// The name and the input of a tool.
pub(crate) type Named = (String, Value);

const SHELLS: &[&str] = &[
    "bash",
    "Bash",
    "exec_command",
    "shell_command",
    "shell",
    "run_shell_command",
    "local_shell",
    "container.exec",
];

impl Operation {
    /// Returns the script's word for it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Bash(_) => "bash",
            Self::Write(_) => "write",
            Self::Read(_) => "read",
            Self::Edit(_) => "edit",
            Self::Tool(_) => "tool",
        }
    }

    /// Returns the tool call that does it; `None` when the client offers no tool for it.
    ///
    /// `cwd`, guessed from the client's prompt, makes paths absolute for tools that insist.
    pub(crate) fn translate(&self, tools: &Tools, cwd: Option<&str>) -> Option<Named> {
        match self {
            Self::Bash(command) => bash(command, tools),
            Self::Write(file) => write(file, tools, cwd),
            Self::Read(file) => read(file, tools, cwd),
            Self::Edit(file) => edit(file, tools, cwd),
            Self::Tool(call) => Some((call.name.clone(), call.input.clone())),
        }
    }
}

fn bash(command: &str, tools: &Tools) -> Option<Named> {
    let Some((name, parameters)) = first(tools, SHELLS) else {
        // Codex in "code mode": the tool's input is JavaScript.
        let quoted = Value::from(command);
        let source = format!(
            "const r = await tools.exec_command({{cmd: {quoted}}});\n\
             text(r.output ?? JSON.stringify(r));\n"
        );
        return tools.contains_key("exec").then(|| ("exec".to_owned(), Value::from(source)));
    };
    let has = |parameter: &str| parameters.iter().any(|p| p == parameter);
    let input = if has("cmd") || name == "exec_command" {
        json!({ "cmd": command })
    } else if matches!(name, "shell" | "container.exec") && !has("description") {
        json!({ "command": ["bash", "-lc", command] })
    } else if has("description") {
        json!({ "command": command, "description": "Run a scripted command" })
    } else {
        json!({ "command": command })
    };
    Some((name.to_owned(), input))
}

fn write(file: &WriteFile, tools: &Tools, cwd: Option<&str>) -> Option<Named> {
    if let Some((name, parameters)) = first(tools, &["write", "Write", "write_file"]) {
        let rest = json!({ "content": file.content });
        return Some(with_path(name, parameters, &file.path, cwd, rest));
    }
    if takes_patches(tools) {
        let body: String = file.content.lines().map(|line| format!("+{line}\n")).collect();
        return Some(patch(&format!("*** Add File: {}\n{body}", file.path)));
    }
    bash(&format!("printf %s {} > {}", quote(&file.content), quote(&file.path)), tools)
}

fn read(file: &ReadFile, tools: &Tools, cwd: Option<&str>) -> Option<Named> {
    if let Some((name, parameters)) = first(tools, &["read", "Read", "read_file"]) {
        return Some(with_path(name, parameters, &file.path, cwd, json!({})));
    }
    bash(&format!("cat {}", quote(&file.path)), tools)
}

fn edit(file: &EditFile, tools: &Tools, cwd: Option<&str>) -> Option<Named> {
    let EditFile { path, old, new } = file;
    if let Some((name, parameters)) = first(tools, &["edit", "Edit", "replace"]) {
        let has = |parameter: &str| parameters.iter().any(|p| p == parameter);
        let rest = if has("edits") {
            json!({ "edits": [{ "oldText": old, "newText": new }] })
        } else if has("oldText") {
            json!({ "oldText": old, "newText": new })
        } else if has("oldString") {
            json!({ "oldString": old, "newString": new })
        } else {
            json!({ "old_string": old, "new_string": new })
        };
        return Some(with_path(name, parameters, path, cwd, rest));
    }
    if takes_patches(tools) {
        return Some(patch(&format!("*** Update File: {path}\n@@\n-{old}\n+{new}\n")));
    }
    // awk is in every POSIX userland; python is not.
    let program = r#"{ s = s $0 "\n" } END { i = index(s, ENVIRON["OLD"]); if (!i) exit 1; printf "%s%s%s", substr(s, 1, i - 1), ENVIRON["NEW"], substr(s, i + length(ENVIRON["OLD"])) }"#;
    let (old, new, program) = (quote(old), quote(new), quote(program));
    let (path, next) = (quote(path), quote(&format!("{path}.new")));
    let replace = format!("OLD={old} NEW={new} awk {program} {path} > {next}");
    bash(&format!("{replace} && cat {next} > {path} && rm {next}"), tools)
}

fn first<'a>(tools: &'a Tools, names: &[&'a str]) -> Option<(&'a str, &'a [String])> {
    names.iter().find_map(|name| Some((*name, tools.get(*name)?.as_slice())))
}

fn takes_patches(tools: &Tools) -> bool {
    tools.get("apply_patch").is_some_and(Vec::is_empty)
}

fn patch(body: &str) -> Named {
    let text = format!("*** Begin Patch\n{body}*** End Patch\n");
    ("apply_patch".to_owned(), Value::from(text))
}

/// Adds the path in the spelling that the tool wants.
fn with_path(
    name: &str,
    parameters: &[String],
    path: &str,
    cwd: Option<&str>,
    mut input: Value,
) -> Named {
    let absolute = match cwd {
        Some(cwd) if !path.starts_with('/') => format!("{}/{path}", cwd.trim_end_matches('/')),
        _ => path.to_owned(),
    };
    if parameters.iter().any(|p| p == "file_path") {
        input["file_path"] = absolute.into();
    } else if parameters.iter().any(|p| p == "filePath") {
        input["filePath"] = absolute.into();
    } else {
        input["path"] = path.into();
    }
    (name.to_owned(), input)
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
