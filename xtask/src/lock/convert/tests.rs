//! npm's rules for platforms, and what becomes of its entries.

use serde_json::{Value, json};

use super::super::agents::AGENTS;
use super::*;

fn agent(name: &str) -> &'static Agent {
    AGENTS.iter().find(|agent| agent.name == name).unwrap()
}

fn lock(packages: Value) -> Value {
    json!({ "lockfileVersion": 3, "packages": packages })
}

fn entry(more: Value) -> Value {
    let mut entry = json!({ "version": "1.0.0", "integrity": Integrity::of(b"x").to_string() });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

#[test]
fn platforms_follow_npms_rules() {
    for (rule, x64, arm64) in [
        (Value::Null, true, true),
        (json!("x64"), true, false),
        (json!(["arm64", "ppc64"]), false, true),
        (json!(["!arm64"]), true, false),
        (json!(["any"]), true, true),
        (json!(["s390x"]), false, false),
        (json!([]), true, true),
    ] {
        assert_eq!((allows(&rule, "x64"), allows(&rule, "arm64")), (x64, arm64), "{rule}");
    }
}

#[test]
fn packages_for_other_systems_and_bundled_ones_are_left_out() {
    let lock = lock(json!({
        "": { "name": "recipe" },
        "node_modules/@openai/codex": entry(json!({ "bin": { "codex": "bin/codex.js" } })),
        "node_modules/@openai/codex-linux-x64":
            entry(json!({ "name": "@openai/codex", "os": ["linux"], "cpu": ["x64"] })),
        "node_modules/mac": entry(json!({ "os": ["darwin"] })),
        "node_modules/musl": entry(json!({ "libc": ["musl"] })),
        "node_modules/a/node_modules/b": { "inBundle": true, "version": "1.0.0" },
    }));
    let packages = packages(agent("codex"), &lock).unwrap();
    let seen: Vec<_> =
        packages.iter().map(|p| (p.path.as_str(), p.name.as_str(), p.cpu, p.libc)).collect();
    assert_eq!(
        seen,
        [
            ("node_modules/@openai/codex", "@openai/codex", None, None),
            ("node_modules/@openai/codex-linux-x64", "@openai/codex", Some(Cpu::X64), None),
            ("node_modules/musl", "musl", None, Some(Libc::Musl)),
        ]
    );
    let commands = commands(agent("codex"), &lock, &packages).unwrap();
    assert_eq!(commands.len(), 1, "the arm64 package is not in the lock");
    assert_eq!(commands[0].cpu, Some(Cpu::X64));
}

#[test]
fn what_is_not_from_the_registry_is_an_error() {
    let git = lock(json!({ "node_modules/a": { "version": "1.0.0" } }));
    let error = packages(agent("pi"), &git).unwrap_err().to_string();
    assert_eq!(error, "npm's lock cannot be used: node_modules/a is not a package of the registry");
    let old = json!({ "lockfileVersion": 1 });
    assert!(packages(agent("pi"), &old).unwrap_err().to_string().contains("not version 3"));
}
