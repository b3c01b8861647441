//! The reference page of the local API, written from its description.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const TOP: &str = "\
# The local API: methods and messages

Generated from the messages that server and client use; a test compares them. `pinfold serve --schema` prints the same as
OpenRPC. [The guide](../guides/api.md) shows how it is used.
";

/// Returns the page, in Markdown.
pub(super) fn page(description: &Value) -> String {
    let mut page = TOP.to_owned();
    for method in description["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        _ = write!(page, "\n## {name}\n\n{}\n", words(&method["summary"]));
        let params = method["params"].as_array().unwrap();
        let row = |param: &Value| {
            let is_required = param["required"] == Value::Bool(true);
            row(param["name"].as_str().unwrap(), &param["schema"], is_required)
        };
        append(&mut page, params.iter().map(row).collect());
        _ = writeln!(page, "\nResult: {}.", kind(&method["result"]["schema"]));
    }
    for (name, schema) in description["components"]["schemas"].as_object().unwrap() {
        _ = write!(page, "\n## {name}\n\n{}\n", words(&schema["description"]));
        match schema["oneOf"].as_array() {
            Some(forms) => {
                page.push('\n');
                for form in forms {
                    _ = writeln!(
                        page,
                        "- {}",
                        [kind(form), words(&form["description"])].join(": ")
                    );
                }
            }
            None => append(&mut page, rows(schema)),
        }
    }
    page.replace(": \n", "\n")
}

/// Appends a table of fields, if there are any.
fn append(page: &mut String, rows: Vec<String>) {
    if !rows.is_empty() {
        page.push_str("\n| field | type | what it says |\n|---|---|---|\n");
        page.extend(rows);
    }
}

/// Returns a row for each field of an object.
fn rows(schema: &Value) -> Vec<String> {
    let none = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let is_required = |name: &String| required.iter().any(|each| each == name);
    fields.iter().map(|(name, field)| row(name, field, is_required(name))).collect()
}

fn row(name: &str, schema: &Value, is_required: bool) -> String {
    let optional = if is_required { "" } else { ", optional" };
    format!("| `{name}` | {}{optional} | {} |\n", kind(schema), words(&schema["description"]))
}

/// Says what a value is.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if !schema["const"].is_null() {
        return format!("`{}`", schema["const"]);
    }
    let forms = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema[*key].as_array());
    if let Some(forms) = forms {
        return forms.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::Array(types) => {
            let one = |each: &Value| {
                let mut single = schema.clone();
                single["type"] = each.clone();
                kind(&single)
            };
            types.iter().map(one).collect::<Vec<_>>().join(" or ")
        }
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" => match schema["properties"].as_object() {
            Some(fields) => {
                let field = |(name, field): (&String, &Value)| format!("`{name}`: {}", kind(field));
                format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
            None => "object".to_owned(),
        },
        Value::String(name) => name.clone(),
        _ => "any value".to_owned(),
    }
}

/// Returns a description as one line that may stand in a cell of a table.
fn words(description: &Value) -> String {
    description.as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}
