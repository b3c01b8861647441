//! The queue as its user sees it.

use pinfold_testkit::people;

use crate::scene::{Scene, printed};

#[test]
fn tasks_are_worked_on_in_the_order_of_dependencies_and_by_several_jobs() {
    for user in people() {
        let scene = Scene::new(user);
        let first = scene.add("echo 1 >first", &["--title", "the first"]);
        let second = scene.add("echo 2 >second", &["--depends", &first[..8]]);
        let third = scene.add("echo 3 >third", &[]);
        let listed = printed(&scene.run(&["task", "ls"]));
        assert!(listed.contains("waiting") && listed.contains("the first"), "{listed}");
        let output = scene.run(&["work", "--jobs", "2"]);
        assert!(output.status.success(), "{}", printed(&output));
        for id in [&first, &second, &third] {
            assert_eq!(scene.ended(id).0, "completed");
        }
        assert_eq!(
            printed(&scene.run(&["task", "ls"])),
            "pinfold: no tasks are queued or worked on\n"
        );
    }
}

#[test]
fn task_file_says_what_options_do() {
    for user in people() {
        let scene = Scene::new(user);
        let file = "---\ntitle: Mend it\nagent: script\nbranch: feat/mended\nverify:\n  - sh tests/check.sh\n---\necho right >answer\n";
        scene.stage.write("ws/task.md", file);
        let output = scene.run(&["task", "add", "../task.md"]);
        assert!(output.status.success(), "{}", printed(&output));
        let said = scene.work();
        assert_eq!(scene.git(&["show", "feat/mended:answer"]), "right", "{said}");
    }
}

#[test]
fn task_that_failed_is_retried_and_removed() {
    for user in people() {
        let scene = Scene::new(user);
        let id = scene.add("exit 1", &[]);
        scene.work();
        assert!(scene.run(&["task", "retry", &id]).status.success());
        assert_eq!(scene.ended(&id).0, "queued");
        let refused = scene.run(&["task", "rm", &id]);
        assert!(!refused.status.success(), "{}", printed(&refused));
        scene.work();
        assert_eq!(scene.show(&id)["results"].as_array().unwrap().len(), 2);
        assert!(scene.run(&["task", "rm", &id]).status.success());
        let gone = printed(&scene.run(&["task", "show", &id]));
        assert!(gone.contains("no task"), "{gone}");
    }
}
