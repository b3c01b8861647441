//! GitHub: `git push` over https and `gh` with a token that is never inside. `gh` is also the
//! client in Go, with Go's own TLS.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use pinfold_testkit::memory::{MEMORY_SEARCH, descendants, disguised, search_memory};
use pinfold_testkit::{Stage, User};

use super::World;
use super::git::run;
use super::secrets::await_file;
use super::world::{Said, people_with};

/// Not a real one, but of the real one's length, so that what stands for it fits in git's frames.
pub(super) const REAL: &str = "ghp_REAL0123456789abcdefghijklmnopqrstuv";

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
pub(super) fn repositories(stage: &Stage) {
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

fn world(user: User, config: &str) -> World {
    let world = World::prepared(user, &["github"], repositories);
    world.config(config);
    world.set_secret("github", REAL);
    world
}

/// Commits on a branch and pushes it.
const PUSH: &str = "git checkout -q -b change && echo more > file && git commit -q -a -m change && \
    git push -q origin change 2>&1\n";

/// Lines of what the servers saw that hold all of these, and of them those with the real token.
pub(super) fn seen(world: &World, parts: &[&str]) -> (usize, usize) {
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
    for user in people_with("gh", &["git", "gh"]) {
        let world = world(user, CONFIG);
        world.stage.write("ws/search.py", MEMORY_SEARCH);
        let mut run = world.pinfold(&["run", "--", "sh", "-c", &script]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "searched");
        if rustix::process::geteuid().is_root() {
            let mut all = 0;
            for pid in descendants(run.id()) {
                // One that has ended since has no memory.
                let (searched, at) = search_memory(pid, REAL);
                assert!(at.is_empty(), "{at:?}");
                all += searched;
            }
            assert!(all > 0, "nothing was searched");
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

#[test]
fn the_host_pushes_for_a_sandbox_that_reaches_nothing() {
    let script = "git checkout -q -b change && echo more > file && git commit -q -a -m change && \
        pinfold-host git push -u origin change 2>&1 && git status -sb; \
        pinfold-host git fetch origin 2>&1; curl -s -m 5 https://github.com/; echo curl $?; true";
    for user in people_with("a push by the host", &["git", "curl"]) {
        // The session's own secrets open no host for it: the group has git alone, and for others.
        let world = world(user, &format!("{CONFIG}[hostExec]\nautoApprove = true\n"));
        let said = world.shell(&[], script);
        said.has(&["[new branch]", "## change...origin/change"]);
        assert!(!said.out.contains(REAL) && !said.err.contains(REAL), "{said:?}");
        let (all, with_token) = seen(&world, &["git-receive-pack\""]);
        assert!(all >= 2 && with_token >= 1, "{}", world.seen());
        has_branch(&world.stage, &world.stage.path("world/git/me/tool.git"), "change");
        let audit = world.audit();
        assert!(audit.contains("\"credential-use\"") && audit.contains("host-exec-end"), "{audit}");
    }
}

/// The branch is there, with the commit from inside.
fn has_branch(stage: &Stage, bare: &Path, branch: &str) {
    let args = ["-C", bare.to_str().unwrap(), "log", "-1", "--format=%s", branch];
    let log = stage.command("git").args(args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), format!("{branch}\n"), "{log:?}");
}

/// The settings with a group, and what they say of it.
fn grouped(about: &str) -> String {
    format!("group = \"work\"\n{CONFIG}{about}")
}

#[test]
fn an_admin_group_has_the_token_and_a_member_group_has_git_alone() {
    let script = format!(
        "env | grep -c -e GH_TOKEN -e ghp_\n\
         echo author $GIT_AUTHOR_NAME $GIT_AUTHOR_EMAIL $GIT_COMMITTER_NAME $GIT_COMMITTER_EMAIL\n\
         {PUSH}git ls-remote git@github.com:me/tool.git refs/heads/change\n\
         gh api user 2>&1; curl -s https://api.github.com/user\n\
         git ls-remote https://github.com/them/other.git 2>&1; git fetch -q origin && echo fetched\n"
    );
    let author = "author Ada ada@example.org Ada ada@example.org\n";
    for user in people_with("groups", &["git", "gh", "curl"]) {
        let member = world(user, &grouped(""));
        let said = member.shell(&[], &script);
        said.has(&["0\n", author, "pushed with ghp_", "refs/heads/change", "fetched"]);
        assert!(!said.out.contains(REAL) && !said.err.contains(REAL), "{said:?}");
        said.has(&["gh auth login", "requested URL returned error: 403"]);
        let note = "note: group work does not get the token github: only git has it, for \
            me/tool (trust = \"admin\" under [groups.work] gives it)";
        assert!(said.err.contains(note), "{}", said.err);
        let refused = "api.github.com:443: group work does not get the token github: only git \
            has it, for me/tool (trust = \"admin\" under [groups.work])";
        assert!(said.refusals().contains(&refused), "{}", said.err);
        assert_eq!(seen(&member, &["api.github.com"]), (0, 0), "{}", member.seen());
        assert_eq!(seen(&member, &["them"]), (0, 0), "{}", member.seen());
        // Unlike git's own way, nothing is asked for first without the token.
        assert_eq!(seen(&member, &["git-receive-pack\""]), (2, 2), "{}", member.seen());
        has_branch(&member.stage, &member.stage.path("world/git/me/tool.git"), "change");
        let uses = member.audit().matches("\"event\":\"credential-use\"").count();
        assert_eq!(uses, seen(&member, &[]).1, "{}", member.audit());
        let world = world(user, &grouped("[groups.work]\ntrust = \"admin\"\n"));
        let said = world.shell(&[], &script);
        said.has(&["1\n", author, "pushed with ghp_", "refs/heads/change", "fetched"]);
        assert_eq!(seen(&world, &["api.github.com"]), (2, 1), "{}", world.seen());
    }
}

/// Requests that are nearly git's, each with what it may look like to a server that is lenient.
const NEARLY: &str = "
import base64
REFS = 'info/refs?service=git-upload-pack'
own = 'Authorization: Basic ' + base64.b64encode(b'x-access-token:mine').decode() + '\\r\\n'
def ask(method, path, host='github.com', headers=''):
    s = tls(connect((host, 443)), host)
    text = f'{method} {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n{headers}\\r\\n'
    print(method, path, status(speak(s, text)))
for path in ('/them/other.git/', '/me/tool.git/../../them/other.git/', '/me/tool.git/%2e%2e/%2e%2e/them/other.git/',
             '/me/tool.git/..%2f..%2fthem/other.git/', '/me%2ftool.git/', '/ME/tool.git/', '//me/tool.git/',
             '/me/tool.git//', '/me/tool.git/./', '/me/tool.git;x/', '/me/tool.wiki.git/', '/me/tool2/',
             '/me/', '/moved/r.git/', '\\\\me/tool.git/', '/me/tool.git\\t/'):
    ask('GET', path + REFS)
for method, path in (('GET', '/me/tool.git/' + REFS + '&x=1'), ('GET', '/me/tool.git/info/refs'),
                     ('GET', '/me/tool.git/info/refs?service=git-archive'), ('HEAD', '/me/tool.git/' + REFS),
                     ('POST', '/me/tool.git/' + REFS), ('GET', '/me/tool.git/git-receive-pack'),
                     ('POST', '/me/tool.git/git-receive-pack?x'), ('DELETE', '/me/tool'), ('GET', '/me/tool/settings'),
                     ('POST', '/me/tool.git/git-receive-pack/..'), ('POST', '/me/tool.git/info/lfs/objects/batch'),
                     ('PUT', '/me/tool.git/git-receive-pack'), ('GET', '/graphql'), ('POST', '/graphql'),
                     ('GET', 'https://api.github.com/user'), ('GET', 'https://github.com/user')):
    ask(method, path)
ask('GET', '/user', headers='Host: api.github.com\\r\\n')
s = tls(connect(('github.com', 443)), 'github.com')
s.sendall(b'POST /graphql HTTP/1.1\\r\\nHost: github.com\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /user HTTP/1.1\\r\\nHost: github.com\\r\\n\\r\\n')
print('smuggled', status(read(s)))
print('done')
ask('GET', '/me/tool/' + REFS, headers=own)
ask('GET', '/me/tool.git/' + REFS)
";

#[test]
fn nothing_but_gits_own_requests_has_a_brokered_token() {
    for user in people_with("brokered attacks", &["git"]) {
        let world = world(user, &grouped(""));
        let alone = world.python(&[], NEARLY);
        alone.has(&["GET /me/tool/info/refs?service=git-upload-pack 200"]);
        alone.has(&["GET /me/tool.git/info/refs?service=git-upload-pack 200"]);
        let (nearly, _) = alone.out.split_once("done").unwrap();
        assert_eq!(nearly.lines().count(), 34, "{nearly}");
        assert!(!nearly.contains(" 200\n"), "{nearly}");
        // What is nearly a request of git's may arrive, but the token with it does not.
        assert_eq!(seen(&world, &[]).1, 2, "{}", world.seen());
        assert_eq!(seen(&world, &["mine"]), (0, 0), "{}", world.seen());
        eprintln!("{nearly}");
        // The same where both hosts may be reached as a whole.
        let open = ["--allow-host", "github.com", "--allow-host", "api.github.com"];
        let open = world.python(&open, &format!("{NEARLY}ask('GET', '/user', 'api.github.com')"));
        assert!(open.ok, "{open:?}");
        let (nearly, more) = open.out.split_once("done").unwrap();
        assert!(!nearly.contains(" 200\n"), "{nearly}");
        assert_eq!(more.matches(" 200\n").count(), 2, "{more}");
        assert!(more.contains("GET /user 401"), "{more}");
        assert_eq!(seen(&world, &[]).1, 4, "{}", world.seen());
        assert_eq!(seen(&world, &["mine"]), (0, 0), "{}", world.seen());
    }
}

#[test]
fn remote_that_the_sandbox_adds_has_no_token_then_or_later() {
    for user in people_with("remotes", &["git"]) {
        let world = world(user, &grouped(""));
        let add = "git remote add evil https://github.com/them/other.git; git ls-remote evil 2>&1\n\
            git remote set-url --add --push origin git@github.com:them/other.git\n\
            git remote add mirror https://github.com/me/tool && git ls-remote mirror";
        let said = world.shell(&[], add);
        said.has(&["returned error: 403", "refs/heads/main"]);
        for key in ["remote.evil.url", "remote.mirror.url", "remote.origin.pushurl"] {
            let is_named =
                |line: &str| line.contains("not taken over: settings") && line.contains(key);
            assert!(said.err.lines().any(is_named), "{}", said.err);
        }
        let said =
            world.shell(&[], "git remote -v; git ls-remote https://github.com/them/other 2>&1");
        said.has(&["returned error: 403"]);
        assert!(
            !said.out.contains("evil")
                && !said.out.contains("mirror")
                && said.out.matches("them/other").count() == 1,
            "{said:?}"
        );
        assert_eq!(seen(&world, &["them"]), (0, 0), "{}", world.seen());
    }
}
