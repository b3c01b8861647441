//! What decides whether a result is accepted.

use pinfold_testkit::people;

use crate::scene::{Scene, printed};

#[test]
fn result_that_fails_is_worked_on_again_with_the_output_and_then_accepted() {
    for user in people() {
        let scene = Scene::new(user);
        // The second prompt holds the output of what failed.
        let script =
            "case $1 in *'no an'swer*) echo right >answer ;; *) echo wrong >answer ;; esac";
        let verify = "sh tests/check.sh || { printf 'no%sanswer' ' '; exit 3; }";
        let id = scene.add(script, &["--verify", verify]);
        let said = scene.work();
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
        let output = scene.show(&id)["results"][0]["output"].clone();
        assert_eq!(
            (output["iterations"].as_u64(), output["steps"][0]["status"].as_u64()),
            (Some(2), Some(0))
        );
        let branch = format!("task/{}", &id[..8]);
        assert_eq!(scene.git(&["show", &format!("{branch}:answer")]), "right");
        // Nothing but the branch is left.
        assert_eq!(scene.left(), (vec!["main".to_owned(), branch], vec!["repo".to_owned()]));
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        let diff = printed(&scene.run(&["task", "diff", &id[..6]]));
        assert!(diff.contains("+right"), "{diff}");
        let applied = scene.run(&["task", "apply", &id]);
        assert!(applied.status.success(), "{}", printed(&applied));
        assert_eq!(scene.git(&["show", "HEAD:answer"]), "right");
    }
}

#[test]
fn result_that_never_passes_is_kept_on_the_branch_of_its_attempt() {
    for user in people() {
        let scene = Scene::new(user);
        let id = scene.add(
            "date +%N >>answer; sleep 0.01",
            &["--verify", "sh tests/check.sh", "--iterations", "2"],
        );
        let said = scene.work();
        let ended = scene.ended(&id);
        assert_eq!(
            (ended.0.as_str(), ended.1.as_str()),
            ("failed", "verification_failed"),
            "{said}"
        );
        let branch = format!("task/{}.attempt-1", &id[..8]);
        assert_eq!(scene.left(), (vec!["main".to_owned(), branch], vec!["repo".to_owned()]));
    }
}

#[test]
fn iteration_that_changes_nothing_is_the_last() {
    for user in people() {
        let scene = Scene::new(user);
        let id = scene.add("echo I am done, all tests pass", &["--verify", "sh tests/check.sh"]);
        let said = scene.work();
        assert_eq!(scene.ended(&id).1, "no_progress", "{said}");
        assert_eq!(scene.left(), (vec!["main".to_owned()], vec!["repo".to_owned()]));
    }
}

#[test]
fn sealed_tests_decide_and_the_agent_never_sees_them() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("sealed/secret-test.sh", "grep -q right answer && echo sealed-ran\n");
        let sealed = scene.stage.path("sealed");
        let script =
            format!("ls {0} 2>/dev/null && cp {0}/* .; echo right >answer", sealed.display());
        let options = ["--verify", "sh secret-test.sh", "--sealed", sealed.to_str().unwrap()];
        let id = scene.add(&script, &options);
        let said = scene.work();
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
        let files = scene.git(&["ls-tree", "--name-only", &format!("task/{}", &id[..8])]);
        assert_eq!(files, "answer\ntests");
        let log = printed(&scene.run(&["task", "logs", &id]));
        assert!(log.contains("sealed-ran"), "{log}");
    }
}

#[test]
fn result_without_verification_is_said_not_to_be_verified() {
    for user in people() {
        let scene = Scene::new(user);
        let done = scene.add("echo right >answer", &[]);
        let failed = scene.add("echo out of luck; exit 7", &[]);
        let said = scene.work();
        assert_eq!(scene.ended(&done).0, "completed", "{said}");
        assert_eq!(scene.ended(&failed).1, "agent_failed", "{said}");
        let shown = printed(&scene.run(&["task", "show", &done]));
        assert!(shown.contains("not verified"), "{shown}");
        let shown = printed(&scene.run(&["task", "show", &failed]));
        assert!(shown.contains("out of luck"), "{shown}");
    }
}

#[test]
fn branch_that_others_moved_or_have_checked_out_stays() {
    for user in people() {
        let scene = Scene::new(user);
        scene.git(&["branch", "moved"]);
        let script = "echo right >answer";
        let checked_out = scene.add(script, &["--branch", "main"]);
        let said = scene.work();
        assert_eq!(scene.ended(&checked_out).0, "completed", "{said}");
        let shown = printed(&scene.run(&["task", "show", &checked_out]));
        assert!(shown.contains(".attempt-1, not verified"), "{shown}");
        assert!(said.contains("main is checked out"), "{said}");
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        let kept = format!("task/{}.attempt-1:answer", &checked_out[..8]);
        assert_eq!(scene.git(&["show", &kept]), "right");
        // An existing branch goes on from where it is.
        let moved = scene.add("echo more >more", &["--branch", "moved"]);
        scene.work();
        assert_eq!(scene.ended(&moved).0, "completed");
        assert_eq!(scene.git(&["show", "moved:more"]), "more");
    }
}
