//! The official client of the Model Context Protocol, from npm.

use std::fs;
use std::os::unix::fs::symlink;

use super::{packages, ready};
use crate::common::{Stage, skip};

/// Its package, of one version.
const CLIENT: &str = "@modelcontextprotocol/sdk@1.32.2";

#[test]
fn the_official_client_lists_and_calls_every_tool_and_every_result_fits_its_schema() {
    let test = "the official client";
    let Some(person) = ready(test) else { return };
    let stage = Stage::new(person);
    let modules = match packages(&stage, "mcp-client", &[CLIENT]) {
        Ok(modules) => modules,
        Err(why) => return skip(test, &why),
    };
    let program = stage.write("client/official.mjs", include_str!("official.mjs"));
    symlink(modules, stage.path("client/node_modules")).unwrap();
    let mut node = stage.command("node");
    let output = node.arg(program).env("PINFOLD", env!("CARGO_BIN_EXE_pinfold")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said == "13 tools\n", "{said}\n{errors}");
    assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
}
