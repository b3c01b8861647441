//! Killed at any step, and with a full disk.

use std::process::Stdio;

use pinfold_testkit::tracer::kill_at;
use pinfold_testkit::{Stage, User, executable, installed, people, processes_with, skip};

use super::{LISTING, host, pinfold, sessions, work};

const BEFORE: &str = "echo a >a; echo b >b; mkdir dir; echo f >dir/f; echo t >turns; \
                      mkdir shut; echo s >shut/s; chmod 555 shut; \
                      git init -q --template= -b main; git config user.name T; \
                      git config user.email t@example.org; git add .; git commit -qm first";
const CHANGES: &str = "echo x >>a; rm b; rm -r dir; mkdir -p new/deep; echo n >new/deep/n; \
                       ln a hard; rm turns; mkdir turns; echo i >turns/i; \
                       chmod 755 shut; echo x >>shut/s; chmod 555 shut; git add -A; \
                       git commit -qm inside";

#[test]
fn an_apply_killed_at_any_step_is_done_whole_or_not_at_all() {
    /// Odd, so that beginnings and ends of calls take turns.
    const STRIDE: u32 = 151;
    if !installed("git") {
        return skip("an_apply_killed_at_any_step", "it takes git");
    }
    for user in people() {
        // Other steps each time.
        let (mut step, mut done, mut undone) = (1 + std::process::id() % STRIDE, 0, 0);
        loop {
            let stage = Stage::new(user);
            host(&stage, BEFORE);
            let before = host(&stage, LISTING);
            let view = work(&stage, &format!("{CHANGES} >&2; {LISTING}"));
            let mut apply = stage.pinfold(&["apply"]);
            apply.stdout(Stdio::null()).stderr(Stdio::null());
            let traced = kill_at(apply, 0, step);
            if !traced.killed {
                break;
            }
            // Whatever a user does next finishes it.
            pinfold(&stage, &["ps", "--all"]).unwrap();
            let now = host(&stage, LISTING);
            if now == view {
                done += 1;
                let log = host(&stage, "git log --format=%s; git status --short; git fsck");
                assert_eq!(log, "inside\nfirst\n", "step {step}");
            } else {
                undone += 1;
                let staged = now.lines().find(|line| line.starts_with(".pinfold-"));
                let rest: Vec<&str> =
                    now.lines().filter(|line| !line.contains(".pinfold-")).collect();
                assert_eq!(rest, before.lines().collect::<Vec<_>>(), "step {step}: {staged:?}");
                pinfold(&stage, &["apply"]).unwrap();
                assert_eq!(host(&stage, LISTING), view, "step {step}");
            }
            if !sessions(&stage).is_empty() {
                pinfold(&stage, &["apply"]).unwrap();
            }
            assert_eq!(sessions(&stage), Vec::<String>::new(), "step {step}");
            assert_eq!(host(&stage, LISTING), view, "step {step}");
            step += STRIDE;
        }
        assert!(done > 3 && undone > 3, "{done} done, {undone} not");
    }
}

/// A `git` that takes its time to move a reference.
const SLOW_GIT: &str = "mkdir -p ../slow; printf '%s\\n' '#!/bin/sh' \
    'case \"$*\" in *update-ref*) sleep 1;; esac' 'exec /usr/bin/git \"$@\"' >../slow/git; chmod 755 ../slow/git";

