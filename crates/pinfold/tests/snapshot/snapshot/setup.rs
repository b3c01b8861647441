//! Set-up commands: how they run, what they leave, and when they run again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_testkit::snapshot::{BASE, commands, possible, settings};
use pinfold_testkit::{Stage, people};

use super::{build, cache, kept, refused, said, session, stderr};

#[test]
fn commands_run_in_order_as_root_by_name_and_nothing_of_the_user_is_in_sight() {
    if !possible("commands_run_in_order_as_root_by_name") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/source", "x");
        stage.write("home/private", "x");
        let workspace = stage.workspace();
        let hidden = format!(
            "test ! -e {} && test ! -e {} && test ! -e {}",
            workspace.display(),
            stage.path("home").display(),
            cache(&stage, "snapshots").display()
        );
        commands(
            &stage,
            &[
                "echo one >/opt/order; cd /opt; LEFT=over; set +e",
                "echo two-$PWD-${LEFT:-none}-$HOME-$USER-$DEBIAN_FRONTEND >>/opt/order",
                "chown www:33 /opt/order && touch /bin/ids && chmod 6755 /bin/ids && id >>/opt/order",
                "echo kept >~/file; mkdir -p ~/.cache/x; echo out; echo err >&2",
                &hidden,
                "test -z \"${SECRET:-}\"; ls -la / >>/var/root; test -u /bin/ids",
            ],
        );
        let mut build = stage.pinfold(&["snapshot", "build"]);
        let output = build.env("SECRET", "s").output().unwrap();
        said(&output);
        let log = stderr(&output);
        let steps = ["set-up 1 of 6: echo one", "set-up 6 of 6: test -z", "\nout\n", "\nerr\n"];
        assert!(steps.iter().all(|step| log.contains(step)), "{log}");
        let seen = session(&stage, "cat /opt/order ~/file; ls -d ~/.cache/x; id -un");
        assert_eq!(
            seen,
            "one\ntwo-/tmp-none-/home/agent-root-noninteractive\nuid=0(root) gid=0\nkept\n\
             /home/agent/.cache/x\nagent\n"
        );
        let snapshot = cache(&stage, "snapshots").join(&kept(&stage, "snapshots")[0]);
        let mode = fs::metadata(snapshot.join("tree/bin/ids")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "nothing keeps such a bit");
        let log = fs::read_to_string(snapshot.join("build.log")).unwrap();
        assert!(log.starts_with("+ echo one") && log.contains("\nout\nerr\n"), "{log}");
    }
}

#[test]
fn failure_is_reported_and_leaves_nothing() {
    if !possible("failure_is_reported_and_leaves_nothing") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        for (command, status) in [
            ("echo first >/opt/x; echo last-words; false; echo never", 1),
            ("echo last-words; exit 42", 42),
            ("echo last-words; no-such-program", 127),
            ("echo last-words; echo $NOT_SET", 2),
            ("echo last-words; kill -9 $$", 137),
        ] {
            commands(&stage, &["echo fine", command]);
            let error = refused(&build(&stage));
            let head = format!("setup step \"snapshot.setupCommands[1]\" failed (exit {status}):");
            let (_, rest) = error.split_once(&head).unwrap_or_else(|| panic!("{error}"));
            assert!(rest.contains(command) && rest.contains("\n  last-words\n"), "{error}");
            assert!(!rest.contains("\n  never") && rest.contains("hint: "), "{error}");
            assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new());
        }
        let error = refused(&stage.run_shell(&[], "echo started"));
        assert!(error.contains("setupCommands[1]"), "a session does not start without: {error}");
    }
}

#[test]
fn changed_recipe_is_built_again_and_start_commands_are_not_part_of_it() {
    if !possible("changed_recipe_is_built_again") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let with = |commands: &str, rest: &str| {
            settings(&stage, &format!(r#"{{"snapshot": {{{BASE}, {commands}}}{rest}}}"#));
            let output = build(&stage);
            said(&output);
            stderr(&output).contains("set-up")
        };
        let first = r#""setupCommands": ["echo a >/opt/x"]"#;
        assert!(with(first, ""), "made");
        assert!(!with(first, ""), "there");
        assert!(!with(first, r#", "resumeCommands": ["true"], "env": {"A": "1"}"#));
        assert!(!with(&format!(r#"{first}, "overlaySize": "1G""#), ""));
        assert!(with(r#""setupCommands": ["echo b >/opt/x"]"#, ""), "made again");
        assert_eq!(session(&stage, "cat /opt/x"), "b\n");
        let hosts = r#""setupCommands": ["echo b >/opt/x"], "allowedHosts": ["x.example"]"#;
        assert!(with(hosts, ""), "other hosts");
    }
}

#[test]
fn a_repository_that_is_not_trusted_has_nothing_built() {
    if !possible("a_repository_that_is_not_trusted_has_nothing_built") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(&stage, &["echo trusted"]);
        let changed = r#"{"snapshot": {"base": "../base.tar", "setupCommands": ["echo changed"]}}"#;
        stage.write("ws/sandbox.json", changed);
        let output = build(&stage);
        said(&output);
        let stderr = stderr(&output);
        assert!(
            stderr.contains("waits for `pinfold trust`") && !stderr.contains("set-up 1"),
            "{stderr}"
        );
        session(&stage, "true");
        assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new());
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new());
    }
}
