//! An empty workspace, and paths of a workspace that are shadowed.

use std::process::Output;

use pinfold_testkit::{LS_FAILS, Stage, not_behind_gvisor, people};

fn streams(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn host(stage: &Stage, script: &str) -> String {
    let output = stage.command("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", streams(&output).1);
    streams(&output).0
}

#[test]
fn a_scratch_workspace_is_empty_writable_and_gone_afterwards() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "echo x >file; mkdir .git; echo key >.env");
        let script = "pwd; ls -A; echo y >made; mkdir d; cat made; echo $PINFOLD_WORKSPACE";
        let output = stage.run_shell(&["--workspace", "scratch_mount"], script);
        let here = stage.workspace().display().to_string();
        assert_eq!(streams(&output), (format!("{here}\ny\n{here}\n"), String::new()));
        assert_eq!(host(&stage, "ls -A; cat file"), ".env\n.git\nfile\nx\n");
        let full = stage.run_shell(
            &["--workspace", "scratch_mount", "--disk", "1M"],
            "head -c 4m /dev/zero >big || echo full",
        );
        assert!(streams(&full).0.contains("full"), "{:?}", streams(&full));
        let check = stage.pinfold(&["check", "write", "made", "--workspace", "scratch_mount"]);
        let check = { check }.output().unwrap();
        assert!(check.status.success(), "{:?}", streams(&check));
    }
}

/// Runs with these paths shadowed, in each way of sharing the workspace.
fn shadowed(stage: &Stage, mode: &str, paths: &[&str], script: &str) -> Vec<(String, String)> {
    let list: Vec<String> = paths.iter().map(|path| format!("{path:?}")).collect();
    let list = list.join(", ");
    let file = format!("{{\"vfs\": {{\"shadow\": [{list}], \"shadowMode\": {mode:?}}}}}");
    stage.write("ws/sandbox.json", file);
    let run = |view: &str| streams(&stage.run_shell(&["--workspace", view], script));
    vec![run("shared_mount"), run("overlay")]
}

#[test]
fn tmpfs_shadows_are_private_writable_and_gone_afterwards() {
    if not_behind_gvisor("tmpfs_shadows_are_private_writable_and_gone_afterwards", LS_FAILS) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "mkdir -p node_modules/.bin a; echo host >node_modules/x; echo s >secret.txt");
        let paths = ["node_modules", "a/b/c", "./secret.txt"];
        let script = "ls -A node_modules a/b/c; echo in >node_modules/y; echo in >a/b/c/z; \
                      cat secret.txt; echo mine >secret.txt; cat node_modules/y secret.txt";
        let before = host(&stage, "find . | sort");
        for (shown, errors) in shadowed(&stage, "tmpfs", &paths, script) {
            assert_eq!(shown, "a/b/c:\n\nnode_modules:\nin\nmine\n", "{errors}");
            let after = host(&stage, "rm -f sandbox.json; find . | sort");
            assert_eq!(after, before, "{errors}");
            assert_eq!(host(&stage, "cat node_modules/x secret.txt"), "host\ns\n");
            assert!(!errors.contains("changed in a view"), "{errors}");
        }
    }
}

#[test]
fn denied_shadows_cannot_be_opened() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "mkdir keys; echo k >keys/k; echo f >file");
        let script = "mkdir keys/x; cat keys/k; touch missing/x; cat file; echo x >>file; ls -A";
        for (shown, errors) in shadowed(&stage, "deny", &["keys", "missing", "file"], script) {
            assert_eq!(errors.matches("Permission denied").count(), 5, "{errors}");
            assert!(shown.ends_with("file\nkeys\nmissing\nsandbox.json\n"), "{shown}");
        }
        assert_eq!(host(&stage, "ls; cat keys/k file"), "file\nkeys\nsandbox.json\nk\nf\n");
    }
}

#[test]
fn a_shadow_never_leaves_the_workspace() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "ln -s ../other link; mkdir -p real .git; ln -s /etc real/etc");
        for path in ["link", "real/etc", "real/etc/passwd", "../other", "/etc"] {
            for (_, errors) in shadowed(&stage, "tmpfs", &[path], "true") {
                let expected = format!("path escapes workspace: {path}");
                assert!(errors.contains(&expected), "{path}: {errors}");
            }
        }
        for (_, errors) in shadowed(&stage, "tmpfs", &[".git/hooks"], "true") {
            assert!(errors.contains("git's own directories"), "{errors}");
        }
        assert_eq!(host(&stage, "ls ../other; ls -A real"), "etc\n");
    }
}

#[test]
fn case_and_spelling_are_left_as_they_are() {
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            "mkdir Node_Modules 'cafe\u{301}'; echo x >Node_Modules/x; echo y >'cafe\u{301}/y'",
        );
        let paths = ["node_modules", "caf\u{e9}"];
        for (shown, errors) in shadowed(&stage, "tmpfs", &paths, "cat Node_Modules/x caf*/y; ls") {
            assert!(
                shown.starts_with("x\ny\n") && shown.contains("node_modules\n"),
                "{shown}{errors}"
            );
        }
    }
}

#[test]
fn a_home_behind_a_link_is_a_home() {
    for user in people() {
        let stage = Stage::new(user);
        std::os::unix::fs::symlink("home", stage.path("link")).unwrap();
        let mut run = stage.pinfold(&["run", "--", "echo", "ran"]);
        let output = run.env("HOME", stage.path("link")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{said}");
    }
}
