//! Repositories of a session and of the host that are kept in step while both work.

use std::io::Write as _;

use super::common::{self, sites, text};

/// Waits until a script on the host says this.
fn until(case: &common::Case, script: &str, expected: &str) {
    let started = std::time::Instant::now();
    loop {
        let said = case.host(script);
        if said == expected {
            return;
        }
        assert!(started.elapsed().as_secs() < 20, "{script}: {said}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn both_sides_are_in_step_while_the_session_lives() {
    for site in sites() {
        let case = site.repository();
        // It goes on once it has all that the host did. What both sides do at the same time is kept, not merged.
        let script = "echo a > a; git add a; git commit -qm in; echo s > s; git add s; echo ready; \
                      until git rev-parse -q --verify host >/dev/null && \
                      [ \"$(git diff --cached --name-only)\" = t ]; do sleep 0.1; done; \
                      git log --format=%s host -1; git status --porcelain; \
                      git checkout -q -b mine; until [ -e done ]; do sleep 0.1; done";
        let mut run = case.spawn_inside(script);
        common::wait_for_line(&mut run, "ready");
        until(&case, "git log -1 --format=%s; git status --porcelain", "in\nA  s\n");
        case.host("git commit -qm 'of the host'; git branch host; echo t > t; git add t");
        until(&case, "git symbolic-ref HEAD; git status --porcelain", "refs/heads/mine\nA  t\n");
        case.host("touch done");
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        case.host("rm done");
        assert!(shown.starts_with("of the host\n"), "{site}: {shown}{stderr}");
        assert!(!stderr.contains("pinfold:"), "{site}: {stderr}");
        let look = "git log --format=%s mine; git status --porcelain; \
                    git fsck --no-dangling";
        assert_eq!(case.host(look), "of the host\nin\nfirst\nA  t\n", "{site}: {stderr}");
    }
}

/// A branch that the host has checked out waits for its index, on whatever the session stands in between.
#[test]
fn branch_that_is_checked_out_stays_while_the_session_is_in_a_rebase() {
    for site in sites() {
        for case in [site.repository(), site.empty_repository()] {
            let script = "git config user.name a; git config user.email a@example.org; \
                          echo a >a; git add a; git commit -qm one; git branch -q -f other; \
                          git checkout -q -b series; echo b >b; git add b; git commit -qm two; \
                          GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1 2>/dev/null; \
                          echo ready; until [ -e go ]; do sleep 0.1; done; git rebase --continue >/dev/null; \
                          git checkout -q main; git merge -q series; echo c >c; git add c; git commit -qm three";
            let mut run = case.spawn_inside(script);
            common::wait_for_line(&mut run, "ready");
            // What is in use nowhere comes at once.
            until(&case, "git for-each-ref --format='%(subject)' refs/heads/other", "one\n");
            let before = case.host("git status --porcelain --untracked-files=no");
            assert_eq!(before, "", "{site}: the branch moved and the index stayed");
            case.host("touch go");
            let (_, stderr) = text(&run.wait_with_output().unwrap());
            case.host("rm go");
            let look = "git log -2 --format=%s main; git symbolic-ref HEAD; git status --porcelain";
            let shown = case.host(look);
            assert_eq!(shown, "three\ntwo\nrefs/heads/main\n", "{site}: {stderr}");
            assert!(!stderr.contains("pinfold accept"), "{site}: {stderr}");
        }
    }
}

/// What the user staged stays, and the session's commits are no change to be committed again.
#[test]
fn checkout_follows_its_own_branch_if_the_session_ends_in_a_rebase() {
    for site in sites() {
        let case = site.repository();
        case.host("echo s >s; git add s");
        let script = "git config user.name a; git config user.email a@example.org; \
                      echo b >b; git add b; git commit -qm mine b; git branch -q series; \
                      git checkout -q series; echo c >c; git add c; git commit -qm two c; \
                      GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q --autostash -i HEAD~1 2>/dev/null; true";
        let (_, stderr) = text(&case.inside(script));
        let look = "git symbolic-ref HEAD; git log -1 --format=%s; git diff --cached --name-status";
        assert_eq!(case.host(look), "refs/heads/main\nmine\nA\ts\n", "{site}: {stderr}");
    }
}

/// The host has them for a moment only.
#[test]
fn file_that_a_session_makes_and_removes_is_no_change() {
    for site in sites() {
        let case = site.repository();
        let script = "git branch topic; git branch stays; git branch used; git tag t; echo ready; \
                      until [ -e go ]; do sleep 0.1; done; git commit -q --allow-empty -m in; \
                      git branch -q -m topic renamed; git branch -q -D used; git tag -f t; \
                      until [ -e done ]; do sleep 0.1; done; git branch -q -D stays";
        let mut run = case.spawn_inside(script);
        common::wait_for_line(&mut run, "ready");
        until(
            &case,
            "git branch --list topic stays used; git tag",
            "  stays\n  topic\n  used\nt\n",
        );
        case.host("git branch -f stays $(git commit-tree -m own HEAD^{tree}); git checkout -q used; touch go");
        until(&case, "git branch --list topic renamed", "  renamed\n");
        case.host("touch done");
        let (_, stderr) = text(&run.wait_with_output().unwrap());
        // What the host moved, or has checked out, stays; both are reported.
        let look = "git branch --format='%(refname:short) %(subject)'; git log -1 --format=%s t";
        let shown = case.host(look);
        assert_eq!(
            shown, "main in\nrenamed first\nstays own\nused first\nin\n",
            "{site}: {stderr}"
        );
        assert!(stderr.contains("used") && stderr.contains("git -C"), "{site}: {stderr}");
    }
}

#[test]
fn a_commit_that_changes_what_tools_run_waits_for_its_user() {
    for site in sites() {
        let case = site.repository();
        case.host("echo known > .envrc; git add .envrc; git commit -qm known; git rm -q .envrc; git commit -qm gone; git branch keeps HEAD~");
        let plumbing = "b=$(echo evil | git hash-object -w --stdin); \
                        git update-index --add --cacheinfo 100644,$b,sub/.vscode/tasks.json; \
                        git commit -qm planted; git branch other";
        let (_, stderr) = text(&case.inside(plumbing));
        assert!(stderr.contains("pinfold accept"), "{site}: {stderr}");
        assert_eq!(
            case.host("git log -1 --format=%s; git status --porcelain; git branch --list other"),
            "gone\n",
            "{site}: {stderr}"
        );
        assert_eq!(case.host("git checkout -q .; ls -d sub 2>/dev/null || true"), "", "{site}");
        let waiting = text(&case.pinfold_itself(&["accept"])).0;
        let session = waiting.split_whitespace().next().unwrap().to_owned();
        let (_, said) = text(&case.pinfold_itself(&["accept", &session, "main"]));
        assert_eq!(case.host("git log -1 --format=%s"), "planted\n", "{site}: {said}");
        // Staged alone it does not come out either.
        let (_, stderr) = text(&case.inside("b=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,.envrc"));
        assert!(stderr.contains(".envrc is staged in it"), "{site}: {stderr}");
        assert_eq!(case.host("git ls-files .envrc"), "", "{site}");
        // What a branch of the host had at the start is nothing new.
        let (_, stderr) = text(&case.inside("git merge -q --no-edit keeps; git checkout -q -b again; git checkout -q keeps -- .envrc 2>/dev/null; git update-index --add --cacheinfo 100644,$(git rev-parse keeps:.envrc),.envrc; git commit -qm again"));
        assert_eq!(case.host("git log -1 --format=%s again"), "again\n", "{site}: {stderr}");
    }
}

/// `origin/HEAD` of a clone is one, and an old name of the main branch often.
#[test]
fn symbolic_references_keep_nothing_from_crossing() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git symbolic-ref refs/heads/master refs/heads/main; git init -q --bare ../up; \
             git remote add o ../up; git push -q o main; \
             git symbolic-ref refs/remotes/o/HEAD refs/remotes/o/main",
        );
        let inside = "git commit -q --allow-empty -m in; echo ready; n=0; \
                      until git log -1 --format=%s o/main | grep in; do sleep 0.1; n=$((n+1)); \
                      [ $n -lt 150 ]; done";
        let mut run = case.spawn_inside(inside);
        common::wait_for_line(&mut run, "ready");
        case.host(
            "n=0; until git log -1 --format=%s | grep -q in; do sleep 0.1; n=$((n+1)); [ $n -lt 100 ]; \
             done; git push -q o master:main",
        );
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        assert_eq!(shown, "in\n", "{site}: {stderr}");
        assert!(!stderr.contains("pinfold:"), "{site}: {stderr}");
        assert_eq!(
            case.host("git log -1 --format=%s master; git symbolic-ref refs/heads/master"),
            "in\nrefs/heads/main\n",
            "{site}"
        );
    }
}

