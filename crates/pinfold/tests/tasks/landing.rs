//! The merge queue: `pinfold task land`.

use std::fs;
use std::process::{Output, Stdio};

use pinfold_testkit::{installed, people, processes_with, skip};

use crate::scene::{Scene, printed, until};

const BLOCKED: i32 = 3;
const ATTENTION: i32 = 4;

/// What no test here fails.
const PASSES: [&str; 2] = ["--verify", "true"];

fn land(scene: &Scene, more: &[&str]) -> Output {
    scene.run(&[&["task", "land"], more].concat())
}

/// Has a task land, and returns what was said.
fn lands(scene: &Scene, more: &[&str]) -> String {
    let output = land(scene, more);
    let said = printed(&output);
    assert!(output.status.success(), "{said}");
    said
}

/// Has a task not land, with this exit code, and returns what was said.
fn does_not_land(scene: &Scene, more: &[&str], code: i32) -> String {
    let output = land(scene, more);
    let said = printed(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// Adds a task and has it accepted.
fn accepted(scene: &Scene, script: &str, options: &[&str]) -> String {
    let id = scene.add(script, options);
    let said = scene.work();
    assert_eq!(scene.ended(&id).0, "completed", "{said}");
    id
}

fn state(scene: &Scene, id: &str) -> String {
    scene.show(id)["landing"]["state"].as_str().unwrap_or_default().to_owned()
}

fn branch(id: &str) -> String {
    format!("task/{}", &id[..8])
}

fn commit(scene: &Scene, id: &str) -> String {
    scene.git(&["rev-parse", &branch(id)])
}

/// Asserts that of a landing nothing is left but what it moved.
fn is_tidy(scene: &Scene) {
    let (branches, next) = scene.left();
    assert!(!branches.iter().any(|name| name.contains(".merge")), "{branches:?}");
    assert_eq!(next, ["repo"]);
    assert_eq!(scene.git(&["for-each-ref", "refs/pinfold"]), "");
}

#[test]
fn accepted_results_land_in_order_each_verified_as_merged() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("ws/repo/mine", "not committed\n");
        let first = accepted(
            &scene,
            "echo right >answer; ln -s /etc/passwd link",
            &["--verify", "sh tests/check.sh"],
        );
        let second = accepted(&scene, "mkdir -p deep; echo 2 >deep/second", &PASSES);
        let third = accepted(
            &scene,
            "echo 3 >third",
            &["--depends", &second, "--verify", "[ ! -e answer ] || [ -e deep/second ]"],
        );
        let base = scene.git(&["rev-parse", "main"]);
        let said = lands(&scene, &["--dry-run"]);
        assert_eq!(said.matches("would land on main").count(), 3, "{said}");
        assert_eq!(scene.git(&["rev-parse", "main"]), base);
        is_tidy(&scene);
        let said = lands(&scene, &[]);
        let at = |id: &str| said.find(&format!("{}: landed on main", &id[..8])).unwrap();
        assert!(at(&first) < at(&second) && at(&second) < at(&third), "{said}");
        // The checkout went along, and what the user has not committed stays.
        assert_eq!(scene.git(&["status", "--porcelain"]), "?? mine");
        assert_eq!(fs::read_to_string(scene.repository().join("third")).unwrap(), "3\n");
        assert_eq!(fs::read_to_string(scene.repository().join("mine")).unwrap(), "not committed\n");
        let listed = scene.git(&["log", "--first-parent", "--format=%P", "main"]);
        let parents: Vec<&str> = listed.lines().collect();
        for (id, parents) in [&third, &second, &first].into_iter().zip(&parents) {
            assert_eq!(parents.split_once(' ').unwrap().1, commit(&scene, id));
            assert_eq!(state(&scene, id), "landed");
        }
        assert_eq!(parents[2].split_once(' ').unwrap().0, base);
        is_tidy(&scene);
        let listed = printed(&scene.run(&["task", "ls", "--all"]));
        assert_eq!(listed.matches("landed").count(), 3, "{listed}");
        assert!(lands(&scene, &[]).contains("waits to land"));
        assert!(lands(&scene, &[&first]).contains("has landed before"));
        let log = printed(&scene.run(&["task", "logs", "--landing", &first]));
        assert!(log.contains("== merge\n") && log.contains("== verify: "), "{log}");
    }
}

