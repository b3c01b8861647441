//! The official clients of the Model Context Protocol, from npm.

use std::fs;
use std::os::unix::fs::symlink;

use pinfold_testkit::agent::ready;
use pinfold_testkit::{Stage, executable, skip};

use super::{newer_node, packages};

/// Their packages, each of one version, and how they speak: the first by `initialize` alone, the second by
/// that unless it is to see what the server speaks.
const CLIENTS: [(&str, &str); 3] = [
    ("@modelcontextprotocol/sdk@1.32.2", ""),
    ("@modelcontextprotocol/client@2.4.0", "legacy"),
    ("@modelcontextprotocol/client@2.4.0", "auto"),
];

#[test]
fn the_official_clients_list_and_call_every_tool_and_every_result_fits_its_schema() {
    let test = "the official clients";
    let Some(user) = ready(test) else { return };
    let Some(node) = newer_node(test) else { return };
    for (client, mode) in CLIENTS {
        let stage = Stage::new(user);
        let name = client.rsplit_once('@').unwrap().0;
        let room = format!("mcp-{}", name.rsplit_once('/').unwrap().1);
        let modules = match packages(&stage, &room, &[client, node]) {
            Ok(modules) => modules,
            Err(why) => return skip(test, &why),
        };
        let node = modules.join(node.split('@').next().unwrap()).join("bin/node");
        let program = stage.write("client/official.mjs", include_str!("official.mjs"));
        symlink(modules, stage.path("client/node_modules")).unwrap();
        let mut node = stage.command(node);
        node.arg(program).args([name, mode]).env("PINFOLD", executable());
        let output = node.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_well = output.status.success() && said == "13 tools\n";
        assert!(is_well, "{client} {mode}: {said}\n{errors}");
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
    }
}
