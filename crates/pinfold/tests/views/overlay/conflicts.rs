//! What others change while a session works, or before it is applied, is not lost.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use pinfold_testkit::{Stage, people};

use super::{host, pinfold, sessions, work};

const BEFORE: &str = "for name in a b c d e; do echo $name >$name; done; mkdir dir; echo f >dir/f";
const CHANGES: &str =
    "echo inside >>a; rm b; echo inside >new; rm -r dir; echo inside >>d; touch e";

/// Asserts that applying is refused for these and changes nothing.
fn refused(stage: &Stage, conflicts: &[&str]) {
    let before = host(stage, super::LISTING);
    let stderr = pinfold(stage, &["apply"]).unwrap_err();
    for conflict in conflicts {
        assert!(stderr.lines().any(|line| line.trim() == *conflict), "{conflict}: {stderr}");
    }
    assert_eq!(stderr.matches("\n  ").count(), conflicts.len(), "{stderr}");
    assert_eq!(host(stage, super::LISTING), before);
}

#[test]
fn changes_after_the_session_are_found() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        work(&stage, CHANGES);
        host(
            &stage,
            "echo host >>a; echo host >>b; echo host >new; echo host >dir/more; rm d; echo host >>e",
        );
        refused(&stage, &["changed: a", "changed: b", "removed: d", "made: dir/more", "made: new"]);
        let (shown, notes) = pinfold(&stage, &["diff"]).unwrap();
        assert!(notes.contains("a: also changed outside of the session"), "{notes}");
        assert!(shown.contains("-host\n+inside\n"), "{shown}");
        pinfold(&stage, &["apply", "--overwrite"]).unwrap();
        assert_eq!(
            host(&stage, "cat a new d; ls"),
            "a\ninside\ninside\nd\ninside\na\nc\nd\ne\nnew\n"
        );
        assert_eq!(host(&stage, "cat e"), "e\nhost\n", "the session never changed it");
        assert_eq!(sessions(&stage), Vec::<String>::new());
    }
}

#[test]
fn changes_during_the_session_are_found() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        let script = format!("echo ready; read line; {CHANGES}; echo other >unrelated");
        let mut run = stage.pinfold(&["run", "--workspace", "overlay", "--", "sh", "-c", &script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(run.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        // The session sees what the host changes before it touches it, and still the conflict is
        // reported.
        host(&stage, "echo host >>a; rm d; echo host >next; mv c new; echo f2 >>dir/f");
        drop(run.stdin.take());
        run.wait().unwrap();
        refused(&stage, &["changed: a", "removed: d", "changed: dir/f", "made: new"]);
        pinfold(&stage, &["apply", "unrelated", "b"]).unwrap();
        assert_eq!(
            host(&stage, "cat unrelated a next; ls"),
            "other\na\nhost\nhost\na\ndir\ne\nnew\nnext\nunrelated\n"
        );
    }
}

#[test]
fn directory_that_the_host_removed_is_made_again_only_with_overwrite() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        work(&stage, "echo inside >>dir/f; mkdir dir/g; echo h >dir/g/h");
        host(&stage, "rm -r dir");
        let stderr = pinfold(&stage, &["apply"]).unwrap_err();
        assert!(stderr.contains("removed: dir\n") && stderr.contains("removed: dir/f"), "{stderr}");
        pinfold(&stage, &["apply", "--overwrite"]).unwrap();
        assert_eq!(host(&stage, "cat dir/f dir/g/h"), "f\ninside\nh\n");
    }
}

#[test]
fn another_workspace_in_its_place_is_not_changed() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        work(&stage, CHANGES);
        let session = sessions(&stage).remove(0);
        std::fs::rename(stage.workspace(), stage.path("moved")).unwrap();
        std::fs::create_dir(stage.workspace()).unwrap();
        stage.own(&stage.workspace());
        host(&stage, BEFORE);
        for command in ["diff", "apply"] {
            let stderr = pinfold(&stage, &[command]).unwrap_err();
            assert!(stderr.contains("another one has been put in its place"), "{stderr}");
        }
        pinfold(&stage, &["discard", &session[..6]]).unwrap();
        assert_eq!(host(&stage, "cat a"), "a\n");
    }
}

#[test]
fn a_session_that_runs_is_not_applied() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "echo x >x; echo ready; read line";
        let mut run = stage.pinfold(&["run", "--workspace", "overlay", "--", "sh", "-c", script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        for command in ["apply", "discard"] {
            let stderr = pinfold(&stage, &[command]).unwrap_err();
            assert!(stderr.contains("still runs"), "{stderr}");
        }
        let (shown, _) = pinfold(&stage, &["diff", "--name-only"]).unwrap();
        assert_eq!(shown, "x\n");
        let (live, _) = pinfold(&stage, &["ps"]).unwrap();
        assert!(live.contains("runs") && live.contains("read line"), "{live}");
        drop(run.stdin.take());
        run.wait().unwrap();
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(host(&stage, "cat x"), "x\n");
    }
}
