//! A push by the host over https, with the login that the person's own git has: a credential helper,
//! asked on the host once the push was approved.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use pinfold_testkit::memory::{descendants, search_memory};
use pinfold_testkit::{User, skip};

use super::World;
use super::github::{REAL, repositories, seen};
use super::secrets::await_file;
use super::world::{Said, people_with};

const PUSH: &str = "git checkout -q -b change && echo more > file && git commit -q -a -m change && \
    pinfold-host git push origin change 2>&1; echo $?";

/// A world whose person's git has this as a helper for github.com, and whose repository has another one.
fn world(person: User, settings: &str, helper: &str) -> World {
    let world = World::prepared(person, &["github"], |stage| {
        repositories(stage);
        let text = format!(
            "[credential \"https://github.com\"]\n\thelper = \"!f() {{ {helper}; }}; f\"\n"
        );
        stage.write("home/.gitconfig", text);
        stage.write("home/token", REAL);
        let mark = stage.path("other/mark");
        let evil = format!("!touch {}; false", mark.display());
        super::git::run(stage, "git", &["config", "credential.helper", &evil]);
        super::git::run(stage, "git", &["config", "core.askPass", &evil]);
    });
    world.config(&format!("[hostExec]\n{settings}\n"));
    world
}

fn answering() -> &'static str {
    "echo $1 >> $HOME/asked; test $1 != get || { echo username=ada; echo password=$(cat $HOME/token); }"
}

#[test]
fn an_approved_push_is_logged_in_by_the_persons_own_helper_and_nothing_of_it_enters_the_pen() {
    for person in people_with("a credential helper", &["git"]) {
        let world = world(person, "autoApprove = true", answering());
        let script = format!(
            "git config --global credential.helper '!touch \"$PWD/mine\"'; {PUSH}; pinfold-host git fetch origin 2>&1; \
             pinfold-host git ls-remote origin; env; git config -l"
        );
        let said = world.shell(&[], &script);
        said.has(&["[new branch]", "pushed with ghp_", "0\n", "refs/heads/change"]);
        assert!(!said.out.contains(REAL) && !said.err.contains(REAL), "{said:?}");
        // With each command anew, and never before.
        let asked = std::fs::read_to_string(world.stage.path("home/asked")).unwrap();
        assert_eq!(asked, "get\nget\nget\n");
        let (all, with_login) = seen(&world, &["git-receive-pack\"", "\"user\": \"ada\""]);
        assert!(all >= 1 && all == with_login, "{}", world.seen());
        assert!(!world.stage.path("other/mark").exists() && !world.stage.path("ws/mine").exists());
        let kept = world
            .outside("grep", &["-rlF", REAL, ".local", ".config"])
            .current_dir(world.stage.path("home"))
            .output();
        assert_eq!(String::from_utf8_lossy(&kept.unwrap().stdout), "");
        let audit = world.audit();
        assert!(audit.contains("\"credential-use\"") && !audit.contains(REAL), "{audit}");
    }
}

#[test]
fn nobody_asks_a_helper_for_what_was_not_approved_or_for_what_the_inside_names() {
    for person in people_with("no credential helper", &["git"]) {
        let world = world(person, "", answering());
        let said = world.shell(
            &[],
            &format!("git remote add evil https://github.com/them/other.git; {PUSH}; pinfold-host git push evil change 2>&1"),
        );
        said.has(&["no user can be asked", "126\n", "no remote evil on the host"]);
        assert!(!world.stage.path("home/asked").exists(), "{said:?}");
        assert_eq!(seen(&world, &[]), (0, 0), "{}", world.seen());
    }
}

#[test]
fn a_helper_without_a_login_ends_a_push_and_asks_nobody() {
    let Some(person) = people_with("a helper without a login", &["git"]).pop() else { return };
    let world = world(person, "autoApprove = true", "true");
    let said = world.shell(&[], PUSH);
    said.has(&["have no login for https://github.com/me/tool.git", "126\n"]);
    assert_eq!(seen(&world, &[]), (0, 0), "{}", world.seen());
    assert!(!world.stage.path("other/mark").exists());
}

/// Processes below this one that are inside of something: in a namespace of processes of its own.
fn inside(pid: u32) -> Vec<u32> {
    let space = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let own = space(&std::process::id());
    descendants(pid)
        .into_iter()
        .filter(|pid| space(pid).is_some_and(|it| Some(it) != own))
        .collect()
}

#[test]
fn while_a_push_goes_on_no_process_in_a_pen_has_the_login() {
    if !rustix::process::geteuid().is_root() {
        return skip("the memory of pens", "only root reads it");
    }
    for person in people_with("the memory of pens", &["git"]) {
        let world = world(person, "autoApprove = true", answering());
        let hook = format!(
            "#!/bin/sh\ncd {}\n: >held\nwhile [ ! -e go ]; do sleep 0.02; done\n",
            world.stage.workspace().display()
        );
        let hook = world.stage.write("world/git/me/tool.git/hooks/pre-receive", hook);
        std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut run = world.pinfold(&["run", "--", "sh", "-c", PUSH]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "held");
        let pens = inside(run.id());
        let is_git = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.starts_with(b"git\0push\0origin\0change\0")
        };
        assert!(pens.iter().any(is_git), "{pens:?}");
        for pid in pens {
            let (searched, at) = search_memory(pid, REAL);
            assert!(at.is_empty(), "{pid}: {at:?}");
            // Git's short-lived helpers may have ended since; the push itself waits for the hook.
            assert!(searched > 0 || !is_git(&pid), "{pid} was not searched");
        }
        // What holds it is outside: the door of that pen.
        let all = descendants(run.id()).into_iter();
        assert!(all.map(|pid| search_memory(pid, REAL).1).any(|at| !at.is_empty()));
        std::fs::write(world.stage.path("ws/go"), "").unwrap();
        Said::of(run.wait_with_output().unwrap()).has(&["[new branch]", "0\n"]);
    }
}

#[test]
fn gh_is_such_a_helper() {
    for person in people_with("gh as a helper", &["git", "gh"]) {
        let world = world(person, "autoApprove = true", "gh auth git-credential $1");
        let login = format!("github.com:\n    user: ada\n    oauth_token: {REAL}\n");
        world.stage.write("home/.config/gh/hosts.yml", login);
        let said = world.shell(&[], PUSH);
        said.has(&["[new branch]", "pushed with ghp_"]);
        assert!(!said.out.contains(REAL) && !said.err.contains(REAL), "{said:?}");
        assert!(seen(&world, &["git-receive-pack\"", "\"user\": \"ada\""]).1 >= 1);
    }
}
