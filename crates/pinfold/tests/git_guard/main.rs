//! Whatever an agent does to git inside, the host's git runs nothing of it; and git works inside
//! as it does outside. Real git, real kernel.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod activated;
mod attacks;
mod clones;
mod common;
mod empty;
mod history;
mod in_step;
mod masks;
mod misleading;
mod mounted;
mod moved;
mod names;
mod nested;
mod private;
mod protected;
mod protected_files;
mod recorded;
mod scratch;
mod secrets;
mod submodules;
mod together;
mod waits;
mod wall;
mod worktrees;

use common::{sites, text};

/// git as people and agents use it; the last lines are what both sides are compared by.
const WORKFLOW: &str = "
set -eu
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1 LC_ALL=C
git config user.name Ada; git config user.email ada@example.org
echo one > one; git add one; git commit -qm one
git checkout -q -b topic; echo two > two; git add two; git commit -qm two
git checkout -q main; echo three > three; git add three; git commit -qm three
git merge -q --no-edit topic
git checkout -q -b series; for n in 1 2 3; do echo $n >> s; git add s; git commit -qm s$n; done
GIT_SEQUENCE_EDITOR='sed -i 2s/pick/fixup/' git rebase -q -i HEAD~3
git checkout -q main; git rebase -q series
echo dirty >> one; git stash -q; git stash pop -q; git stash -q -u; git stash drop -q
git tag -a -m v1 v1; git branch -m topic renamed
git worktree add -q wt -b wt; echo w > wt/w; git -C wt add w; git -C wt commit -qm w
git worktree remove wt; git worktree add -q wt2 wt; git worktree lock wt2; git worktree unlock wt2
git clone -q . clone; echo c > clone/c; git -C clone add c; git -C clone -c user.name=a -c user.email=b commit -qm c
git init -q --bare -b main b.git; git remote add b ./b.git; git push -q -u b main
git fetch -q b; git branch -q --set-upstream-to=b/main wt; git remote rename b bb; git pull -q bb main
git -c protocol.file.allow=always submodule --quiet add $PWD/b.git sub
git config -f .gitmodules submodule.sub.url ./b.git; git add .gitmodules; git commit -qm sub
git submodule --quiet update --init; git mv two zwei; git commit -qm mv
mkdir sp; echo s > sp/s; git add sp; git commit -qm sp
git gc -q; git fsck --no-progress --no-dangling; git repack -qad; git pack-refs --all; git reflog expire --expire=now --all
git notes add -m note; git cherry-pick -x wt >/dev/null; git revert --no-edit HEAD >/dev/null
git bisect start -q HEAD HEAD~2 >/dev/null; git bisect reset >/dev/null 2>&1
git clean -fdq -e clone -e wt2 -e b.git; git update-index -q --refresh
git log --all --format='%H %s' --date-order; git status --porcelain; git branch -vv --all
git config --get-regexp '^(user|branch|remote|submodule)'; git worktree list --porcelain | sed 's|.*/||'
git submodule status; git stash list; git for-each-ref
";

#[test]
fn git_works_inside_as_it_does_outside() {
    for site in sites() {
        let (outside, inside) = (site.empty_repository(), site.empty_repository());
        let expected = outside.host(WORKFLOW);
        let output = inside.inside(WORKFLOW);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{site}: {stderr}");
        let got = String::from_utf8_lossy(&output.stdout).into_owned();
        let at =
            |case: &common::Case, text: &str| text.replace(&case.path().display().to_string(), "");
        assert_eq!(at(&inside, &got), at(&outside, &expected), "{site}");
        assert!(
            stderr.contains("settings of") && stderr.contains("remote.bb.url"),
            "{site}: {stderr}"
        );
        // Settings, worktrees and the remote-tracking branches of a session end with it.
        let look = "git fsck --no-progress --no-dangling; git status --porcelain; git stash list; \
                    git log --branches --tags --format='%H %s'; git log -1 --format=%H; \
                    git -C clone log --format=%H; git -C b.git log --format=%H; \
                    git for-each-ref refs/heads refs/tags; git symbolic-ref HEAD";
        let (here, there) = (inside.host(look), outside.host(look));
        assert_eq!(at(&inside, &here), at(&outside, &there), "{site}");
    }
}

#[test]
fn nothing_shows_during_a_session_and_nothing_is_left_after_it() {
    for site in sites() {
        let case = site.repository();
        let before = case.files();
        let mut child = case.spawn_inside("echo ready; read line");
        common::wait_for_line(&mut child, "ready");
        assert_eq!(case.host("git status --porcelain"), "", "{site}");
        assert_ne!(case.files(), before, "placeholders are there ({site})");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(case.files(), before, "{site}");
    }
}

#[test]
fn leftovers_of_a_killed_session_go_at_the_next_start() {
    for site in sites() {
        let case = site.repository();
        let before = case.files();
        let mut child = case.spawn_inside("git config alias.x '!id'; echo ready; read line");
        common::wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(case.files(), before, "{site}");
        assert!(case.inside("true").status.success(), "{site}");
        assert_eq!(case.files(), before, "{site}");
        assert_eq!(case.sessions(), 0, "{site}");
    }
}

