//! The official conformance suite of the Model Context Protocol, from npm.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use pinfold_testkit::agent::ready;
use pinfold_testkit::{Stage, User, executable, people, skip};

use super::{newer_node, packages};

/// The suite, and what stands between it and a server that speaks on standard streams; the first
/// version that holds every message against the protocol's schema.
const PACKAGES: [&str; 2] =
    ["@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/sdk@1.32.2"];
/// A revision as the suite is asked for it, what of it does not apply, and some of what has to have passed.
type Revision = ([&'static str; 2], &'static str, [&'static str; 3]);
/// Those whose requirements the suite's makers have frozen, and one before.
const REVISIONS: [Revision; 3] = [
    (
        ["--requirements", "2026-07-28"],
        include_str!("conformance-2026.yml"),
        ["tools-list", "tools-call-with-progress", "server-sse-multiple-streams"],
    ),
    (["--requirements", "2025-11-25"], include_str!("conformance.yml"), OF_HANDSHAKE),
    (["--spec-version", "2025-06-18"], include_str!("conformance.yml"), OF_HANDSHAKE),
];
const OF_HANDSHAKE: [&str; 3] = ["server-initialize", "tools-list", "tools-call-with-progress"];
/// One pixel.
const IMAGE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0c\
    IDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";

#[test]
fn the_official_conformance_suite_fails_nothing_but_what_the_server_says_it_has_not() {
    let test = "the official conformance suite";
    let Some(person) = ready(test) else { return };
    let Some(node) = newer_node(test) else { return };
    let installing = Stage::new(person);
    let all = [PACKAGES.as_slice(), &[node]].concat();
    let modules = match packages(&installing, "mcp-conformance", &all) {
        Ok(modules) => modules,
        Err(why) => return skip(test, &why),
    };
    let name = node.split('@').next().unwrap();
    let node = modules.join(name).join("bin/node");
    for person in people() {
        for revision in REVISIONS {
            conforms(person, &modules, &node, revision);
        }
    }
}

fn conforms(person: User, modules: &Path, node: &Path, (revision, inapplicable, passed): Revision) {
    let stage = Stage::new(person);
    stage.write("ws/text.txt", "text\n");
    stage.write("ws/image.png", IMAGE);
    let known = stage.write("client/conformance.yml", inapplicable);
    let program = stage.write("client/conformance.mjs", include_str!("conformance.mjs"));
    symlink(modules, stage.path("client/node_modules")).unwrap();
    let mut between = stage
        .command(node)
        .arg(program)
        .env("PINFOLD", executable())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(between.stdout.take().unwrap()).read_line(&mut address).unwrap();

    let suite = modules.join("@modelcontextprotocol/conformance/dist/index.js");
    let mut suite = stage
        .command(node)
        .arg(suite)
        .args(["server", "--url", address.trim_end()])
        .args(revision)
        .arg("--expected-failures")
        .arg(known)
        .output()
        .unwrap();
    drop(between.stdin.take());
    assert!(between.wait().unwrap().success());
    suite.stdout.append(&mut suite.stderr);
    let said = String::from_utf8_lossy(&suite.stdout);
    assert!(suite.status.success(), "{revision:?}:\n{said}");
    for scenario in passed {
        assert!(said.contains(&format!("✓ {scenario}: ")), "{scenario} was not run:\n{said}");
    }
}
