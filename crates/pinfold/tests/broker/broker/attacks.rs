//! What a repository can hold to have git on the host run something, go elsewhere, or send something
//! else than was shown; against the real git.

use std::path::PathBuf;
use std::process::Stdio;

use pinfold_testkit::git_attacks::PLANTS;

use super::{Scene, people_with_git, said};

const GIT: &str = "autoApprove = true";

struct Attack {
    scene: Scene,
    mark: PathBuf,
}

impl Attack {
    fn new(user: pinfold_testkit::User) -> Self {
        let scene = Scene::with_repository(user, GIT);
        let mark = scene.stage.path("other/mark");
        // A program on the host that runs git itself, as gh does.
        scene.program("moltnet", "#!/bin/sh\ngit status; git log -1; git diff; git remote -v; git ls-files; git config -l; true\n");
        Self { scene, mark }
    }

    /// Runs a line inside, then everything that the host does with git.
    fn run(&self, plant: &str) -> String {
        let evil = format!("touch {0}; echo {0} >&2; exit 1", self.mark.display());
        let script = format!(
            "export EVIL='sh -c \"{evil}\"'; {plant}\n\
             for command in 'git push origin main' 'git fetch origin' 'git ls-remote origin' 'git log -p' \
             'git show' moltnet; do pinfold-host $command </dev/null; done; true"
        );
        said(&self.scene.run(&[], &script))
    }
}

#[test]
fn nothing_that_a_repository_holds_runs_on_the_host() {
    for user in people_with_git("git attacks") {
        for (name, plant) in PLANTS {
            let attack = Attack::new(user);
            let said = attack.run(plant);
            assert!(!attack.mark.exists(), "{name}: {said}");
            // The remotes are the host's own, so what is harmless goes on.
            assert!(said.contains("refs/heads/main"), "{name}: {said}");
        }
    }
}

#[test]
fn push_goes_where_the_host_says_whatever_the_sandbox_configures() {
    for user in people_with_git("redirection") {
        let scene = Scene::with_repository(user, GIT);
        scene.outside("git init -q --bare -b main ../evil.git");
        let evil = scene.stage.path("evil.git");
        let script = format!(
            "E={}; echo 2 >>file; git commit -qam two; git remote set-url origin $E; \
             git config remote.origin.pushurl $E; git config url.$E.insteadOf {1}; \
             git config url.$E.pushInsteadOf {1}; git config remote.pushDefault evil; \
             git remote add evil $E; git config branch.main.pushRemote evil; \
             pinfold-host git push origin main; pinfold-host git push evil main; \
             pinfold-host git push $E main; pinfold-host git push file://$E main; true",
            evil.display(),
            scene.stage.path("remote.git").display()
        );
        let output = said(&scene.run(&[], &script));
        assert!(output.contains("no remote evil on the host"), "{output}");
        assert_eq!(scene.outside("git -C ../evil.git for-each-ref"), "", "{output}");
    }
}

#[test]
fn a_git_that_leads_elsewhere_is_not_followed() {
    let Some(user) = people_with_git("links").pop() else { return };
    let scene = Scene::with_repository(user, GIT);
    scene.outside(
        "git init -q ../other/private && cd ../other/private && git config user.name x && \
         git config user.email x@y && echo secret >s && git add s && git commit -qm 'the secret' && \
         git remote add origin ../../remote.git",
    );
    let private = scene.stage.path("other/private/.git");
    for plant in [
        format!("mkdir x && cd x && ln -s {} .git", private.display()),
        format!("mkdir y && cd y && printf 'gitdir: {}\\n' >.git", private.display()),
        format!("mkdir z && cd z && git init -q . && echo {} >.git/commondir", private.display()),
        format!("echo {}/objects >>.git/objects/info/alternates", private.display()),
        format!("mv .git old 2>/dev/null; ln -s {} .git 2>/dev/null", private.display()),
        "git config core.worktree ../other/private".to_owned(),
        "ln -s ../other/private link; cd link".to_owned(),
    ] {
        let commit = scene.outside("git -C ../other/private rev-parse HEAD");
        let script = format!(
            "{plant}; pinfold-host git log --all --format=%s; pinfold-host git push origin HEAD:refs/heads/stolen; \
             pinfold-host git push origin {}:refs/heads/stolen; pinfold-host git show {}; true",
            commit.trim(),
            commit.trim()
        );
        let output = said(&scene.run(&[], &script));
        assert!(!output.contains("the secret"), "{plant}: {output}");
        let stolen = scene.remote("stolen");
        assert_ne!(stolen.as_deref(), Some(commit.trim()), "{plant}: {output}");
    }
}

