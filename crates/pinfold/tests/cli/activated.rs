//! A `PATH` with a directory of the workspace, as an activated environment (`.venv`, `node_modules/.bin`, direnv) makes
//! it. A session plants helpers there that pinfold starts by name.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use pinfold_testkit::{Stage, people};

/// Plants helpers that leave what they were given next to the workspace, and returns the `PATH` with them.
fn planted(stage: &Stage, names: &str) -> String {
    let mark = stage.path("ran");
    let script = format!(
        "mkdir -p .venv/bin; for name in {names}; do \
         printf '#!/bin/sh\\n{{ echo %s \"$@\"; cat; }} >> {}\\n' $name > .venv/bin/$name; \
         chmod +x .venv/bin/$name; done",
        mark.display()
    );
    let output = stage.run_shell(&[], &script);
    assert!(output.status.success(), "{output:?}");
    format!("{}/.venv/bin:/usr/local/bin:/usr/bin:/bin", stage.workspace().display())
}

fn with_input(mut command: Command, path: &str, input: &str) -> String {
    command.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn helper_that_a_session_planted_is_given_no_secret() {
    for user in people() {
        let stage = Stage::new(user);
        let path = planted(&stage, "secret-tool print-token");
        // The plant works for who goes by the PATH.
        let by_path = with_input(stage.command("secret-tool"), &path, "");
        assert!(stage.path("ran").exists(), "{by_path}");
        fs::remove_file(stage.path("ran")).unwrap();
        with_input(stage.pinfold(&["secret", "set", "a", "--keyring"]), &path, "s3cret");
        let set = ["secret", "set", "b", "--from-command", "print-token"];
        let said = with_input(stage.pinfold(&set), &path, "");
        let checked = with_input(stage.pinfold(&["secret", "check", "b"]), &path, "");
        assert!(!stage.path("ran").exists(), "{said}{checked}");
        assert!(checked.contains("name it by its absolute path"), "{checked}");
        // A link on PATH to a program of the workspace.
        fs::create_dir(stage.path("bin")).unwrap();
        symlink(stage.workspace().join(".venv/bin/print-token"), stage.path("bin/print-token"))
            .unwrap();
        let linked = format!("{}:/usr/local/bin:/usr/bin:/bin", stage.path("bin").display());
        let said = with_input(stage.pinfold(&set), &linked, "");
        let checked = with_input(stage.pinfold(&["secret", "check", "b"]), &linked, "");
        assert!(!stage.path("ran").exists(), "{said}{checked}");
        // A linked worktree of the same repository.
        let git = "git init -q; git -c user.name=t -c user.email=t@t commit -q --allow-empty -m x; \
                   git worktree add -q ../tree";
        assert!(stage.command("sh").args(["-c", git]).status().unwrap().success());
        let mut checks = stage.pinfold(&["secret", "check", "b"]);
        checks.current_dir(stage.path("tree"));
        let checked = with_input(checks, &path, "");
        assert!(!stage.path("ran").exists(), "{checked}");
        // A path says itself which program is meant.
        let named = stage.workspace().join(".venv/bin/print-token");
        let named = ["secret", "set", "c", "--from-command", named.to_str().unwrap()];
        let said = with_input(stage.pinfold(&named), &path, "");
        let checked = with_input(stage.pinfold(&["secret", "check", "c"]), &path, "");
        assert!(stage.path("ran").exists(), "{said}{checked}");
    }
}
