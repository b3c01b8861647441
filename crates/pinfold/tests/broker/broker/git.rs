//! Git that the host runs: what is shown of a push is what goes, and the sandbox knows of it.

use super::{Scene, people_with_git, said};

const GIT: &str = "autoApprove = [{ executable = \"git\" }]";

#[test]
fn a_push_goes_out_and_the_sandbox_knows_of_it() {
    for user in people_with_git("a push") {
        let scene = Scene::with_repository(user, GIT);
        let script = "echo two >>file && git commit -qam two && pinfold-host git push origin main \
                      && git status -sb && git rev-parse HEAD origin/main";
        let output = scene.run(&[], script);
        assert!(output.status.success(), "{}", said(&output));
        let said = said(&output);
        assert!(said.contains("main -> main"), "{said}");
        let heads: Vec<&str> = said.lines().filter(|line| line.len() == 40).collect();
        assert!(heads.len() == 2 && heads[0] == heads[1], "{said}");
        assert_eq!(scene.remote("main").as_deref(), Some(heads[0]));
    }
}

#[test]
fn branches_tags_deletions_force_and_upstreams_are_git_s_own() {
    let Some(user) = people_with_git("branches").pop() else { return };
    let scene = Scene::with_repository(user, GIT);
    let said = scene.inside(
        "git checkout -qb topic && echo 2 >>file && git commit -qam two && \
         pinfold-host git push -u origin topic && git rev-parse --abbrev-ref topic@{u} && \
         git tag -a v1 -m v1 && pinfold-host git push origin v1 && \
         git commit -q --amend -m changed && pinfold-host git push --force-with-lease origin topic",
    );
    assert!(said.contains("origin/topic") && said.contains("[new tag]"), "{said}");
    assert!(said.contains("forced update"), "{said}");
    assert!(scene.remote("v1").is_some());
    scene.outside("git fetch -q");
    scene.inside("pinfold-host git push origin :topic --atomic");
    assert_eq!(scene.remote("topic"), None);
}

#[test]
fn commits_pushed_by_others_are_fetched_into_the_sandboxs_repository() {
    for user in people_with_git("a fetch") {
        let scene = Scene::with_repository(user, GIT);
        scene.outside(
            "git clone -q ../remote.git ../clone && cd ../clone && git config user.name B && \
             git config user.email b@c.d && echo b >b && git add b && git commit -qm b && \
             git tag t && git push -q origin main t",
        );
        let script = "pinfold-host git fetch origin && git log --oneline origin/main -1 && \
                      git merge -q --ff-only origin/main && cat b && git rev-parse t";
        let output = scene.run(&[], script);
        assert!(output.status.success(), "{}", said(&output));
        let asked = scene.inside("pinfold-host git ls-remote origin");
        assert!(asked.contains("refs/tags/t"), "{asked}");
    }
}

#[test]
fn a_linked_worktree_pushes_its_own_branch() {
    let Some(user) = people_with_git("a worktree").pop() else { return };
    let scene = Scene::with_repository(user, GIT);
    scene.outside("git worktree add -q ../linked -b side");
    let mut run = scene.pinfold(&["run", "--", "sh", "-c", "echo 3 >>file && git commit -qam three && pinfold-host git push origin HEAD && git rev-parse HEAD"]);
    let output = run.current_dir(scene.stage.path("linked")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains(&scene.remote("side").unwrap()));
}