#[test]
fn an_apply_that_was_killed_while_git_moves_a_branch_is_finished_after_it() {
    if !std::path::Path::new("/usr/bin/git").exists() {
        return skip("an_apply_that_was_killed_while_git_moves_a_branch", "it takes /usr/bin/git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        host(&stage, SLOW_GIT);
        work(&stage, &format!("{CHANGES} >&2"));
        let slow = stage.workspace().with_file_name("slow");
        let path = format!("{}:/usr/bin:/bin", slow.display());
        let start = |arguments: &[&str]| {
            let mut command = stage.pinfold(arguments);
            command.env("PATH", &path).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut apply = start(&["apply"]);
        let marker = format!("{}/git\0--git-dir", slow.display());
        let moves = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains("update-ref")
        };
        while !processes_with(&marker).iter().any(moves) {
            assert!(apply.try_wait().unwrap().is_none(), "it moved no branch");
            std::thread::yield_now();
        }
        apply.kill().unwrap();
        apply.wait().unwrap();
        assert!(start(&["ps", "--all"]).wait().unwrap().success());
        let log = host(
            &stage,
            "git log --format=%s; git status --short --untracked-files=no; ls -A .git | grep lock || :",
        );
        assert_eq!(log, "inside\nfirst\n");
    }
}

/// Whatever command finishes it, its user hears of a branch that could not follow.
#[test]
fn what_an_interrupted_apply_could_not_take_is_reported_by_the_command_that_finishes_it() {
    if !installed("git") {
        return skip("what_an_interrupted_apply_could_not_take", "it takes git");
    }
    for user in people() {
        for next in [&["ps", "--all"][..], &["run", "--", "true"], &["apply"]] {
            let stage = Stage::new(user);
            host(&stage, BEFORE);
            work(&stage, &format!("{CHANGES} >&2"));
            let id = sessions(&stage).remove(0);
            let journal = stage.state().join("review").join(&id).join("journal");
            std::fs::write(&journal, r#"{"steps":[],"commits":true}"#).unwrap();
            stage.own(&journal);
            host(&stage, "git commit -q --allow-empty -m mine");
            let said = pinfold(&stage, next).unwrap().1;
            assert!(said.contains(&format!("finished an `apply` of session {id}")), "{said}");
            let kept = format!("kept as refs/pinfold/{id}/heads/main");
            assert!(said.contains(&kept), "{next:?}: {said}");
            assert!(!pinfold(&stage, &["ps", "--all"]).unwrap().1.contains("finished"));
        }
    }
}

#[test]
fn a_session_whose_supervisor_was_killed_can_be_reviewed() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "echo a >a");
        let marker = format!("7{}", std::process::id());
        let script = format!("echo x >>a; echo n >n; exec sleep {marker}");
        let mut run = stage.pinfold(&["run", "--workspace", "overlay", "--", "sh", "-c", &script]);
        let mut run = run.spawn().unwrap();
        let sleeps = || !processes_with(&format!("sleep\0{marker}")).is_empty();
        while !sleeps() {
            std::thread::yield_now();
        }
        run.kill().unwrap();
        run.wait().unwrap();
        while sleeps() {
            std::thread::yield_now();
        }
        let (list, _) = pinfold(&stage, &["ps", "--all"]).unwrap();
        assert!(list.contains("to review"), "{list}");
        let layer = format!(
            "ls -i $(find {}/home/.local/state/pinfold/review -name n) | cut -d' ' -f1",
            stage.path("").display()
        );
        let of_layer = host(&stage, &layer);
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(host(&stage, "cat a n"), "a\nx\nn\n");
        // A program of the session may live on for a moment: it has no file of the workspace's.
        let of_workspace = host(&stage, "ls -i n | cut -d' ' -f1");
        assert!(!of_layer.trim().is_empty() && of_layer != of_workspace, "{of_layer}");
    }
}

/// A program of a killed session that still runs could change what was judged a moment before.
#[test]
fn link_that_a_killed_session_changes_during_an_apply_is_not_taken() {
    for user in people() {
        let (mut refused, mut taken) = (0, 0);
        for _ in 0..12 {
            let stage = Stage::new(user);
            work(&stage, "mkdir a; for n in $(seq 40); do ln -s target l$n; done; : >target");
            let layers = stage.state().join("review").join(sessions(&stage).remove(0));
            // As if its supervisor had been killed.
            std::fs::remove_file(layers.join("ended")).unwrap();
            let upper = layers.join("layers/upper");
            let script = "while :; do for n in $(seq 40); do ln -sfn /etc/passwd l$n; done; \
                          for n in $(seq 40); do ln -sfn target l$n; done; done";
            let mut change = stage.command("sh");
            let mut change = change.current_dir(upper).args(["-c", script]).spawn().unwrap();
            let applied = pinfold(&stage, &["apply"]);
            change.kill().unwrap();
            change.wait().unwrap();
            let links = host(&stage, "for n in $(seq 40); do readlink l$n || :; done");
            assert!(!links.contains("passwd"), "{applied:?}: {links}");
            match applied {
                Ok(_) => taken += 1,
                Err(error) => {
                    assert!(error.contains("at the same time") || error.contains("l"), "{error}");
                    assert!(!error.contains("panicked"), "{error}");
                    refused += 1;
                }
            }
        }
        println!("{refused} refused, {taken} taken");
    }
}

#[test]
fn a_record_that_was_lost_hides_no_other_session() {
    for user in people() {
        let stage = Stage::new(user);
        work(&stage, "echo 1 >first");
        let lost = stage.state().join("review").join(sessions(&stage).remove(0)).join("record");
        work(&stage, "echo 2 >second");
        std::fs::write(lost, "").unwrap();
        let (shown, stderr) = pinfold(&stage, &["diff", "--name-only"]).unwrap();
        assert_eq!(shown, "second\n");
        assert!(stderr.contains("note: "), "{stderr}");
        assert_eq!(sessions(&stage).len(), 2, "what was changed is still there");
    }
}