/// Runs a script in a session, `on_host` on the host before it ends, and `undo` afterwards.
fn kept_from_following(site: &common::Site, on_host: &str, undo: &str) {
    let case = site.repository();
    let script = "echo ready; read go; echo y >file; echo n >new; git add new; git commit -qam in";
    let mut child = case.spawn_inside(script);
    common::wait_for_line(&mut child, "ready");
    case.host(on_host);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let (_, stderr) = text(&child.wait_with_output().unwrap());
    // Else the user's next commit would revert the session's.
    assert_eq!(
        case.host("git log -1 --format=%s; git diff --cached --name-only --diff-filter=D"),
        "first\n",
        "{site}: {stderr}"
    );
    case.host(undo);
    let kept = case.host("git for-each-ref --format='%(refname)' refs/pinfold");
    let session = kept.split('/').nth(2).unwrap_or_default();
    assert!(stderr.contains(&format!("`pinfold accept {session}` takes it")), "{site}: {stderr}");
    let accepted = case.pinfold_itself(&["accept", session]);
    assert!(accepted.status.success(), "{site}: {}", text(&accepted).1);
    assert_eq!(case.host("git log -1 --format=%s; git status --porcelain"), "in\n", "{site}");
}

#[test]
fn a_branch_stays_whose_index_is_locked_by_the_host() {
    for site in sites() {
        kept_from_following(&site, ": >.git/index.lock", "rm .git/index.lock");
    }
}

