//! A `PATH` with a directory of the workspace, as an activated environment (`.venv`, `node_modules/.bin`, direnv) makes
//! it. A session plants helpers there that pinfold starts by name.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use pinfold_testkit::{Stage, User, executable, installed, people};

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
fn interpreter_that_a_session_planted_runs_no_wrapper_and_no_plugin() {
    for user in people() {
        let stage = Stage::new(user);
        let path = planted(&stage, "planted-shell");
        let bin = stage.workspace().join(".venv/bin");
        fs::rename(bin.join("planted-shell"), bin.join("sh")).unwrap();
        let script = |name: &str, lines: &str| {
            let script = stage.write(name, format!("#!/usr/bin/env sh\n{lines}\n"));
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            script.display().to_string()
        };
        with_input(stage.command(script("other/plain", "true")), &path, "");
        assert!(stage.path("ran").exists(), "the plant is not the first one on PATH");
        fs::remove_file(stage.path("ran")).unwrap();
        let settings = "home/.config/pinfold/config.toml";
        let mark = stage.path("other/asked");
        let wrapper = script("other/wrapper", &format!("cat | tee {}", mark.display()));
        stage.write(settings, format!("[[wrappers]]\nid = \"w\"\ncommand = [\"{wrapper}\"]\n"));
        let said = with_input(stage.pinfold(&["run", "--", "true"]), &path, "");
        assert!(mark.exists() && !stage.path("ran").exists(), "{said}");
        let check = ["secret", "set", "a", "--from-command", "/bin/echo", "b"];
        with_input(stage.pinfold(&check), &path, "");
        let said = with_input(stage.pinfold(&["secret", "check", "a"]), &path, "");
        assert!(!stage.path("ran").exists(), "{said}");
        let refuses = "echo '{\"version\": 1, \"error\": \"asked\"}'";
        let plugin = script("other/plugin", refuses);
        stage.write(settings, format!("plugin = \"{plugin}\"\n"));
        let mut external = stage.command(executable());
        external.args(["run", "--boundary", "external", "--", "true"]);
        let said = with_input(external, &path, "");
        assert!(said.contains("asked") && !stage.path("ran").exists(), "{said}");
    }
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
        let keyring = ["secret", "set", "a", "--keyring"];
        let kept = with_input(stage.pinfold(&keyring), &path, "s3cret");
        assert!(installed("secret-tool") || kept.contains("where a session may"), "{kept}");
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

/// Sets a secret that a planted program prints, in a directory that is no workspace of the plant's.
fn stage_with_secret(user: User) -> (Stage, String) {
    let stage = Stage::new(user);
    let path = planted(&stage, "print-token");
    let mut set = stage.pinfold(&["secret", "set", "b", "--from-command", "print-token"]);
    set.current_dir(stage.path("other"));
    let said = with_input(set, &path, "");
    assert!(!said.contains("error"), "{said}");
    let _ = fs::remove_file(stage.path("ran"));
    (stage, path)
}

#[test]
fn nothing_that_a_session_does_to_its_directories_makes_its_programs_found() {
    for user in people() {
        let (stage, path) = stage_with_secret(user);
        let git =
            ["git init -q", "git init -q nested", "mkdir odd", "echo gitdir: /nowhere > odd/.git"];
        assert!(stage.command("sh").args(["-c", &git.join("; ")]).status().unwrap().success());
        for enter in ["cd nested", "cd odd", "mkdir gone; cd gone; rmdir ../gone"] {
            let script = format!("{enter}; exec \"$@\"");
            let mut check = stage.command("sh");
            check.args(["-c", &script, "sh", executable(), "secret", "check", "b"]);
            let said = with_input(check, &path, "");
            assert!(!stage.path("ran").exists(), "{enter}: {said}");
            assert!(said.contains("where a session may have written"), "{enter}: {said}");
        }
    }
}

#[test]
fn program_of_another_live_session_is_not_found() {
    for user in people() {
        let (stage, path) = stage_with_secret(user);
        let mut session = stage.pinfold(&["run", "--", "sh", "-c", "echo up; read line"]);
        session.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut session = session.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(session.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        let mut check = stage.pinfold(&["secret", "check", "b"]);
        check.current_dir(stage.path("other"));
        let said = with_input(check, &path, "");
        drop(session.stdin.take());
        session.wait().unwrap();
        assert!(!stage.path("ran").exists(), "{said}");
        assert!(said.contains("where a session may have written"), "{said}");
    }
}

#[test]
fn program_of_a_further_grant_is_not_found_by_the_session_that_may_write_there() {
    for user in people() {
        let (stage, path) = stage_with_secret(user);
        let settings = "[[secrets]]\nid = \"b\"\nhosts = [\"a.test\"]\nenv = \"B\"\n";
        stage.write("home/.config/pinfold/config.toml", settings);
        let workspace = stage.workspace();
        let mut session =
            stage.pinfold(&["run", "--write", workspace.to_str().unwrap(), "--", "true"]);
        session.current_dir(stage.path("other"));
        let said = with_input(session, &path, "");
        assert!(!stage.path("ran").exists(), "{said}");
        assert!(said.contains("there is no secret b"), "{said}");
    }
}

#[test]
fn programs_of_a_workspace_are_not_found_by_what_pinfold_starts_elsewhere() {
    for user in people() {
        let (stage, path) = stage_with_secret(user);
        let mut check = stage.pinfold(&["secret", "check", "b"]);
        check.current_dir(stage.path("other")).env("PINFOLD_LEFT_OUT", stage.workspace());
        let said = with_input(check, &path, "");
        assert!(!stage.path("ran").exists(), "{said}");
        assert!(said.contains("where a session may have written"), "{said}");
    }
}