/// Starts a push that waits, changes things inside, approves it, and gives what it said.
fn approved_after(
    scene: &Scene,
    before: &str,
    push: &str,
    change: &str,
) -> (serde_json::Value, String) {
    scene.settings("");
    let script = format!(
        "{before}\npinfold-host git {push} >said 2>&1 & push=$!; while [ ! -f go ]; do sleep 0.05; done; \
         {change}\ntouch changed; wait $push; cat said"
    );
    let mut run = scene.pinfold(&["run", "--wait-for-approvals", "--", "sh", "-c", &script]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pending = super::asking::wait_for_request(scene);
    scene.stage.write("ws/go", "");
    while !scene.stage.path("ws/changed").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let id = pending["id"].to_string();
    assert!(scene.pinfold(&["approvals", "approve", &id]).status().unwrap().success());
    (pending, said(&child.wait_with_output().unwrap()))
}

#[test]
fn pushed_commits_are_those_that_were_shown() {
    let Some(user) = people_with_git("what was shown").pop() else { return };
    let commit = "echo 2 >>file; git commit -qam shown; git rev-parse HEAD >shown";
    for change in [
        "echo 3 >>file; git commit -qam hidden",
        "git update-ref refs/heads/main \"$(git commit-tree -m hidden HEAD^{tree})\"",
        "git reset -q --hard HEAD~1; echo 4 >>file; git commit -qam hidden",
        "mv .git old; git init -q -b main .; git config user.name x; git config user.email x; echo >e; git add e; git commit -qm hidden; git remote add origin ../evil",
        "git remote set-url origin ../evil.git; git config core.hooksPath /nowhere",
    ] {
        let scene = Scene::with_repository(user, "");
        let (pending, output) = approved_after(&scene, commit, "push origin main", change);
        let shown = std::fs::read_to_string(scene.stage.path("ws/shown")).unwrap();
        assert!(pending["details"].to_string().contains("shown"), "{pending}");
        assert_eq!(scene.remote("main").as_deref(), Some(shown.trim()), "{change}: {output}");
    }
}

#[test]
fn a_remote_that_is_elsewhere_than_was_shown_gets_nothing() {
    let Some(user) = people_with_git("another remote").pop() else { return };
    let scene = Scene::with_repository(user, "");
    // The sandbox lies about where the remote is, so that less seems to go.
    let before = "git checkout -q --orphan evil; echo e >e; git add e; git commit -qm hidden; \
                  git update-ref refs/remotes/origin/main HEAD; echo f >f; git add f; git commit -qm shown";
    let (pending, output) = approved_after(&scene, before, "push --force origin evil:main", "true");
    let shown = pending["details"].to_string();
    assert!(shown.contains("shown") && !shown.contains("hidden"), "{shown}");
    assert!(output.contains("not what was shown"), "{output}");
    assert_eq!(scene.remote("main"), Some(scene.outside("git rev-parse main").trim().to_owned()));
}

#[test]
fn a_new_branch_sends_no_commit_that_the_remote_was_only_said_to_have() {
    let Some(user) = people_with_git("a new branch").pop() else { return };
    let before = "git checkout -q -b new; echo e >e; git add e; git commit -qm hidden; LIE; \
                  echo f >f; git add f; git commit -qm shown";
    for (lie, goes) in [("git update-ref refs/remotes/origin/lie HEAD", false), (":", true)] {
        let scene = Scene::with_repository(user, "");
        let (pending, output) =
            approved_after(&scene, &before.replace("LIE", lie), "push origin new", "true");
        let shown = pending["details"].to_string();
        assert_eq!(shown.contains("hidden"), goes, "{shown}");
        assert_eq!(scene.remote("new").is_some(), goes, "{output}");
    }
}

#[test]
fn replaced_and_grafted_objects_hide_nothing() {
    let Some(user) = people_with_git("replaced objects").pop() else { return };
    let scene = Scene::with_repository(user, "");
    let before = "echo 2 >>file; git commit -qam hidden; bad=$(git rev-parse HEAD); echo 3 >>file; \
                  git commit -qam last; good=$(git commit-tree -m harmless HEAD^{tree}); \
                  git replace $bad $good; git replace --graft HEAD HEAD~2; mkdir -p .git/info; \
                  echo \"$(git rev-parse HEAD) $(git rev-parse origin/main)\" >.git/info/grafts";
    let (pending, output) = approved_after(&scene, before, "push origin main", "true");
    let shown = pending["details"].to_string();
    assert!(shown.contains("2 commits new") && shown.contains("hidden"), "{shown}");
    assert!(output.contains("main -> main"), "{output}");
}

#[test]
fn a_repository_that_keeps_git_waiting_holds_up_nobody_else_and_no_end() {
    let Some(user) = people_with_git("a git that waits").pop() else { return };
    let scene = Scene::with_repository(user, GIT);
    let began = std::time::Instant::now();
    let script =
        "mkfifo .git/refs/heads/waits; pinfold-host git log & sleep 0.5; pinfold-host moltnet";
    let output = scene.run(&[], script);
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{}", said(&output));
}

#[test]
fn references_with_odd_names_drive_no_terminal() {
    let Some(user) = people_with_git("odd names").pop() else { return };
    let scene = Scene::with_repository(user, "");
    let before = "printf '%s refs/heads/a\\033[2Jb\\n' \"$(git rev-parse HEAD)\" >>.git/packed-refs; \
                  git branch \"$(printf 'x\\342\\200\\256y')\"";
    let (pending, _) = approved_after(&scene, before, "push origin --all", "true");
    let shown = pending.to_string();
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}') && !shown.contains("\\u001b"),
        "{shown}"
    );
    assert!(shown.contains("x\\\\u202ey"), "{shown}");
}
