//! What a hostile session leaves, and who else may look.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use pinfold_testkit::{Stage, executable, installed, people, skip};

use super::{host, pinfold, sessions, work};

#[test]
fn nothing_is_written_through_a_link() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "mkdir -p dir/sub; echo a >dir/a; echo target >../other/target; echo f >file");
        // The session's own links are links, whatever they name.
        work(
            &stage,
            "ln -s ../other out; rm file; ln -s ../other/target file; echo x >>dir/a; echo n >dir/sub/n; mkdir new; echo y >new/y",
        );
        // Somebody puts links in the way before it is applied.
        host(&stage, "mv dir dir-before; ln -s ../other dir; ln -s ../other new");
        pinfold(&stage, &["apply"]).unwrap_err();
        pinfold(&stage, &["apply", "--protected", "out", "file"]).unwrap();
        assert_eq!(
            host(&stage, "readlink out file; cat ../other/target"),
            "../other\n../other/target\ntarget\n"
        );
        pinfold(&stage, &["apply", "--overwrite"]).unwrap();
        assert_eq!(
            host(&stage, "ls ../other; cat dir/a dir/sub/n new/y; cat ../other/target"),
            "target\na\nx\nn\ny\ntarget\n"
        );
    }
}

#[test]
fn special_files_stay_behind_and_setuid_bits_are_dropped() {
    if !installed("python3") {
        return skip("what_is_no_file_stays_behind", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        work(
            &stage,
            "mkfifo fifo; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"; \
             cp /bin/true setuid; ! chmod 6755 setuid 2>/dev/null; mknod device c 1 3 2>/dev/null || true; mknod white c 0 0 2>/dev/null || true; \
             mkdir closed; echo x >closed/x; chmod 000 closed; echo y >unreadable; chmod 000 unreadable; \
             python3 -c \"import os; os.setxattr('setuid', 'user.overlay.opaque', b'y')\" 2>/dev/null || true; \
             mkdir -p deep; cd deep; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done; echo z >z",
        );
        // Inside no such bit can be set; here it is put where a session would have to put it.
        host(&stage, "chmod 6755 ../home/.local/state/pinfold/review/*/layers/upper/setuid");
        let (patch, _) = pinfold(&stage, &["diff"]).unwrap();
        assert!(patch.contains(" b/setuid\n"), "{patch}");
        assert!(!patch.contains("fifo") && !patch.contains("socket"), "{patch}");
        let (_, notes) = pinfold(&stage, &["diff", "--name-only"]).unwrap();
        assert!(notes.contains("setuid: `apply` takes no set-user-id"), "{notes}");
        let (_, stderr) = pinfold(&stage, &["apply"]).unwrap();
        assert!(stderr.contains("left: fifo: it is not a file"), "{stderr}");
        assert!(stderr.contains("left: socket: it is not a file"), "{stderr}");
        assert_eq!(
            host(&stage, "stat -c %a setuid; ls -d fifo socket device white 2>/dev/null || true"),
            "755\n"
        );
        assert!(stderr.contains("it is too deep"), "{stderr}");
        if !user.is_root() {
            assert!(stderr.contains("left: closed: it cannot be read"), "{stderr}");
            assert!(stderr.contains("left: unreadable: it cannot be read"), "{stderr}");
        }
        pinfold(&stage, &["discard"]).unwrap();
        assert_eq!(sessions(&stage), Vec::<String>::new());
    }
}

#[test]
fn nobody_else_can_look_into_a_layer() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "chmod 777 .");
        work(&stage, "echo secret >x; chmod 666 x");
        let session = sessions(&stage).remove(0);
        for path in ["review", &format!("review/{session}"), &format!("review/{session}/layers")] {
            let mode = std::fs::metadata(stage.state().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{path}");
        }
    }
}

#[test]
fn a_session_sees_neither_its_layer_nor_that_of_others() {
    for user in people() {
        let stage = Stage::new(user);
        work(&stage, "echo x >x");
        let state = stage.state();
        let seen = work(
            &stage,
            &format!(
                "grep overlay /proc/self/mountinfo; ls {} 2>&1 || true; \
                 find / -name upper -not -path '/proc/*' 2>/dev/null || true",
                state.display()
            ),
        );
        assert!(seen.contains("No such file"), "{seen}");
        assert!(!seen.contains("review") && !seen.contains("/upper\n"), "{seen}");
    }
}

#[test]
fn a_workspace_with_other_file_systems_in_it_is_refused() {
    if !rustix::process::geteuid().is_root() || !installed("unshare") {
        return skip("a_workspace_with_other_file_systems_in_it", "it takes root and unshare");
    }
    let stage = Stage::new(people().remove(0));
    let line = format!(
        "mkdir 'in side' && mount -t tmpfs inner 'in side' && exec {} run --workspace overlay -- true",
        executable()
    );
    let output = stage.command("unshare").args(["-m", "sh", "-c", &line]).output().unwrap();
    let stderr = super::errors(&output);
    assert!(stderr.contains("in side is mounted in it"), "{stderr}");
    assert_eq!(sessions(&stage), Vec::<String>::new());
}

/// Writes to whatever appears in the workspace that another session's `apply` could have put there.
const CHANGE_STAGED: &str = r#"
import os
print("up", flush=True)
seen = set()
while not os.path.exists("done"):
    for name in os.listdir("."):
        if not name.startswith(".pinfold-"): continue
        try: files = [f"{name}/{file}" for file in os.listdir(name)]
        except OSError: continue
        for file in set(files) - seen:
            try:
                if "good" in open(file).read(): open(file, "w").write("changed\n")
                seen.add(file)
            except OSError: pass
"#;

#[test]
fn live_session_changes_nothing_that_is_taken_over_of_another_one() {
    if !installed("python3") {
        return skip("live_session_changes_nothing", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "echo {} >.mcp.json");
        work(
            &stage,
            "echo good >.mcp.json; mkdir many; for n in $(seq 2000); do echo $n >many/$n; done",
        );
        let mut live = stage.pinfold(&["run", "--", "python3", "-c", CHANGE_STAGED]);
        let mut live = live.stdout(Stdio::piped()).spawn().unwrap();
        live.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        pinfold(&stage, &["apply", "--protected"]).unwrap();
        assert_eq!(host(&stage, "cat .mcp.json; : >done"), "good\n");
        assert!(live.wait().unwrap().success());
    }
}
