//! What is kept, what is removed, and what is shown of it.

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use pinfold_testkit::snapshot::{BASE, commands, possible, repository};
use pinfold_testkit::{Stage, people};

use super::{build, cache, kept, refused, said, session, stderr};

fn snapshot(stage: &Stage, args: &[&str]) -> Output {
    stage.pinfold(&["snapshot"]).args(args).output().unwrap()
}

#[test]
fn of_a_repository_the_current_snapshot_and_one_old_are_kept() {
    if !possible("of_a_repository_the_current_snapshot_and_one_old_are_kept") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let list = || said(&snapshot(&stage, &["ls", "--json"]));
        let mut last = String::new();
        for turn in 0..4 {
            commands(&stage, &[&format!("echo {turn} >/opt/turn")]);
            said(&build(&stage));
            let ids = kept(&stage, "snapshots");
            assert_eq!(ids.len(), 2.min(turn + 1), "turn {turn}");
            assert!(last.is_empty() || ids.contains(&last), "the one before it");
            let now: Vec<String> = list()
                .lines()
                .filter_map(|line| line.trim().strip_prefix("\"id\": \""))
                .map(|id| id[..64].to_owned())
                .collect();
            last.clone_from(&now[0]);
        }
        assert_eq!(session(&stage, "cat /opt/turn"), "3\n");
        assert_eq!(said(&snapshot(&stage, &["prune"])), "", "nothing is left to do");
        let pruned = said(&snapshot(&stage, &["prune", "--all"]));
        assert_eq!(pruned.matches("snapshot ").count(), 2, "{pruned}");
        assert_eq!(pruned.matches("base sha256:").count(), 1, "{pruned}");
        assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new());
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new());
    }
}

#[test]
fn snapshot_in_use_is_not_removed() {
    if !possible("snapshot_in_use_is_not_removed") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(&stage, &["echo used >/opt/mark"]);
        let mut run =
            stage.pinfold(&["run", "--", "sh", "-c", "echo on; cat; cat /opt/mark /etc/passwd"]);
        let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "on");
        let output = snapshot(&stage, &["prune", "--all"]);
        assert_eq!(said(&output), "");
        let stderr = stderr(&output);
        assert_eq!(
            stderr.matches("is in use and stays").count(),
            1,
            "and its base is needed: {stderr}"
        );
        drop(run.stdin.take());
        assert_eq!(lines.next().unwrap(), "used");
        assert!(run.wait().unwrap().success());
        said(&snapshot(&stage, &["prune", "--all"]));
        assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new());
    }
}

#[test]
fn snapshots_are_listed_and_inspected() {
    if !possible("snapshots_are_listed_and_inspected") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        assert_eq!(said(&snapshot(&stage, &["ls"])), "");
        repository(
            &stage,
            &format!(r#"{BASE}, "setupCommands": ["true"], "allowedHosts": ["x.example"]"#),
        );
        let here = said(&snapshot(&stage, &["inspect"]));
        for line in [
            "base        ../base.tar",
            "command     true",
            "host        x.example",
            "registry    deb.debian.org",
        ] {
            assert!(here.lines().any(|one| one == line), "{here}");
        }
        let built = said(&build(&stage));
        let trees: Vec<&str> = built.lines().collect();
        let id = kept(&stage, "snapshots").remove(0);
        let base = cache(&stage, "bases").join(&kept(&stage, "bases")[0]).join("tree");
        let tree = cache(&stage, "snapshots").join(&id).join("tree");
        assert_eq!(trees, [tree.to_str().unwrap(), base.to_str().unwrap()]);
        let list = said(&snapshot(&stage, &["ls"]));
        assert!(list.starts_with(&id[..12]) && list.contains("1 commands"), "{list}");
        let shown = said(&snapshot(&stage, &["inspect", &id[..8]]));
        assert!(shown.contains(&format!("hash        {id}")), "{shown}");
        assert!(shown.contains("build.log") && shown.contains("host        x.example"), "{shown}");
        let json = said(&snapshot(&stage, &["inspect", &id, "--json"]));
        assert!(json.contains(&format!("\"id\": \"{id}\"")), "{json}");
        assert!(
            refused(&snapshot(&stage, &["inspect", "ffff"])).contains("no snapshot whose hash")
        );
    }
}