/// Runs a line as a user in a mount namespace of root's making, so that mounts go with it.
fn with_mount(stage: &Stage, user: User, mount: &str, line: &str) -> (String, String) {
    let root = User { uid: 0, gid: 0 };
    let line = format!(
        "{mount} && exec setpriv --reuid {} --regid {} --clear-groups sh -c '{line}'",
        user.uid, user.gid
    );
    let mut shell = root.command("unshare");
    shell.args(["-m", "sh", "-c", &line]).current_dir(stage.base());
    let output = shell.env("HOME", stage.path("home")).stdin(Stdio::null()).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), super::errors(&output))
}

#[test]
fn a_full_disk_changes_nothing() {
    if !rustix::process::geteuid().is_root() || !installed("unshare") || !installed("setpriv") {
        return skip("a_full_disk_changes_nothing", "it takes root, unshare and setpriv");
    }
    for user in people() {
        let stage = Stage::new(user);
        let pinfold = executable();
        let mount = format!(
            "mount -t tmpfs -o size=1m,mode=755,uid={},gid={} full {}",
            user.uid,
            user.gid,
            stage.workspace().display()
        );
        let line = format!(
            "cd ws; echo a >a; {pinfold} run --workspace overlay -- sh -c \"echo x >>a; head -c 4m /dev/zero | tr x y >big; tr a b </dev/zero | head -c 3m >big; rm -f none\"; \
             {pinfold} apply; echo status $?; ls -A; cat a; {pinfold} apply a; cat a"
        );
        let (shown, stderr) = with_mount(&stage, user, &mount, &line);
        assert!(stderr.contains("nothing was taken over: No space left"), "{stderr}");
        assert_eq!(shown, "status 1\na\na\na\nx\n", "{stderr}");
    }
}

#[test]
fn a_full_layer_is_the_sessions_own_affair() {
    if !rustix::process::geteuid().is_root() || !installed("unshare") || !installed("setpriv") {
        return skip("a_full_layer", "it takes root, unshare and setpriv");
    }
    for user in people() {
        let stage = Stage::new(user);
        let pinfold = executable();
        let mount = format!(
            "mkdir -p {state} && mount -t tmpfs -o size=2m,mode=700,uid={},gid={} full {state}",
            user.uid,
            user.gid,
            state = stage.path("tmp").display()
        );
        let line = format!(
            "cd ws; export XDG_STATE_HOME={}; {pinfold} run --workspace overlay -- sh -c \"echo x >x; head -c 8m /dev/zero >big || echo full; rm big\"; \
             {pinfold} apply; ls -A; cat x",
            stage.path("tmp").display()
        );
        let (shown, stderr) = with_mount(&stage, user, &mount, &line);
        if stderr.contains("takes one of the two file systems") {
            skip("a_full_layer", "tmpfs has no attributes of users here (Linux 6.6)");
            continue;
        }
        assert_eq!(shown, "full\nx\nx\n", "{stderr}");
    }
}

#[test]
fn a_session_that_fills_the_state_directory_leaves_nothing_that_runs() {
    if !rustix::process::geteuid().is_root() || !installed("unshare") || !installed("setpriv") {
        return skip(
            "a_session_that_fills_the_state_directory",
            "it takes root, unshare and setpriv",
        );
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        let pinfold = executable();
        let state = stage.path("tmp");
        let mount = format!(
            "mkdir -p {state} && mount -t tmpfs -o size=2m,mode=700,uid={},gid={} full {state}",
            user.uid,
            user.gid,
            state = state.display()
        );
        let line = format!(
            "cd ws; export XDG_STATE_HOME={}; {pinfold} run -- sh -c \"echo evil >.envrc; git init -q sub; cat /dev/zero >.git/big\"; \
             ls -A | grep -v shut; ls -A sub/.git* | grep HEAD",
            state.display()
        );
        let (shown, stderr) = with_mount(&stage, user, &mount, &line);
        assert!(shown.contains(".envrc.pinfold-quarantine\n"), "{shown}{stderr}");
        assert!(!shown.contains(".envrc\n") && !shown.contains("\nHEAD\n"), "{shown}{stderr}");
        assert!(stderr.contains("so it was renamed to .envrc.pinfold-quarantine"), "{stderr}");
    }
}