#[test]
fn result_that_passes_alone_and_fails_merged_does_not_land() {
    for user in people() {
        let scene = Scene::new(user);
        let first = accepted(&scene, "echo 1 >first", &PASSES);
        let second = accepted(&scene, "echo 2 >second", &["--verify", "[ ! -e first ] || exit 7"]);
        let said = does_not_land(&scene, &[], ATTENTION);
        assert!(said.contains("merged, `[ ! -e first ] || exit 7` fails with 7"), "{said}");
        assert_eq!(
            (state(&scene, &first), state(&scene, &second)),
            ("landed".into(), "merge-fails".into())
        );
        assert!(!scene.git(&["ls-tree", "--name-only", "main"]).contains("second"));
        is_tidy(&scene);
        // The same is not tried twice.
        let said = does_not_land(&scene, &[], ATTENTION);
        assert!(said.contains("main is where it was") && !said.contains("verifying"), "{said}");
        scene.git(&["rm", "-q", "first"]);
        scene.git(&["commit", "-q", "-m", "without"]);
        lands(&scene, &[]);
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn result_that_conflicts_is_marked_as_soon_as_the_other_one_landed() {
    for user in people() {
        let scene = Scene::new(user);
        let touches = ["--verify", "true", "--touches", "answer"];
        let first = accepted(&scene, "echo one >answer", &touches);
        let second = accepted(&scene, "echo two >answer", &touches);
        let third = accepted(&scene, "echo 3 >third", &touches);
        let said = lands(&scene, &[&first[..8]]);
        assert!(said.contains(&format!("{}: needs-rebase", &second[..8])), "{said}");
        assert_eq!(
            (state(&scene, &second), state(&scene, &third)),
            ("needs-rebase".into(), "outdated".into())
        );
        let main = scene.git(&["rev-parse", "main"]);
        let said = does_not_land(&scene, &[&second], ATTENTION);
        assert!(said.contains("conflicts with main in answer"), "{said}");
        assert_eq!(scene.git(&["rev-parse", "main"]), main);
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        is_tidy(&scene);
        let shown = printed(&scene.run(&["task", "show", &second]));
        assert!(shown.contains("needs-rebase, branch main at"), "{shown}");
        // Who merges it by hand has landed it.
        scene.git(&["merge", "-q", "-s", "ours", "-m", "by hand", &branch(&second)]);
        assert!(lands(&scene, &[&second]).contains("main has it already"));
        lands(&scene, &[]);
        assert_eq!(state(&scene, &third), "landed");
    }
}

#[test]
fn work_in_the_checkout_is_never_lost_and_says_why_nothing_lands() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("ws/repo/tracked", "base\n");
        scene.stage.write("ws/repo/.gitignore", "ignored\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "tracked"]);
        let script =
            "echo theirs >tracked; echo theirs >new; echo theirs >ignored; git add -f ignored";
        let id = accepted(&scene, script, &["--verify", "touch /tmp/verified"]);
        let main = scene.git(&["rev-parse", "main"]);
        for (name, is_staged) in [
            ("tracked", false),
            ("tracked", true),
            ("new", false),
            ("new", true),
            ("ignored", false),
        ] {
            let path = scene.repository().join(name);
            let before = fs::read_to_string(&path).ok();
            scene.stage.write(&format!("ws/repo/{name}"), "mine\n");
            if is_staged {
                scene.git(&["add", name]);
            }
            let status = scene.git(&["status", "--porcelain", "--ignored"]);
            let said = does_not_land(&scene, &[], BLOCKED);
            assert!(said.contains("is in the way") && said.contains(name), "{name}: {said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "mine\n", "{said}");
            assert_eq!(scene.git(&["status", "--porcelain", "--ignored"]), status, "{said}");
            assert_eq!(scene.git(&["rev-parse", "main"]), main);
            is_tidy(&scene);
            if is_staged {
                scene.git(&["rm", "-qf", "--cached", name]);
            }
            match before {
                Some(before) => {
                    scene.stage.write(&format!("ws/repo/{name}"), &before);
                    scene.git(&["add", name]);
                }
                None => fs::remove_file(&path).unwrap(),
            }
        }
        lands(&scene, &[&id]);
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn files_that_are_as_the_merge_has_them_are_no_obstacle() {
    for user in people() {
        let scene = Scene::new(user);
        let names = ["tracked", "exe cutable", "gone"];
        for name in names {
            scene.stage.write(&format!("ws/repo/{name}"), "base\n");
        }
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "tracked"]);
        let script =
            "echo theirs >tracked; echo theirs >new; chmod +x exe*; rm gone; echo 1 >other";
        accepted(&scene, script, &PASSES);
        // As a landing leaves it that was killed while it wrote files.
        scene.stage.write("ws/repo/tracked", "theirs\n");
        scene.stage.write("ws/repo/new", "theirs\n");
        fs::remove_file(scene.repository().join("gone")).unwrap();
        scene.stage.write("ws/repo/other", "2\n");
        let status = scene.git(&["status", "--porcelain"]);
        assert!(does_not_land(&scene, &[], BLOCKED).contains("other"));
        assert_eq!(scene.git(&["status", "--porcelain"]), status);
        fs::remove_file(scene.repository().join("other")).unwrap();
        lands(&scene, &[]);
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        assert_eq!(scene.git(&["show", "main:new"]), "theirs");
    }
}

#[test]
fn base_that_is_not_checked_out_or_in_a_linked_worktree_moves_as_well() {
    for user in people() {
        let scene = Scene::new(user);
        let first = accepted(&scene, "echo 1 >first", &PASSES);
        let second = accepted(&scene, "echo 2 >second", &PASSES);
        scene.git(&["checkout", "-q", "-b", "other"]);
        let other = scene.git(&["rev-parse", "other"]);
        lands(&scene, &[&first]);
        assert_eq!(scene.git(&["show", "main:first"]), "1");
        assert_eq!(scene.git(&["rev-parse", "HEAD"]), other);
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
        scene.git(&["worktree", "add", "-q", "../linked", "main"]);
        lands(&scene, &[&second]);
        let linked = scene.stage.workspace().join("linked");
        assert_eq!(fs::read_to_string(linked.join("second")).unwrap(), "2\n");
        assert_eq!(scene.git(&["-C", linked.to_str().unwrap(), "status", "--porcelain"]), "");
        // Another branch has to be named.
        let third = accepted(&scene, "echo 3 >third", &PASSES);
        lands(&scene, &["--onto", "main", &third]);
        assert_eq!(scene.git(&["show", "main:third"]), "3");
        let refused = land(&scene, &["--onto", "-x"]);
        assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
    }
}

/// Starts a landing, and returns what it said after `act` was done while its merge was verified.
fn while_verifying(scene: &Scene, marker: &str, act: impl FnOnce()) -> Output {
    let mut landing = scene.command(&["task", "land"]);
    let landing = landing.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let sleeps = format!("sleep\0{marker}");
    until("the merge is verified", || !processes_with(&sleeps).is_empty());
    act();
    landing.wait_with_output().unwrap()
}

#[test]
fn base_that_moves_during_the_verification_stays_and_the_next_landing_merges_again() {
    for user in people() {
        let scene = Scene::new(user);
        let marker = format!("2.{}{}", std::process::id(), scene.stage.user.uid);
        let id = accepted(&scene, "echo 1 >first", &["--verify", &format!("sleep {marker}")]);
        let output = while_verifying(&scene, &marker, || {
            scene.git(&["commit", "-q", "--allow-empty", "-m", "in between"]);
        });
        let said = printed(&output);
        assert_eq!(output.status.code(), Some(BLOCKED), "{said}");
        assert!(said.contains("branch main moved to"), "{said}");
        assert_eq!(scene.git(&["log", "-1", "--format=%s", "main"]), "in between");
        is_tidy(&scene);
        // The same of a branch that nobody has checked out.
        scene.git(&["checkout", "-q", "-b", "other"]);
        let output = while_verifying(&scene, &marker, || {
            let other = scene.git(&["commit-tree", "-p", "main", "-m", "again", "main^{tree}"]);
            scene.git(&["update-ref", "refs/heads/main", &other]);
        });
        assert_eq!(output.status.code(), Some(BLOCKED), "{}", printed(&output));
        assert_eq!(scene.git(&["log", "-1", "--format=%s", "main"]), "again");
        lands(&scene, &[&id]);
        assert_eq!(scene.git(&["show", "main:first"]), "1");
    }
}

#[test]
fn what_was_never_verified_or_depends_on_what_has_not_landed_does_not_land() {
    for user in people() {
        let scene = Scene::new(user);
        let unverified = accepted(&scene, "echo 1 >first", &[]);
        let needed = accepted(&scene, "echo 2 >second", &PASSES);
        let needs = accepted(&scene, "echo 3 >third", &["--depends", &needed, "--verify", "true"]);
        let failed = scene.add("exit 1", &[]);
        scene.work();
        assert!(does_not_land(&scene, &[&unverified], ATTENTION).contains("was never verified"));
        assert!(does_not_land(&scene, &[&needs], BLOCKED).contains("has not landed"));
        assert!(does_not_land(&scene, &[&failed], 1).contains("it is failed"));
        lands(&scene, &[&needed, &needs]);
        assert_eq!(scene.git(&["show", "main:third"]), "3");
        // Elsewhere nothing lands that is for another repository.
        scene.stage.write("ws/elsewhere/x", "");
        let elsewhere = scene.stage.path("ws/elsewhere");
        scene.git(&["-C", elsewhere.to_str().unwrap(), "init", "-q"]);
        let mut command = scene.command(&["task", "land", &unverified]);
        let said = printed(&command.current_dir(elsewhere).output().unwrap());
        assert!(said.contains("another repository"), "{said}");
    }
}

#[test]
fn merge_is_signed_as_the_identity_of_the_task() {
    if !installed("ssh-keygen") {
        return skip("merge_is_signed_as_the_identity_of_the_task", "there is no ssh-keygen");
    }
    for user in people() {
        let scene = Scene::new(user);
        let alice = "ws/repo/.moltnet/alice";
        let key = scene.stage.path(&format!("{alice}/ssh/id_ed25519"));
        let settings = format!(
            "[user]\nname = Alice\nemail = alice@example.com\nsigningKey = {}.pub\n\
             [gpg]\nformat = ssh\n[commit]\ngpgsign = true\n",
            key.display()
        );
        let files = [
            ("moltnet.json", "{}"),
            ("env", ""),
            ("gitconfig", &settings),
            ("ssh/allowed_signers", ""),
        ];
        for (name, content) in files {
            scene.stage.write(&format!("{alice}/{name}"), content);
        }
        scene.stage.write("ws/repo/.git/info/exclude", ".moltnet\n");
        let mut keygen = scene.stage.command("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key);
        assert!(keygen.status().unwrap().success());
        let id = scene.add("echo 1 >first", &["--identity", "alice", "--verify", "true"]);
        let said = scene.work();
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
        let said = lands(&scene, &[]);
        let public = fs::read_to_string(key.with_extension("pub")).unwrap();
        let allowed = scene.stage.write("allowed", format!("alice@example.com {public}"));
        let allowed = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
        let shown = ["-c", &allowed, "log", "-1", "--format=%G? %an %P", "main"];
        let shown = scene.git(&shown);
        assert!(
            shown.starts_with("G Alice ") && shown.matches(' ').count() == 3,
            "{shown}: {said}"
        );
    }
}

#[test]
fn result_that_began_at_no_branch_lands_on_the_only_one_that_has_its_base() {
    for user in people() {
        let scene = Scene::new(user);
        scene.git(&["checkout", "-q", "--detach"]);
        let id = accepted(&scene, "echo right >answer", &PASSES);
        scene.git(&["checkout", "-q", "main"]);
        scene.git(&["branch", "other"]);
        let said = does_not_land(&scene, &[], 1);
        assert!(said.contains("began at main, other or another branch; say --onto"), "{said}");
        scene.git(&["branch", "-D", "-q", "other"]);
        let said = lands(&scene, &[]);
        assert!(said.contains(&format!("{}: landed on main", &id[..8])), "{said}");
        // One that went on from a branch of its own has no other to land on.
        scene.git(&["branch", "own"]);
        accepted(&scene, "echo more >more", &["--branch", "own", "--verify", "true"]);
        let said = does_not_land(&scene, &[], 1);
        assert!(said.contains("began at its own branch; say --onto"), "{said}");
    }
}

#[test]
fn result_without_a_common_ancestor_is_not_accepted_and_lands_nowhere() {
    for user in people() {
        let scene = Scene::new(user);
        let script = "git add -A; git reset -q --hard $(git commit-tree -m orphan $(git write-tree)); echo right >answer";
        let id = scene.add(script, &PASSES);
        let said = scene.work();
        // Everything in it is new, what tools run as well.
        assert_eq!(scene.ended(&id).1, "result_waits", "{said}");
        let other = accepted(&scene, "echo 2 >second", &PASSES);
        let orphan = scene.git(&["commit-tree", "-m", "orphan", "main^{tree}"]);
        scene.git(&["branch", "orphan", &orphan]);
        let output = land(&scene, &["--onto", "orphan", &other]);
        let said = printed(&output);
        assert!(!output.status.success() && said.contains("no commit in common"), "{said}");
        assert_eq!(scene.git(&["rev-parse", "orphan"]), orphan);
        assert!(!scene.left().0.iter().any(|name| name.contains(".merge")), "{:?}", scene.left());
        lands(&scene, &[&other]);
    }
}
