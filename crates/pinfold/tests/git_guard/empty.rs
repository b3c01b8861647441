//! A workspace that is empty at the start: nothing lies in it inside either, and what a session
//! makes there is rebuilt or set aside at the end.

use super::common::{Case, sites, text, wait_for_line};

/// What a session plants for programs on the host.
const PLANT: &str = r#"set -e
git init -q; git config user.name e; git config user.email e@e; git config core.fsmonitor "$PWD/evil"
printf '#!/bin/sh\ntouch ../mark\n' >evil; chmod 755 evil
mkdir -p .git/hooks; cp evil .git/hooks/post-index-change; cp evil .git/hooks/pre-commit
mkdir -p .vscode .husky .claude .codex sub/deep/.vscode w
for f in .vscode/tasks.json .husky/pre-commit .claude/settings.json .codex/config.toml .envrc .mcp.json \
    sub/deep/.vscode/tasks.json; do echo x >$f; done
echo "gitdir: $PWD/.git" >w/.git; ln -s sub .idea
git init -q nest; git -C nest config core.fsmonitor "$PWD/evil"
git -c core.fsmonitor= add evil; git -c core.fsmonitor= -c core.hooksPath=/ commit -qm made"#;

/// What is there of it afterwards.
const LEFT: &str = ".\n./.git\n./evil\n./nest\n./nest/.git\n./sub\n./sub/deep\n./w\n";
const LOOK: &str = "find . -path '*/.git/*' -prune -o -print | LC_ALL=C sort";

fn assert_set_aside(case: &Case, stderr: &str) {
    assert_eq!(case.host(LOOK), LEFT, "{stderr}");
    for name in [
        "/.vscode",
        "/.husky",
        "/.claude",
        "/.codex",
        "/.envrc",
        "/.mcp.json",
        "/.idea",
        "sub/deep/.vscode",
        "/w/.git",
    ] {
        assert!(stderr.contains(&format!("{name} (set aside")), "{name}: {stderr}");
    }
    assert_eq!(case.host("git log --format=%s"), "made\n", "{stderr}");
    case.use_git_everywhere();
    assert!(!case.was_marked(), "{stderr}");
}

#[test]
fn an_empty_workspace_is_empty_inside() {
    for site in sites() {
        for (prepare, expected) in [("true", ""), ("git init -q --template=", ".git\n")] {
            let case = site.bare_directory();
            case.host(prepare);
            let mut child = case.spawn_inside("echo ready; read line");
            wait_for_line(&mut child, "ready");
            assert_eq!(case.host("ls -A"), expected, "{site}");
            drop(child.stdin.take());
            child.wait().unwrap();
            let output = case.inside("ls -A; git status --porcelain --ignored 2>/dev/null; true");
            assert_eq!(text(&output).0, expected, "{site}");
            assert_eq!(case.host("ls -A"), expected, "{site}");
        }
    }
}

#[test]
fn a_clone_into_an_empty_workspace_is_rebuilt() {
    for site in sites() {
        let case = site.bare_directory();
        case.host(
            "git init -q --template= -b main ../up; cd ../up; git config user.name a
             git config user.email b; mkdir .vscode; echo x >.vscode/tasks.json; echo f >file
             git add .; git commit -qm first; git branch other",
        );
        let up = case.path().with_file_name("up").display().to_string();
        let script = format!(
            "git config --global safe.directory '*'; git clone -q {up} . && ls -A && git status --short"
        );
        let (shown, stderr) = text(&case.run(&["--read", &up], &script));
        assert_eq!(shown, ".git\n.vscode\nfile\n", "{site}: {stderr}");
        assert!(stderr.contains(".vscode (set aside"), "{site}: {stderr}");
        let look = "cat file; git log --format=%s; git branch -r --format='%(refname)'; \
                    git fsck --no-progress; git status --short; ls -A";
        let expected = "f\nfirst\nrefs/remotes/origin/main\nrefs/remotes/origin/other\n \
                        D .vscode/tasks.json\n.git\nfile\n";
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
        case.host(
            "git checkout -q .; git checkout -q other; git commit -q --allow-empty -m x \
                   --author 'a <b>' 2>/dev/null || true",
        );
    }
}

#[test]
fn files_planted_in_an_empty_workspace_are_set_aside() {
    for site in sites() {
        let case = site.bare_directory();
        let output = case.inside(PLANT);
        assert!(output.status.success(), "{site}: {}", text(&output).1);
        assert_set_aside(&case, &text(&output).1);
    }
}

#[test]
fn files_that_a_killed_session_planted_in_an_empty_workspace_are_set_aside() {
    for site in sites() {
        let case = site.bare_directory();
        let mut child = case.spawn_inside(&format!("{PLANT}\nsleep 1; echo ready; read line"));
        wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_set_aside(&case, &text(&case.inside("true")).1);
    }
}

#[test]
fn placeholders_of_another_session_are_not_set_aside() {
    for site in sites() {
        let case = site.bare_directory();
        let mut first = case.spawn_inside("echo ready; read line; touch made");
        wait_for_line(&mut first, "ready");
        case.host("echo x >file");
        let mut second = case.spawn_inside("echo ready; read line; echo x >.vscode/x");
        wait_for_line(&mut second, "ready");
        assert!(case.path().join(".vscode").is_dir(), "{site}");
        drop(first.stdin.take());
        let (_, stderr) = text(&first.wait_with_output().unwrap());
        assert_eq!(stderr, "", "{site}");
        assert!(case.path().join(".vscode").is_dir(), "{site}");
        drop(second.stdin.take());
        let (_, stderr) = text(&second.wait_with_output().unwrap());
        assert!(stderr.contains("Read-only file system"), "{site}: {stderr}");
        assert_eq!(case.host("ls -A"), "file\nmade\n", "{site}");
    }
}

#[test]
fn protected_files_of_a_clone_are_put_back_by_the_command_in_the_note() {
    for site in sites() {
        let case = site.bare_directory();
        let script = "git init -q -b main /tmp/lib; cd /tmp/lib; mkdir .vscode; echo {} >.vscode/tasks.json; \
                      echo x >file; git add .; git -c user.name=a -c user.email=b commit -qm first; \
                      cd - >/dev/null; git clone -q /tmp/lib .";
        let (_, stderr) = text(&case.inside(script));
        let expected = ".vscode (set aside; `pinfold adopt .vscode` puts it back)";
        assert!(stderr.contains(expected), "{site}: {stderr}");
        assert_eq!(case.host("git status --porcelain"), " D .vscode/tasks.json\n", "{site}");
        assert!(case.pinfold_itself(&["adopt", ".vscode"]).status.success(), "{site}");
        assert_eq!(case.host("git status --porcelain; cat .vscode/tasks.json"), "{}\n", "{site}");
    }
}