#[test]
fn a_branch_stays_whose_index_cannot_follow() {
    for site in sites() {
        kept_from_following(&site, "echo host >file; git add file", "git reset -q");
    }
}

#[test]
fn an_index_that_is_locked_for_a_moment_is_waited_for() {
    for site in sites() {
        let case = site.repository();
        case.host(": >.git/index.lock; (sleep 0.5; rm .git/index.lock) >/dev/null 2>&1 &");
        let (_, stderr) =
            text(&case.inside("echo y >file; GIT_OPTIONAL_LOCKS=0 git commit -qam in"));
        let shown = case.host("git log -1 --format=%s; git status --porcelain");
        assert_eq!(shown, "in\n", "{site}: {stderr}");
    }
}

#[test]
fn a_host_that_asks_for_its_status_all_the_time_gets_the_commits() {
    for site in sites() {
        let case = site.repository();
        case.host("(until test -e ../stop; do touch file; git status; done) >/dev/null 2>&1 &");
        let script = "echo n >new; git add new; git commit -qm in";
        let (_, stderr) = text(&case.inside(script));
        case.host("touch ../stop; sleep 0.1");
        let look = "git log -1 --format=%s; git status --porcelain; git for-each-ref refs/pinfold";
        assert_eq!(case.host(look), "in\n", "{site}: {stderr}");
    }
}

/// What a session commits is neither reset by `git rebase --abort`, nor in the way of `git rebase --continue`.
#[test]
fn branch_stays_whose_rebase_is_stopped_on_the_host() {
    let work = "git update-ref refs/heads/topic $(git commit-tree -m work -p topic topic^{tree})";
    for site in sites() {
        for directory in [".", "../elsewhere"] {
            let case = site.repository();
            case.host(
                "git checkout -q -b topic; git commit -q --allow-empty -m topic; git checkout -q main; \
                 git worktree add -q --detach ../elsewhere",
            );
            let rebase =
                format!("cd {directory}; git checkout -q topic; git rebase -q -x false HEAD~ || :");
            case.host(&rebase);
            let script = format!(
                "git rebase --abort 2>/dev/null; git checkout -q main; {work}; git branch side topic"
            );
            let (_, stderr) = text(&case.inside(&script));
            case.host(&format!("cd {directory}; git rebase --abort"));
            let shown = case.host("git log -1 --format=%s topic; git log -1 --format=%s side");
            assert_eq!(shown, "topic\nwork\n", "{site}, {directory}: {stderr}");
            let session =
                case.host("git for-each-ref --format='%(refname)' refs/pinfold | cut -d/ -f3");
            let accepted = case.pinfold_itself(&["accept", session.trim()]);
            assert!(accepted.status.success(), "{site}, {directory}: {}", text(&accepted).1);
            assert_eq!(case.host("git log -1 --format=%s topic"), "work\n", "{site}, {directory}");
        }
    }
}
