//! Package managers of Node's that come with the host's system.

use std::fs;

use pinfold_testkit::{Stage, engine, installed, people, skip};

fn said(stage: &Stage, options: &[&str], script: &str) -> String {
    let output = stage.run_shell(options, script);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn corepack_enables_package_managers_in_the_sandboxs_home() {
    if !installed("corepack") {
        return skip("corepack", "it is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let script = "corepack enable && command -v pnpm && command -v yarn; \
                      corepack disable && ls ~/.local/bin";
        let found = "/home/agent/.local/bin/pnpm\n/home/agent/.local/bin/yarn\n";
        assert_eq!(said(&stage, &[], script), found);
    }
}

#[test]
fn npm_installs_global_packages_in_the_sandboxs_home() {
    if !installed("npm") {
        return skip("npm's global packages", "npm is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let package = r#"{ "name": "tool", "version": "1.0.0", "bin": "tool.js" }"#;
        stage.write("ws/tool/package.json", package);
        stage.write("ws/tool/tool.js", "#!/usr/bin/env node\nconsole.log('works')\n");
        let install = "npm install -g --offline --no-audit --no-fund ./tool >&2";
        assert_eq!(said(&stage, &[], &format!("{install}; tool")), "works\n");
        let link = "cd tool; npm link --offline --no-audit --no-fund >&2; tool";
        assert_eq!(said(&stage, &[], link), "works\n");
        let root =
            said(&stage, &[], "npm root -g; npm --version >/dev/null; echo $npm_config_prefix");
        assert_eq!(root, "/home/agent/.local/lib/node_modules\n\n");
        // What somebody has set is used.
        let prefix = format!(
            "mkdir /tmp/own; export NPM_CONFIG_PREFIX=/tmp/own; {install}; ls /tmp/own/bin"
        );
        assert_eq!(said(&stage, &[], &prefix), "tool\n");
        assert!(!stage.path("home/.local/bin").exists(), "nothing of it is on the host");
    }
}

/// The programs stand for the system's own: those of a version manager come first, and nothing in the
/// sandbox can change them.
#[test]
fn the_systems_npm_does_not_hide_another_one_and_cannot_be_replaced() {
    if !installed("npm") || engine().is_some() {
        return skip("npm of a version manager", "npm is not installed, or an engine is tried");
    }
    for user in people() {
        let stage = Stage::new(user);
        let npm = stage.write("readable/npm", "#!/bin/sh\necho own\n");
        fs::set_permissions(npm, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let readable = stage.path("readable").display().to_string();
        let mut run = stage.pinfold(&["run", "--read", &readable, "--", "npm"]);
        let output = run.env("PATH", format!("{readable}:/usr/bin:/bin")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "own\n");
        let script = "for at in /run/pinfold/node-tools/*; do echo > $at; rm -f $at; done 2>/dev/null; \
                      command -v npm";
        assert_eq!(said(&stage, &[], script), "/run/pinfold/node-tools/npm\n");
    }
}
