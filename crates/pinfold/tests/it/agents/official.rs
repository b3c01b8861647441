//! The official client of the Model Context Protocol, from npm.

use std::fs;
use std::os::unix::fs::symlink;

use super::{cache, ready};
use crate::common::{Stage, skip};

/// Its package, of one version.
const CLIENT: &str = "@modelcontextprotocol/sdk@1.32.2";

#[test]
fn the_official_client_lists_and_calls_every_tool_and_every_result_fits_its_schema() {
    let test = "the official client";
    let Some(person) = ready(test) else { return };
    let stage = Stage::new(person);
    let kept = cache(person).join("mcp-client");
    if !kept.join("node_modules/@modelcontextprotocol/sdk").exists() {
        let mut npm = stage.command("npm");
        npm.args(["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix"])
            .arg(&kept)
            .args(["--fetch-retries", "1", CLIENT])
            // The system's authorities, and not node's own.
            .env("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt");
        match npm.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return skip(test, &String::from_utf8_lossy(&output.stderr)),
            Err(error) => return skip(test, &format!("npm: {error}")),
        }
    }
    let program = stage.write("client/official.mjs", include_str!("official.mjs"));
    symlink(kept.join("node_modules"), stage.path("client/node_modules")).unwrap();
    let mut node = stage.command("node");
    let output = node.arg(program).env("PINFOLD", env!("CARGO_BIN_EXE_pinfold")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said == "13 tools\n", "{said}\n{errors}");
    assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
}
