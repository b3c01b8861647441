//! A repository in a view: everything of git works, and only commits come out.

use pinfold_testkit::{Stage, installed, people, skip};

use super::{host, pinfold, sessions, work};

const REPOSITORY: &str = "git init -q --template= -b main; git config user.name T; \
     git config user.email t@example.org; echo one >file; echo two >other; git add .; \
     git commit -qm first";

#[test]
fn commits_come_with_the_files_and_not_before() {
    if !installed("git") {
        return skip("commits_come_with_the_files_and_not_before", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, REPOSITORY);
        work(
            &stage,
            "echo more >>file; git commit -qam inside; git checkout -q -b side; echo s >side; git add side; git commit -qm side; git checkout -q main; git status --short; test -z \"$(git status --short)\"",
        );
        assert_eq!(
            host(&stage, "git log --format=%s; git branch --list side; cat file"),
            "first\none\n"
        );
        let (_, stderr) = pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(
            host(&stage, "git log --format=%s; git status --short; git log --format=%s side"),
            "inside\nfirst\nside\ninside\nfirst\n",
            "{stderr}"
        );
        assert_eq!(sessions(&stage), Vec::<String>::new(), "{stderr}");
        host(&stage, "git fsck --strict");
    }
}

#[test]
fn hooks_and_configuration_stay_in_the_view() {
    if !installed("git") {
        return skip("hooks_and_configuration_stay_in_the_view", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            &format!(
                "{REPOSITORY}; git remote add origin https://user:token@example.org/r.git; echo key >.env"
            ),
        );
        let seen = work(
            &stage,
            "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch hooked\\n' >.git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; \
             git config core.fsmonitor ./evil; git config alias.x '!evil'; git -c core.fsmonitor= commit -qam x --allow-empty; cat .git/config; \
             cat .env && echo hidden",
        );
        assert!(seen.contains("evil") && seen.ends_with("hidden\n"), "{seen}");
        assert!(!seen.contains("key"), "{seen}");
        assert!(!seen.contains("token"), "the session saw a password: {seen}");
        pinfold(&stage, &["apply"]).unwrap();
        let config = host(&stage, "cat .git/config; ls .git");
        assert!(config.contains("token") && !config.contains("evil"), "{config}");
        assert!(!config.contains("hooks"), "{config}");
        assert_eq!(host(&stage, "ls; git log --format=%s"), "file\nhooked\nother\nx\nfirst\n");
    }
}

#[test]
fn files_that_the_host_would_execute_are_left_and_can_be_taken() {
    if !installed("git") {
        return skip("files_that_the_host_would_execute_are_left_and_can_be_taken", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, &format!("{REPOSITORY}; mkdir tools; git config core.hooksPath tools/hooks"));
        work(
            &stage,
            "mkdir .vscode .husky; echo '{}' >.vscode/tasks.json; echo x >.husky/pre-commit; echo x >.envrc; \
             mkdir -p tools/hooks; echo x >tools/hooks/pre-commit; git init -q --template= nested; echo n >nested/n; \
             git init -q --bare --template= bare; echo ok >fine; mkdir sub; echo 'gitdir: /x' >sub/.git",
        );
        let (_, stderr) = pinfold(&stage, &["apply"]).unwrap();
        for left in
            [".vscode", ".husky", ".envrc", "tools/hooks", "nested/.git", "bare", "sub/.git"]
        {
            assert!(stderr.contains(&format!("left: {left}: ")), "{left}: {stderr}");
        }
        assert_eq!(
            host(&stage, "find . -path ./.git -prune -o -type f -print | sort"),
            "./file\n./fine\n./nested/n\n./other\n"
        );
        let (_, stderr) =
            pinfold(&stage, &["apply", "--protected", ".vscode", "nested/.git/HEAD"]).unwrap();
        assert!(stderr.contains("took"), "{stderr}");
        assert_eq!(
            host(&stage, "cat .vscode/tasks.json nested/.git/HEAD; ls -A nested/.git"),
            "{}\nref: refs/heads/master\nHEAD\n"
        );
        pinfold(&stage, &["apply", "--protected"]).unwrap();
        assert_eq!(host(&stage, "cat .envrc tools/hooks/pre-commit"), "x\nx\n");
        assert_eq!(sessions(&stage), Vec::<String>::new());
    }
}

#[test]
fn a_linked_worktree_works_in_a_view_too() {
    if !installed("git") {
        return skip("a_linked_worktree_works_in_a_view_too", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, &format!("{REPOSITORY}; git worktree add -q ../other/linked -b linked"));
        let run = |args: &[&str]| {
            let output =
                stage.pinfold(args).current_dir(stage.path("other/linked")).output().unwrap();
            assert!(output.status.success(), "{}", super::errors(&output));
        };
        run(&[
            "run",
            "--workspace",
            "overlay",
            "--",
            "sh",
            "-ec",
            "echo l >>file; git commit -qam linked",
        ]);
        assert_eq!(
            host(&stage, "git log --format=%s linked; cat ../other/linked/file"),
            "first\none\n"
        );
        run(&["apply"]);
        assert_eq!(
            host(&stage, "git log --format=%s linked; git -C ../other/linked status --short"),
            "linked\nfirst\n"
        );
    }
}
