use std::path::Path;

use boon::{Compiler, Schemas};
use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::{Layers, Project, Settings};
use serde_json::Value;

use super::{page, published};

/// The published directory, at the root of the repository.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema");

#[test]
fn the_published_schemas_are_the_generated_ones() {
    for (name, content) in published() {
        let path = Path::new(DIRECTORY).join(name);
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == content,
            "schema/{name} is out of date; run `cargo run -p pinfold-schema --example \
             write-schemas`"
        );
    }
}

#[test]
fn the_page_of_settings_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page(), "run `cargo run -p pinfold-schema --example write-schemas`");
}

/// Returns whether the schema of a file accepts a value.
fn schema_accepts(name: &str, value: &Value) -> bool {
    let (_, content) = published().into_iter().find(|(file, _)| *file == name).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(name, serde_json::from_str(&content).unwrap()).unwrap();
    let schema = compiler.compile(name, &mut schemas).unwrap();
    schemas.validate(value, schema).is_ok()
}

fn parser_accepts(name: &str, text: &str) -> bool {
    let file = |path| SettingsFile { path: Path::new(path), bytes: text.as_bytes() };
    let layers = match name {
        "sandbox.schema.json" => {
            let Ok(project) = Project::read(&[file("sandbox.json")]) else { return false };
            Layers { project, ..Layers::default() }
        }
        "config.schema.json" => Layers { user: Some(file("config.json")), ..Layers::default() },
        _ => Layers { ceiling: Some(file("policy.json")), ..Layers::default() },
    };
    Settings::resolve(layers).is_ok()
}

#[test]
fn schema_and_parser_agree_on_samples() {
    for (name, accepted, text) in [
        ("sandbox.schema.json", true, r#"{}"#),
        ("sandbox.schema.json", true, r#"{"env": {"GOROOT": "/usr/lib/go"}}"#),
        (
            "sandbox.schema.json",
            true,
            r#"{"resources": {"cpus": 0.5, "memory": "8G", "pids": 100, "disk": "1G",
                "files": 1024, "timeout": "2h"}}"#,
        ),
        ("sandbox.schema.json", true, r#"{"resources": {"memory": "512MiB"}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"memory": "0G"}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"memory": 8}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"memory": "8gb"}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"cpus": 0}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"pids": 0}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"pids": 1.5}}"#),
        ("sandbox.schema.json", false, r#"{"resources": {"cpu": 1}}"#),
        ("sandbox.schema.json", false, r#"{"env": {"A B": "1"}}"#),
        ("sandbox.schema.json", false, r#"{"env": {"A": 1}}"#),
        ("sandbox.schema.json", true, r#"{"vfs": {"shadow": ["node_modules"]}}"#),
        ("sandbox.schema.json", false, r#"{"vfs": {"shadow": "node_modules"}}"#),
        ("sandbox.schema.json", true, r#"{"resumeCommands": ["a", {"run": "b", "retries": 0}]}"#),
        ("sandbox.schema.json", false, r#"{"resumeCommands": [{"run": "b", "retries": -1}]}"#),
        ("sandbox.schema.json", true, r#"{"hostExec": {"autoApprove": true}}"#),
        ("sandbox.schema.json", true, r#"{"hostExec": {"autoApprove": [{"executable": "git"}]}}"#),
        ("sandbox.schema.json", false, r#"{"hostExec": {"autoApprove": "all"}}"#),
        ("sandbox.schema.json", false, r#"{"hostExec": null}"#),
        ("sandbox.schema.json", false, r#"[]"#),
        (
            "config.schema.json",
            true,
            r#"{"boundary": "namespace", "forward_env": ["TERM"],
                "files": {"read": ["/srv"], "state": "persistent"},
                "providers": {"local": {"base_url": "https://x.example"}}}"#,
        ),
        ("config.schema.json", false, r#"{"boundary": "doc"}"#),
        ("config.schema.json", false, r#"{"files": {"reed": []}}"#),
        (
            "policy.schema.json",
            true,
            r#"{"boundaries": ["vm"], "allow_weaker": false, "files": {"roots": ["/srv"]}}"#,
        ),
        ("policy.schema.json", false, r#"{"boundaries": ["vmm"]}"#),
        ("policy.schema.json", false, r#"{"nested": "no"}"#),
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema_accepts(name, &value), accepted, "schema: {text}");
        assert_eq!(parser_accepts(name, text), accepted, "parser: {text}");
    }
}
