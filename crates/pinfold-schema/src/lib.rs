//! JSON Schemas (draft 2020-12) of the settings files, generated from the tables of known keys.
//!
//! The schema refuses what pinfold refuses.

use pinfold_agents::AGENT;
use pinfold_policy::document::{Key, Shape};
use pinfold_policy::settings;
use serde_json::{Map, Value, json};

mod page;

pub use page::page;

/// A settings file that has a schema and a part of the reference page.
struct File {
    /// The schema's, in `schema/` at the root of the repository.
    name: &'static str,
    title: &'static str,
    /// The heading of its part of the reference page.
    heading: &'static str,
    keys: &'static [Key],
}

const FILES: [File; 4] = [
    File {
        name: "config.schema.json",
        title: "pinfold: a user's config.toml",
        heading: "Yours: `~/.config/pinfold/config.toml`",
        keys: settings::USER,
    },
    File {
        name: "sandbox.schema.json",
        title: "pinfold: a repository's sandbox.json",
        heading: "A repository's: `sandbox.json`",
        keys: settings::PROJECT,
    },
    File {
        name: "policy.schema.json",
        title: "pinfold: an administrator's policy.toml",
        heading: "An administrator's: `/etc/pinfold/policy.toml`",
        keys: settings::CEILING,
    },
    File {
        name: "agent.schema.json",
        title: "pinfold: an agent's file",
        heading: "An agent's: `~/.config/pinfold/agents/NAME.toml`",
        keys: AGENT,
    },
];

/// Returns the published schemas and their content, for `schema/` at the root of the repository.
#[must_use]
pub fn published() -> Vec<(&'static str, String)> {
    let file = |File { name, title, keys, .. }: &File| {
        let mut schema = table(keys);
        schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        schema.insert("title".into(), Value::from(*title));
        (*name, format!("{:#}\n", Value::Object(schema)))
    };
    FILES.iter().map(file).collect()
}

fn table(keys: &[Key]) -> Map<String, Value> {
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    schema.insert("additionalProperties".into(), false.into());
    schema
}

fn property(key: &Key) -> (String, Value) {
    let mut schema = shape(&key.shape);
    schema.insert("description".into(), key.doc.into());
    (key.name.to_owned(), Value::Object(schema))
}

fn shape(shape: &Shape) -> Map<String, Value> {
    let schema = match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count => json!({ "type": "integer", "minimum": 1 }),
        Shape::Whole => json!({ "type": "integer", "minimum": 0 }),
        Shape::Amount => json!({ "type": "number", "minimum": 0 }),
        Shape::Cpus => json!({ "type": "number", "minimum": 0.001, "maximum": 65536 }),
        Shape::Either(one, other) => {
            json!({ "anyOf": [self::shape(one), self::shape(other)] })
        }
        Shape::List(item) => json!({ "type": "array", "items": self::shape(item) }),
        Shape::Map(names, value) => json!({
            "type": "object",
            "propertyNames": { "pattern": names },
            "additionalProperties": self::shape(value),
        }),
        Shape::Table(keys) => return table(keys),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