#[test]
fn question_about_a_push_shows_remote_references_and_commits() {
    let Some(user) = people_with_git("what is shown").pop() else { return };
    let scene = Scene::with_repository(user, "");
    scene.outside("git checkout -qb other && echo o >>file && git commit -qam other && git push -q origin other && git checkout -q main");
    let script = "echo 2 >>file; git commit -qam \"$(printf 'two \\033[2J\\342\\200\\256x')\"; git branch new; \
                  git branch -f other main; \
                  pinfold-host git push --force origin main new other; touch ended; read x";
    let mut run = scene.pinfold(&["run", "--wait-for-approvals", "--", "sh", "-c", script]);
    let mut child = run
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pending = super::asking::wait_for_request(&scene);
    let details: Vec<&str> =
        pending["details"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let shown = details.join("\n");
    assert!(details[0].starts_with("to /") && details[0].ends_with("/remote.git"), "{shown}");
    assert!(shown.contains("moves refs/heads/main from "), "{shown}");
    assert!(shown.contains("makes refs/heads/new at "), "{shown}");
    assert!(
        shown.contains("moves refs/heads/other from ") && shown.contains("by force"),
        "{shown}"
    );
    assert!(
        shown.contains("1 commit new:") && shown.contains("two \\e[2J\\u202ex (Ada)"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'));
    let id = pending["id"].to_string();
    let answered =
        scene.pinfold(&["approvals", "deny", &id, "--reason", "not now"]).output().unwrap();
    assert!(answered.status.success(), "{}", said(&answered));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(scene.remote("new"), None);
}

#[test]
fn git_commands_that_would_fail_are_refused_in_its_words_without_a_question() {
    let Some(user) = people_with_git("a rejection").pop() else { return };
    let scene = Scene::with_repository(user, "");
    let script = "git commit -q --amend -m other; pinfold-host git push origin main; echo $?; \
                  pinfold-host git status; pinfold-host git push origin none; pinfold-host git pull; \
                  pinfold-host git push nowhere; cd /; true";
    let said = said(&scene.run(&[], script));
    assert!(said.contains("(non-fast-forward)") && said.contains("126"), "{said}");
    assert!(said.contains("git status needs nothing of the host"), "{said}");
    assert!(said.contains("src refspec none does not match any"), "{said}");
    assert!(said.contains("no remote nowhere on the host"), "{said}");
    let decisions = scene.audit();
    assert!(decisions.iter().all(|one| one["outcome"] != "allow"));
}

#[test]
fn a_rule_for_a_push_moves_no_other_reference() {
    let Some(user) = people_with_git("a rule for a push").pop() else { return };
    let scene = Scene::with_repository(user, "");
    scene.outside("git config push.default current");
    let commit = "echo 2 >>file; git commit -qam two";
    let mut run = scene.pinfold(&[
        "run",
        "--wait-for-approvals",
        "--",
        "sh",
        "-c",
        &format!("{commit}; pinfold-host git push origin"),
    ]);
    let child = run
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let id = super::asking::wait_for_request(&scene)["id"].to_string();
    assert!(scene.pinfold(&["approvals", "approve", &id, "--always"]).status().unwrap().success());
    assert!(said(&child.wait_with_output().unwrap()).contains("main -> main"));
    let rules = said(&scene.pinfold(&["approvals", "rules"]).output().unwrap());
    assert!(rules.contains("remote.git, refs/heads/main"), "{rules}");
    // Where the remote is now is what a session learns by a fetch.
    scene.outside("git fetch -q");
    let again = said(&scene.run(&[], &format!("{commit}; pinfold-host git push origin")));
    assert!(again.contains("main -> main"), "{again}");
    let other = said(
        &scene.run(&[], &format!("git checkout -qb other; {commit}; pinfold-host git push origin")),
    );
    assert!(other.contains("no user can be asked"), "{other}");
    scene.outside(
        "git remote set-url origin ../elsewhere.git && git init -q --bare ../elsewhere.git",
    );
    let elsewhere = said(
        &scene.run(&[], &format!("git checkout -q main; {commit}; pinfold-host git push origin")),
    );
    assert!(elsewhere.contains("no user can be asked"), "{elsewhere}");
}

/// A rule that excludes an option excludes what it does: there are other words for it.
#[test]
fn rule_excludes_an_option_in_any_spelling() {
    let Some(user) = people_with_git("what a rule excludes").pop() else { return };
    let rule = |excludes: &str| {
        format!(
            "autoApprove = [{{ executable = \"git\", argsPrefix = [\"push\"], argsExcludes = [{excludes}] }}]"
        )
    };
    let back = "git commit -q --amend -m other; ";
    let other =
        "git push -q ../remote.git HEAD:refs/heads/topic HEAD:refs/heads/more; git fetch -q; ";
    for (excludes, prepare, push, is_allowed) in [
        ("\"--force\"", back, "origin +main", false),
        ("\"-f\"", back, "origin +HEAD:main", false),
        ("\"--force\"", back, "--force-with-lease origin main", false),
        ("\"--force-with-lease\"", back, "-qf origin main", false),
        ("\"--delete\"", back, "origin +main", true),
        ("\"--delete\"", "", "origin :topic", false),
        (
            "\"-d\"",
            "",
            "--prune origin refs/heads/main:refs/heads/main refs/heads/m*:refs/heads/m*",
            false,
        ),
        ("\"--force\"", "", "origin :topic", true),
        ("\"--force\", \"--delete\"", "git commit -q --allow-empty -m two; ", "origin +main", true),
    ] {
        let scene = Scene::with_repository(user, &rule(excludes));
        scene.outside(other);
        let output = said(&scene.run(&[], &format!("{prepare}pinfold-host git push {push}")));
        let is_asked = output.contains("no user can be asked");
        assert_eq!(!is_asked, is_allowed, "{excludes}, {push}: {output}");
        if is_asked {
            let exact = push.split(' ').next_back().unwrap();
            assert!(output.contains(&format!("\"{exact}\"] }}]")), "{output}");
        }
    }
}
