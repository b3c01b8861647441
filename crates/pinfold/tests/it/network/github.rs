//! GitHub: `git push` over https and `gh` with a token that is never inside. `gh` is also the
//! client in Go, with Go's own TLS.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use super::World;
use super::git::run;
use super::secrets::await_file;
use super::world::{Said, people_with};
use crate::agents::key::{descendants, disguised, search_memory};
use crate::common::{Person, Stage};

/// Not a real one, but of the real one's length, so that what stands for it fits in git's frames.
const REAL: &str = "ghp_REAL0123456789abcdefghijklmnopqrstuv";

const CONFIG: &str = r#"
[[secrets]]
id = "github"
env = "GH_TOKEN"
hosts = ["github.com", "api.github.com"]
"#;

/// A bare repository of a server's, that may be pushed to, whose hook says who pushes.
fn bare(stage: &Stage, name: &str) {
    let path = stage.path("world/git").join(name);
    let path = path.to_str().unwrap();
    run(stage, "git", &["init", "-q", "--bare", "-b", "main", path]);
    run(stage, "git", &["-C", path, "config", "http.receivepack", "true"]);
    let hook = stage.write(
        &format!("world/git/{name}/hooks/post-receive"),
        "#!/bin/sh\necho \"pushed with $GIVEN_TOKEN\"\n",
    );
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// `me/tool`, which the workspace is a clone of, and another's repository.
fn repositories(stage: &Stage) {
    stage.write("world/token", REAL);
    stage.write("world/git/.keep", "");
    bare(stage, "me/tool.git");
    bare(stage, "them/other.git");
    run(stage, "git", &["init", "-q", "-b", "main"]);
    run(stage, "git", &["remote", "add", "origin", "https://github.com/me/tool.git"]);
    run(stage, "git", &["config", "user.name", "Ada"]);
    run(stage, "git", &["config", "user.email", "ada@example.org"]);
    stage.write("ws/file", "first\n");
    run(stage, "git", &["add", "file"]);
    run(stage, "git", &["commit", "-q", "-m", "first"]);
    let bare = stage.path("world/git/me/tool.git");
    run(stage, "git", &["push", "-q", bare.to_str().unwrap(), "main"]);
}

fn world(person: Person, config: &str) -> World {
    let world = World::prepared(person, &["github"], repositories);
    world.config(config);
    world.set_secret("github", REAL);
    world
}

/// Commits on a branch and pushes it.
const PUSH: &str = "git checkout -q -b change && echo more > file && git commit -q -a -m change && \
    git push -q origin change 2>&1\n";

/// Lines of what the servers saw that hold all of these, and of them those with the real token.
fn seen(world: &World, parts: &[&str]) -> (usize, usize) {
    let seen = world.seen();
    let lines = seen.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
    let lines: Vec<&str> = lines.collect();
    (lines.len(), lines.iter().filter(|line| line.contains(REAL)).count())
}

#[test]
fn git_pushes_and_gh_makes_a_pull_request_with_a_token_that_is_not_inside() {
    let script = format!(
        "set -e\n{PUSH}gh pr create --title Change --body Better --base main --head change\n\
         gh api user -i\n\
         env -u https_proxy -u HTTPS_PROXY gh api user --jq .login\n\
         echo placeholder $GH_TOKEN\n\
         python3 search.py {}; mkfifo go; echo > searched; cat go",
        disguised(REAL)
    );
    for person in people_with("gh", &["git", "gh"]) {
        let world = world(person, CONFIG);
        world.stage.write("ws/search.py", include_str!("../agents/search.py"));
        let mut run = world.pinfold(&["run", "--", "sh", "-c", &script]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "searched");
        if rustix::process::geteuid().is_root() {
            for pid in descendants(run.id()) {
                let (searched, at) = search_memory(pid, REAL);
                assert!(searched > 0 && at.is_empty(), "{at:?}");
            }
        }
        std::fs::write(world.stage.path("ws/go"), "").unwrap();
        let said = Said::of(run.wait_with_output().unwrap());
        said.has(&["https://github.com/me/tool/pull/7\n", "}me\n", "and found []"]);
        let placeholder = said.line("placeholder");
        assert!(placeholder.starts_with("ghp_") && placeholder != REAL);
        for echoed in ["pushed with ", "X-Echo: token ", "\"echo\": \""] {
            said.has(&[&format!("{echoed}{placeholder}")]);
        }
        assert!(!said.out.contains(REAL) && !said.err.contains(REAL), "{said:?}");
        assert_eq!(seen(&world, &["git-receive-pack\""]), (3, 2), "{}", world.seen());
        assert_eq!(seen(&world, &["api.github.com"]), (5, 5), "{}", world.seen());
        assert_eq!(seen(&world, &["PullRequestCreate", "Better"]), (1, 1), "{}", world.seen());
        let bare = world.stage.path("world/git/me/tool.git");
        has_branch(&world.stage, &bare, "change");
    }
}

/// The branch is there, with the commit from inside.
fn has_branch(stage: &Stage, bare: &Path, branch: &str) {
    let args = ["-C", bare.to_str().unwrap(), "log", "-1", "--format=%s", branch];
    let log = stage.command("git").args(args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), format!("{branch}\n"), "{log:?}");
}