#[test]
fn next_start_checks_what_a_killed_session_made() {
    for site in sites() {
        let case = site.repository();
        let script = "echo id > .envrc; mkdir .idea; git init -q lib; mkdir lib/.git/hooks; \
                      cp evil lib/.git/hooks/post-index-change; git init -q --bare b; \
                      git -C b config core.bare false; git -C b config core.fsmonitor $PWD/evil; \
                      echo c > c; git add c; git commit -qm c; sleep 1; echo ready; read line";
        let mut child = case.spawn_inside(script);
        common::wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        let output = case.inside("cat .envrc 2>/dev/null; ls -d .idea 2>/dev/null; true");
        let (shown, stderr) = common::text(&output);
        assert_eq!(shown, "", "{site}: {stderr}");
        assert!(stderr.contains("after a session that was killed: "), "{site}: {stderr}");
        assert!(stderr.contains(".envrc (set aside"), "{site}: {stderr}");
        assert_eq!(case.host("git log -1 --format=%s"), "c\n", "{site}: {stderr}");
        case.use_git_everywhere();
        assert!(!case.was_marked(), "{site}: {stderr}");
    }
}

#[test]
fn two_sessions_share_their_placeholders() {
    for site in sites() {
        let case = site.repository();
        let before = case.files();
        let mut first = case.spawn_inside("echo ready; read line");
        common::wait_for_line(&mut first, "ready");
        let second = case.inside("mkdir .vscode/x; mv .git g; git status");
        assert!(second.status.success(), "{site}");
        // Each session has its own copy of what the first one made.
        let third = case.inside("ls .vscode; echo planted > .vscode/tasks.json");
        let (shown, stderr) = common::text(&third);
        assert_eq!(shown, "", "{site}: {stderr}");
        assert!(stderr.contains(".vscode/tasks.json (set aside;"), "{site}: {stderr}");
        drop(first.stdin.take());
        first.wait().unwrap();
        assert_eq!(case.files(), before, "{site}");
    }
}

#[test]
fn a_directory_without_a_repository_gets_one_inside() {
    for site in sites() {
        let case = site.bare_directory();
        let output = case.inside("git init -q && echo x > f && git add f && git -c user.name=a -c user.email=b commit -qm i");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.contains("new repository"), "{site}: {stderr}");
        assert_eq!(case.host("git log --format=%s; git status --porcelain"), "i\n", "{site}");
    }
}

#[test]
fn names_that_the_host_executes_are_set_aside_where_they_are_new() {
    for site in sites() {
        let case = site.repository();
        let output =
            case.inside("mkdir -p sub/.vscode; echo {} > sub/.vscode/tasks.json; echo id > .envrc");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            stderr.contains("sub/.vscode (set aside;") && stderr.contains(".envrc (set aside;"),
            "{site}: {stderr}"
        );
        assert!(!case.path().join(".envrc").exists() && !case.path().join("sub/.vscode").exists());
    }
}

#[test]
fn secrets_and_sockets_are_out_of_reach() {
    for site in sites() {
        let case = site.repository();
        case.host("echo key > .env; echo key > conf.env; ln -s real.txt .env.local; echo key > real.txt; mkfifo pipe; mkdir -p n/.aws; echo key > n/.aws/credentials");
        let inside = "cat .env conf.env .env.local real.txt n/.aws/credentials; ls n/.aws; mv .env x; cat x; timeout 1 cat pipe; echo done";
        let output = case.inside(inside);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{site}");
        let lifted = case.run(&["--opt-in", "dotenv"], "cat .env");
        assert_eq!(String::from_utf8_lossy(&lifted.stdout), "key\n", "{site}");
    }
}

#[test]
fn the_persons_identity_is_known_inside() {
    for site in sites() {
        let case = site.empty_repository();
        case.host("printf '[user]\\nname=Ada\\nemail=a@b\\n[alias]\\nx=y\\n' > $HOME/.gitconfig");
        let script = "git commit -q --allow-empty -m x; git log --format=%an; git config alias.x";
        let output = case.inside(script);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "Ada\n", "{site}");
    }
}

#[test]
fn a_repository_without_an_index_has_no_conflict() {
    for site in sites() {
        let case = site.empty_repository();
        case.host("rm -f .git/index");
        let output = case.inside("git status >.git/x; git write-tree");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("conflict"), "{site}: {errors}");
    }
}

#[test]
fn a_killed_session_whose_record_is_broken_is_named_and_kept() {
    for site in sites() {
        let case = site.repository();
        let mut child = case.spawn_inside("echo ready; read line");
        common::wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        case.host("for record in $(find $HOME -name left.json); do echo '{' >$record; done");
        let (_, stderr) = common::text(&case.inside("true"));
        assert!(stderr.contains("its record cannot be read"), "{site}: {stderr}");
        assert_ne!(case.host("find $HOME -name 'kept-*'"), "", "{site}: {stderr}");
    }
}

#[test]
fn no_tracked_file_looks_changed_in_a_new_session() {
    for site in sites() {
        for options in [&[][..], &["--workspace", "overlay"]] {
            let case = site.repository();
            // Files as old as the index are compared by content anyway.
            case.host("touch -d '1 hour ago' file; git update-index --refresh");
            let script = "git diff-files --raw; git config --show-origin core.checkStat; true";
            let shown = text(&case.run(options, script)).0;
            assert!(!shown.contains(":100644"), "{site}, {options:?}: {shown}");
            case.host("git config core.checkStat default");
            let shown = text(&case.run(options, "git config core.checkStat")).0;
            assert_eq!(shown, "default\n", "{site}, {options:?}");
            assert_eq!(case.host("git config core.checkStat"), "default\n", "{site}");
        }
    }
}
