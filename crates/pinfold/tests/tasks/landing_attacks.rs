//! Results that reach more by landing than what was accepted, and landings that are killed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pinfold_testkit::{people, processes_with};

use crate::scene::{Scene, printed, until};

const PASSES: [&str; 2] = ["--verify", "true"];

fn land(scene: &Scene, code: i32) -> String {
    let output = scene.run(&["task", "land"]);
    let said = printed(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn accepted(scene: &Scene, script: &str, options: &[&str]) -> String {
    let id = scene.add(script, options);
    let said = scene.work();
    assert_eq!(scene.ended(&id).0, "completed", "{said}");
    id
}

fn branch(id: &str) -> String {
    format!("task/{}", &id[..8])
}

/// Writes a program.
fn program(scene: &Scene, name: &str, script: &str) {
    scene.stage.write(name, script);
    fs::set_permissions(scene.stage.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn commit_that_was_accepted_lands_whatever_stands_in_its_place() {
    for user in people() {
        let scene = Scene::new(user);
        let id = accepted(&scene, "echo right >answer", &["--verify", "sh tests/check.sh"]);
        let good = scene.git(&["rev-parse", &branch(&id)]);
        // Somebody puts other commits in the place of the result, of its base and of the merge.
        let tree = scene.git(&["rev-parse", "main^{tree}"]);
        let evil = scene.git(&["commit-tree", "-p", "main", "-m", "evil", &tree]);
        scene.git(&["update-ref", &format!("refs/heads/{}", branch(&id)), &evil]);
        scene.git(&["update-ref", &format!("refs/heads/{}.merge-1", branch(&id)), &evil]);
        scene.git(&["replace", &good, &evil]);
        let orphan = scene.git(&["commit-tree", "-m", "orphan", &tree]);
        scene.git(&["replace", "main", &orphan]);
        scene.stage.write("ws/repo/.git/info/grafts", format!("{good}\n"));
        let said = land(&scene, 0);
        let git = |args: &[&str]| scene.git(&[&["--no-replace-objects"], args].concat());
        fs::remove_file(scene.stage.path("ws/repo/.git/info/grafts")).unwrap();
        assert_eq!(git(&["rev-parse", "main^2"]), good, "{said}");
        assert_eq!(git(&["show", "main:answer"]), "right");
        assert_eq!(git(&["rev-parse", &branch(&id)]), evil);
    }
}

/// git moves what the name stands for, and the checkout of that would show the result as undone.
#[test]
fn branch_that_is_another_name_for_one_is_not_landed_on() {
    for user in people() {
        let scene = Scene::new(user);
        let id = accepted(&scene, "echo right >answer", &["--verify", "sh tests/check.sh"]);
        let before = scene.git(&["rev-parse", "main"]);
        scene.git(&["symbolic-ref", "refs/heads/trunk", "refs/heads/main"]);
        let output = scene.run(&["task", "land", &id, "--onto", "trunk"]);
        let said = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("trunk is another name for main: say --onto main"), "{said}");
        assert_eq!(scene.git(&["rev-parse", "main"]), before);
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn merge_that_changes_what_tools_run_waits_for_the_user() {
    for user in people() {
        let scene = Scene::new(user);
        // The user has the file on a branch, so a result with it is nothing new, and is accepted.
        scene.git(&["checkout", "-q", "-b", "mine"]);
        scene.stage.write("ws/repo/.vscode/tasks.json", "{}\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "mine"]);
        scene.git(&["checkout", "-q", "main"]);
        let script =
            "mkdir .vscode; echo '{}' >.vscode/tasks.json; git add -A; git commit -qm planted";
        let id = accepted(&scene, script, &PASSES);
        // It is new to the branches that are there by now.
        scene.git(&["branch", "-q", "-D", "mine", &branch(&id)]);
        let main = scene.git(&["rev-parse", "main"]);
        let said = land(&scene, 4);
        assert!(said.contains("tools on this machine run by themselves"), "{said}");
        assert_eq!(scene.git(&["rev-parse", "main"]), main);
        assert!(!scene.repository().join(".vscode/tasks.json").exists());
        let shown = printed(&scene.run(&["task", "show", &id]));
        assert!(shown.contains("merge-waits"), "{shown}");
        // Once the user has taken it, it lands.
        let session = said.split("pinfold accept ").nth(1).unwrap().split('`').next().unwrap();
        let output = scene.run(&["accept", session]);
        assert!(output.status.success(), "{}", printed(&output));
        let output = scene.run(&["task", "land", &id]);
        assert!(output.status.success(), "{}", printed(&output));
        assert_eq!(scene.git(&["show", "main:.vscode/tasks.json"]), "{}");
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        assert!(!scene.left().0.iter().any(|name| name.contains(".merge")));
    }
}

#[test]
fn no_hook_or_filter_of_the_repository_runs() {
    for user in people() {
        let scene = Scene::new(user);
        let hooks = [
            "pre-merge-commit",
            "prepare-commit-msg",
            "commit-msg",
            "post-merge",
            "post-checkout",
            "reference-transaction",
        ];
        program(&scene, "ws/repo/smudge.sh", "#!/bin/sh\n. ./library.sh\n");
        scene.stage.write("ws/repo/library.sh", "cat\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "smudge"]);
        let ran = scene.stage.path("ws/ran");
        let write = format!("#!/bin/sh\necho $0 >>{}; echo $0 >>$PWD/ran\n", ran.display());
        scene.git(&["config", "filter.own.smudge", "./smudge.sh"]);
        scene.git(&["config", "merge.own.driver", "./smudge.sh %A"]);
        let plain = accepted(&scene, "echo right >answer", &PASSES);
        let script = "printf '* filter=own merge=own\\n' >.gitattributes
             echo 'echo planted >>ran; cat' >library.sh; echo x >x";
        let id = accepted(&scene, script, &PASSES);
        for hook in hooks {
            program(&scene, &format!("ws/repo/.git/hooks/{hook}"), &write);
        }
        let main = scene.git(&["rev-parse", "main"]);
        fs::remove_file(&ran).unwrap_or_default();
        let said = land(&scene, 3);
        assert!(said.contains(&format!("{}: landed", &plain[..8])), "{said}");
        assert!(said.contains("have the filter own"), "{said}");
        assert!(!ran.exists() && !scene.repository().join("ran").exists(), "{said}");
        let library = fs::read_to_string(scene.repository().join("library.sh"));
        assert_eq!(library.unwrap(), "cat\n");
        assert_ne!(scene.git(&["rev-parse", "main"]), main);
        fs::remove_dir_all(scene.stage.path("ws/repo/.git/hooks")).unwrap();
        // Where nobody has it checked out, nothing is written but the branch.
        scene.git(&["checkout", "-q", "-b", "other"]);
        land(&scene, 0);
        assert!(scene.git(&["show", "main:library.sh"]).contains("planted"));
        assert!(!scene.git(&["show", &format!("{}:x", branch(&id))]).is_empty());
    }
}

#[test]
fn attributes_of_a_result_do_not_hide_a_conflict() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("ws/repo/answer", "base\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "answer"]);
        accepted(&scene, "echo '* merge=union' >.gitattributes; echo theirs >answer", &PASSES);
        scene.stage.write("ws/repo/answer", "mine\n");
        scene.git(&["commit", "-qam", "mine"]);
        let said = land(&scene, 4);
        assert!(said.contains("conflicts with main in answer"), "{said}");
        assert_eq!(scene.git(&["show", "main:answer"]), "mine");
    }
}

#[test]
fn commit_that_is_moved_in_for_the_verification_does_not_count() {
    for user in people() {
        let scene = Scene::new(user);
        let good = scene.git(&["commit-tree", "-p", "main", "-m", "good", "main^{tree}"]);
        let id =
            accepted(&scene, "echo 1 >first", &["--verify", "[ ! -e mine ] || [ ! -e first ]"]);
        scene.stage.write("ws/repo/mine", "1\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "mine"]);
        let main = scene.git(&["rev-parse", "main"]);
        // Somebody who may move branches moves the one that is verified as soon as it is there.
        let directory = scene.repository().join(".git/refs/heads/task");
        let is_over = AtomicBool::new(false);
        let moved = std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                let next = scene.stage.write("ws/next", format!("{good}\n"));
                while !is_over.load(Ordering::SeqCst) {
                    let names = fs::read_dir(&directory).into_iter().flatten().flatten();
                    let mut names = names.map(|entry| entry.path());
                    let is_verified = |path: &PathBuf| path.to_string_lossy().ends_with("-verify");
                    if let Some(path) = names.find(is_verified) {
                        return fs::rename(&next, path).is_ok();
                    }
                }
                false
            });
            let output = scene.run(&["task", "land"]);
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(output.status.code(), Some(4), "{}", printed(&output));
            mover.join().unwrap()
        });
        assert!(moved, "the branch was never moved");
        assert_eq!(scene.git(&["rev-parse", "main"]), main);
        assert!(printed(&scene.run(&["task", "show", &id])).contains("merge-fails"));
    }
}

#[test]
fn landing_that_is_killed_is_done_again_or_gone_on_with() {
    for user in people() {
        let scene = Scene::new(user);
        let marker = format!("0.0{}{}", std::process::id(), scene.stage.user.uid);
        for (number, delay) in [200, 500, 800, 1200, 1600].into_iter().enumerate() {
            let script = format!("echo {number} >f{number}");
            let id = accepted(&scene, &script, &["--verify", &format!("sleep {marker}")]);
            let mut landing = scene.command(&["task", "land"]);
            let landing = landing.stdout(Stdio::null()).stderr(Stdio::null());
            let mut landing = landing.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            landing.kill().unwrap();
            landing.wait().unwrap();
            until("all processes are gone", || processes_with(&id).is_empty());
            let mut said = Vec::new();
            until("it has landed", || {
                let output = scene.run(&["task", "land", &id]);
                said.push(printed(&output));
                assert!(said.len() < 4, "{said:#?}");
                output.status.success()
            });
            assert_eq!(scene.git(&["show", &format!("main:f{number}")]), number.to_string());
            let (branches, next) = scene.left();
            assert!(!branches.iter().any(|name| name.contains(".merge")), "{delay}: {branches:?}");
            assert_eq!(next, ["repo"], "{delay}");
            assert_eq!(scene.git(&["status", "--porcelain"]), "", "{delay}: {said:#?}");
            let merges = scene.git(&["rev-list", "--merges", "--count", "main"]);
            assert_eq!(merges, (number + 1).to_string(), "{delay}: landed twice");
        }
    }
}

/// A git that kills a landing as soon as the branch of the checkout has moved.
const KILLS: &str = r#"#!/bin/sh
PATH=${PATH#*:} git "$@"
status=$?
case "$*" in
*"update-ref -m pinfold "*" refs/heads/main "*)
    kill -9 "$(cat "${0%/bin/git}/landing")" "$PPID"
    ;;
esac
exit "$status"
"#;

/// The user could commit nothing, and the index might be the old one, if nobody finished what the landing began.
#[test]
fn landing_that_is_killed_when_its_branch_has_moved_is_finished() {
    for user in people() {
        let scene = Scene::new(user);
        accepted(&scene, "echo right >answer", &PASSES);
        program(&scene, "kills/bin/git", KILLS);
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", scene.stage.path("kills/bin").display());
        let mut landing = scene.command(&["task", "land"]);
        let mut landing = landing.env("PATH", path).stderr(Stdio::null()).spawn().unwrap();
        scene.stage.write("kills/landing", landing.id().to_string());
        assert_eq!(landing.wait().unwrap().code(), None, "it was not killed");
        let lock = scene.repository().join(".git/index.lock");
        assert!(lock.exists(), "nothing was left");
        let said = land(&scene, 0);
        assert!(!lock.exists(), "{said}");
        assert_eq!(scene.git(&["status", "--porcelain"]), "", "{said}");
        assert_eq!(scene.git(&["show", "main:answer"]), "right");
        assert_eq!(scene.git(&["rev-list", "--merges", "--count", "main"]), "1", "{said}");
    }
}

#[test]
fn landing_that_is_asked_to_end_leaves_the_base_where_it_was() {
    for user in people() {
        let scene = Scene::new(user);
        let marker = format!("30.{}{}", std::process::id(), scene.stage.user.uid);
        let verify = format!(
            "[ -e answer ] && [ -z \"$(git log --format=%s -1 | grep ^Merge)\" ] || sleep {marker}"
        );
        accepted(&scene, "echo right >answer", &["--verify", &verify]);
        let main = scene.git(&["rev-parse", "main"]);
        let mut landing = scene.command(&["task", "land"]);
        let mut landing = landing.stderr(Stdio::piped()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        until("the merge is verified", || !processes_with(&sleeps).is_empty());
        let pid = rustix::process::Pid::from_child(&landing);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(landing.wait().unwrap().code(), Some(130));
        assert!(processes_with(&sleeps).is_empty());
        assert_eq!(scene.git(&["rev-parse", "main"]), main);
        assert!(!scene.left().0.iter().any(|name| name.contains(".merge")));
    }
}

/// `git rebase --abort` would reset the branch, and with it what landed.
#[test]
fn branch_is_not_landed_on_while_its_rebase_is_stopped() {
    for user in people() {
        let scene = Scene::new(user);
        accepted(&scene, "echo right >answer", &PASSES);
        scene.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
        let main = scene.git(&["rev-parse", "main"]);
        scene.git(&["-c", "alias.stop=!git rebase -q -x false HEAD~ || :", "stop"]);
        let said = land(&scene, 3);
        assert!(said.contains("what is checked out in"), "{said}");
        scene.git(&["rebase", "--abort"]);
        assert_eq!(scene.git(&["rev-parse", "main"]), main, "{said}");
        land(&scene, 0);
        assert_eq!(scene.git(&["show", "main:answer"]), "right");
    }
}
