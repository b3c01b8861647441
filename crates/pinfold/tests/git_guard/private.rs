//! What comes out of the private git directory.

use super::common::{self, sites, text, wait_for_line};

#[test]
fn commits_come_out_and_nothing_else_does() {
    for site in sites() {
        let case = site.repository();
        let config = case.host("cat .git/config");
        let script = "echo a >> file; git commit -qam a; git branch b; git checkout -q -b c; \
                      echo c > c; git add c; git commit -qm c; git tag t; git notes add -m n; \
                      git config core.pager x; mkdir -p .git/hooks; cp evil .git/hooks/post-checkout; echo d >> c; \
                      git gc -q";
        let output = case.inside(script);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{site}: {stderr}");
        assert!(
            stderr.contains(": core.pager:") && stderr.contains(": post-checkout:"),
            "{stderr}"
        );
        let look = "git symbolic-ref HEAD; git log --format=%s c --; git status --porcelain; \
                    git for-each-ref --format='%(refname)' refs/heads refs/tags; git fsck";
        let expected = "refs/heads/c\nc\na\nfirst\n M c\nrefs/heads/b\nrefs/heads/c\nrefs/heads/main\n\
                        refs/tags/t\n";
        assert_eq!(case.host(look), expected, "{site}");
        assert_eq!(case.host("cat .git/config"), config, "{site}");
        assert!(!case.path().join(".git/hooks/post-checkout").exists() && !case.was_marked());
        assert_eq!(case.sessions(), 0, "{site}");
    }
}

/// git compares sizes and times, and the content only of what may have changed since it wrote the index, by
/// the times of both. An edit of the same size in the second of a commit is not to be lost by a copy.
#[test]
fn an_edit_in_the_second_of_a_commit_is_seen_on_both_sides() {
    const EARLY: &str = "while test $(date +%N | cut -c1) -gt 3; do sleep 0.02; done";
    for site in sites() {
        let case = site.repository();
        case.host(&format!("{EARLY}; echo 1 >file; git commit -qam one; echo 2 >file"));
        let script = "sleep 1.2; test \"$(git status --porcelain)\" = ' M file' && echo ready; until git ls-files --error-unmatch late >/dev/null 2>&1; \
             do sleep 0.1; done; sleep 1.2; git status --porcelain late; echo x >other; git add other; sleep 0.1";
        let mut child = case.spawn_inside(script);
        wait_for_line(&mut child, "ready");
        case.host(&format!("{EARLY}; echo 1 >late; git add late; echo 2 >late"));
        let (shown, stderr) = text(&child.wait_with_output().unwrap());
        assert_eq!(shown, "AM late\n", "{site}: {stderr}");
        let status = case.host("git status --porcelain");
        assert_eq!(status, " M file\nAM late\nA  other\n", "{site}: {stderr}");
    }
}

#[test]
fn branch_that_both_sides_moved_is_kept_under_another_name() {
    for site in sites() {
        let case = site.repository();
        let mut child = case.spawn_inside("git commit -q --allow-empty -m in; echo ready; read x");
        common::wait_for_line(&mut child, "ready");
        case.host("git commit -q --allow-empty -m out");
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains("not a fast-forward"), "{site}: {stderr}");
        let look = "git log --format=%s -1; git for-each-ref --format='%(subject)' refs/pinfold";
        assert_eq!(case.host(look), "out\nin\n", "{site}");
    }
}

#[test]
fn borrowed_objects_can_be_read_and_neither_changed_nor_moved() {
    for site in sites() {
        let case = site.repository();
        case.host("mkdir -p .git/lfs .git/branches; git gc -q");
        let script = "at=$(cat .git/objects/info/alternates); test -d $at/../lfs || echo no lfs; \
                      while test $at != /run; do \
                      mv $at $at.x 2>/dev/null && echo moved; touch $at/x 2>/dev/null && echo written; \
                      at=$(dirname $at); done; git log --format=%s; git branch b; git fsck";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "first\n", "{site}: {stderr}");
        assert_eq!(case.host("git branch --list b"), "  b\n", "{site}");
    }
}

#[test]
fn a_copy_that_became_something_else_is_not_taken() {
    for site in sites() {
        for trick in [
            "mv /run/pinfold/git/0 /run/pinfold/git/g; ln -s ${PWD%/work}/other /run/pinfold/git/0",
            "rm -f .git/HEAD; mkfifo .git/HEAD",
            "rm -rf .git/objects/*; git commit-tree",
            "echo 'ref: refs/heads/../../x' > .git/HEAD; echo x > .git/packed-refs",
            "ln -s /etc/passwd /run/pinfold/out-0; ln -s /etc .git/refs/heads/x",
            "printf 'deadbeefdeadbeefdeadbeefdeadbeefdeadbeef refs/heads/x\n' > .git/packed-refs",
        ] {
            let case = site.repository();
            case.host(
                "git init -q --bare ../other; echo s | git -C ../other hash-object -w --stdin",
            );
            let before = case.host("git for-each-ref; git rev-parse HEAD; git count-objects");
            case.inside(trick);
            let after = case.host("git for-each-ref; git rev-parse HEAD; git count-objects");
            assert_eq!(after, before, "{trick} ({site})");
        }
    }
}

#[test]
fn a_repository_with_links_to_endless_files_starts_and_ends() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "mkdir -p .git/logs/refs; for f in packed-refs logs/refs/stash ORIG_HEAD; do \
                   ln -s /dev/zero .git/$f; done; ln -s / .git/worktrees",
        );
        let mut child = case.spawn_inside("echo ready; git init -q n");
        common::wait_for_line(&mut child, "ready");
        assert!(child.wait().unwrap().success(), "{site}");
        // Nothing is written through one.
        let case = site.repository();
        case.host("echo mine > ../victim; ln -s ../../victim .git/packed-refs; ln -s ../../victim .git/description");
        let (_, stderr) = text(&case.inside("git status"));
        assert_eq!(case.host("cat ../victim"), "mine\n", "{site}: {stderr}");
    }
}

/// git would wait for a writer; another session in the checkout can make one at any time.
#[test]
fn a_fifo_in_the_place_of_a_file_of_gits_is_refused_at_once() {
    for site in sites() {
        for name in ["HEAD", "packed-refs", "refs/heads/x", "objects/info/alternates"] {
            let plant = format!("rm -f .git/{name}; mkfifo .git/{name}");
            let says = format!("{name} is a FIFO");
            let begun = std::time::Instant::now();
            let case = site.repository();
            case.host(&plant);
            let output = case.inside("true");
            assert_eq!(output.status.code(), Some(125), "{site}, {name}");
            assert!(text(&output).1.contains(&says), "{}", text(&output).1);
            let case = site.repository();
            let mut child = case.spawn_inside("git commit -qm x --allow-empty; echo ready; read x");
            common::wait_for_line(&mut child, "ready");
            case.host(&plant);
            drop(child.stdin.take());
            let stderr = text(&child.wait_with_output().unwrap()).1;
            assert!(stderr.contains(&says), "{stderr}");
            assert!(begun.elapsed().as_secs() < 30, "{site}, {name}: {:?}", begun.elapsed());
        }
    }
}

/// What a `.git` file leads to is content of the repository as well.
#[test]
fn a_git_directory_elsewhere_is_read_without_waiting() {
    for site in sites() {
        let case = site.bare_directory();
        case.host("mkdir -p sub/objects sub/refs; mkfifo sub/config; echo 'gitdir: sub' >.git");
        let output = case.inside("true");
        assert_eq!(output.status.code(), Some(125), "{site}");
        assert!(text(&output).1.contains("does not name this worktree"), "{}", text(&output).1);
    }
}

#[test]
fn stashes_come_out_on_top_of_the_hosts() {
    for site in sites() {
        let case = site.repository();
        case.host("echo old >> file; git stash -q -m old; echo gone >> file; git stash -q -m gone");
        let script = "git stash drop -q stash@{0}; echo a >> file; git stash -q -m 'one ä'; \
                      echo new > new; git stash -q -u -m two; \
                      sed -i 's/On main: one ä$//' .git/logs/refs/stash";
        let (_, stderr) = text(&case.inside(script));
        let listed =
            case.host("git stash list --format='%gd %gs'; git fsck; git status --porcelain");
        let expected = "stash@{0} On main: two\nstash@{1} made inside\nstash@{2} On main: gone\n\
                        stash@{3} On main: old\n";
        assert_eq!(listed, expected, "{site}: {stderr}");
        assert!(stderr.contains("stash drop 'stash@{2}'"), "{site}: {stderr}");
        assert_eq!(
            case.host("git stash pop -q >/dev/null; cat new; git stash pop -q; cat file"),
            "new\nx\na\n"
        );
    }
}

#[test]
fn commit_that_is_not_a_stash_stays_off_the_list() {
    for site in sites() {
        let case = site.repository();
        let script = "git update-ref --create-reflog -m \"$(printf 'x\\033[2J')\" refs/stash HEAD; \
                      git branch b";
        let (_, stderr) = text(&case.inside(script));
        assert_eq!(
            case.host("git stash list; git for-each-ref --format='%(refname)'"),
            "refs/heads/b\nrefs/heads/main\n",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn deletions_are_reported_and_left_to_the_user() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git branch a; git branch \"b;id\"; git pack-refs --all; git branch m; git tag t; git tag -a -m x u",
        );
        let script =
            "echo ready; read x; git branch -D a \"b;id\"; git branch -m m n; git tag -d t u";
        let mut child = case.spawn_inside(script);
        common::wait_for_line(&mut child, "ready");
        case.host("git branch middle");
        let output = child.wait_with_output().unwrap();
        let (_, stderr) = text(&output);
        let refs = "git for-each-ref --format='%(refname)'";
        let all = "refs/heads/a\nrefs/heads/b;id\nrefs/heads/m\nrefs/heads/main\nrefs/heads/middle\n\
                   refs/heads/n\nrefs/tags/t\nrefs/tags/u\n";
        assert_eq!(case.host(refs), all, "{site}: {stderr}");
        assert!(!stderr.contains("middle"), "{site}: {stderr}");
        let commands: Vec<&str> =
            stderr.split('`').filter(|part| part.starts_with("git -C")).collect();
        assert_eq!(commands.len(), 2, "{site}: {stderr}");
        case.host(&commands.join("\n"));
        assert_eq!(case.host(refs), "refs/heads/main\nrefs/heads/middle\nrefs/heads/n\n", "{site}");
    }
}

#[test]
fn tags_come_out_and_replace_nothing_and_notes_stay() {
    for site in sites() {
        let case = site.repository();
        case.host("git tag -a -m old v1; git tag light; git notes add -m one");
        let script = "git tag -d v1; git commit -q --allow-empty -m next; git tag -a -m new v1; \
                      git tag -f light; git tag -a -m v2 v2; git notes add -m two; git branch v1/x; \
                      git branch topic";
        let (_, stderr) = text(&case.inside(script));
        let look = "git for-each-ref --format='%(contents:subject) %(refname:lstrip=-1)' refs/tags; \
                    git notes show HEAD~; ! git notes show 2>/dev/null";
        assert_eq!(case.host(look), "first light\nold v1\nv2 v2\none\n", "{site}: {stderr}");
        let kept = "git for-each-ref --format='%(contents:subject) %(refname:lstrip=3)' refs/pinfold | grep tags";
        assert_eq!(case.host(kept), "next tags/light\nnew tags/v1\n", "{site}: {stderr}");
        assert!(stderr.contains("the host has a tag of this name"), "{site}: {stderr}");
    }
}

#[test]
fn a_branch_that_stands_in_the_way_keeps_the_others_from_nothing() {
    for site in sites() {
        let case = site.repository();
        case.host("git branch a");
        let script = "git branch -m a a/b; git commit -q --allow-empty -m in";
        let (_, stderr) = text(&case.inside(script));
        let look =
            "git log -1 --format=%s; git for-each-ref --format='%(refname:lstrip=3)' refs/pinfold";
        assert_eq!(case.host(look), "in\nheads/a/b\n", "{site}: {stderr}");
        assert!(stderr.contains("has the same beginning"), "{site}: {stderr}");
    }
}

#[test]
fn a_staged_change_survives_what_leaves_the_checkout_alone() {
    for site in sites() {
        let case = site.repository();
        case.host("echo staged >> file; git add file");
        case.inside("git tag t; git checkout -q -b topic");
        assert_eq!(
            case.host("git status --porcelain; git symbolic-ref HEAD; git tag"),
            "M  file\nrefs/heads/topic\nt\n",
            "{site}"
        );
    }
}

#[test]
fn files_outside_a_sparse_checkout_stay_out() {
    for site in sites() {
        for options in ["--no-cone a", "--sparse-index a"] {
            let case = site.repository();
            case.host("mkdir a b; echo a > a/a; echo b > b/b; git add .; git commit -qm dirs");
            case.host(&format!("git sparse-checkout set {options}; rm -f evil"));
            let before = case.host("git status --porcelain; ls");
            let (_, stderr) =
                text(&case.inside("echo x >> a/a; git commit -qm in a; git status --porcelain"));
            assert_eq!(case.host("git status --porcelain; ls"), before, "{site}: {stderr}");
            assert_eq!(
                case.host("git log -1 --format=%s --name-only"),
                "in\n\na/a\n",
                "{site}: {stderr}"
            );
        }
    }
}

#[test]
fn merge_that_the_sandbox_finished_is_finished() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git checkout -q -b b; echo b > file; git commit -qam b; git checkout -q main; \
             echo a > file; git commit -qam a; git merge -q b >/dev/null || :",
        );
        case.inside("git branch x");
        assert_eq!(
            case.host("git status --porcelain; git rev-parse -q --verify MERGE_HEAD^{} >/dev/null"),
            "UU file\n"
        );
        let script = "echo c > file; git commit -qam merged; git stash list";
        let (_, stderr) = text(&case.inside(script));
        let look = "git status; git log -1 --format='%s %p' | wc -w";
        let shown = case.host(look);
        assert_eq!(
            shown, "On branch main\nnothing to commit, working tree clean\n3\n",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn merge_that_the_host_prepared_during_the_session_stays() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git checkout -q -b b; echo b > new; git add new; git commit -qm b; git checkout -q main",
        );
        let script = "echo ready; read x; git commit -q --allow-empty -m in";
        let mut child = case.spawn_inside(script);
        common::wait_for_line(&mut child, "ready");
        case.host("git merge -q --squash b >/dev/null");
        let (_, stderr) = text(&child.wait_with_output().unwrap());
        let look = "git log -1 --format=%s; git status --porcelain; ls .git/SQUASH_MSG";
        assert_eq!(case.host(look), "in\nA  new\n.git/SQUASH_MSG\n", "{site}: {stderr}");
    }
}

#[test]
fn head_that_the_user_moved_during_the_session_stays() {
    for site in sites() {
        let case = site.repository();
        case.host("git branch other; git checkout -q --detach");
        let script = "git commit -q --allow-empty -m in; echo ready; read x";
        let mut child = case.spawn_inside(script);
        common::wait_for_line(&mut child, "ready");
        case.host("git checkout -q other");
        let (_, stderr) = text(&child.wait_with_output().unwrap());
        let look = "git symbolic-ref HEAD; git for-each-ref --format='%(subject)' refs/pinfold";
        assert_eq!(case.host(look), "refs/heads/other\nin\n", "{site}: {stderr}");
        assert!(stderr.contains("moved in the meantime"), "{site}: {stderr}");
    }
}

/// A repository with a submodule `m`, which is itself checked out on no branch.
const SUBMODULE: &str = "git init -q -b main ../lib; git -C ../lib -c user.name=a -c user.email=b commit -q \
    --allow-empty -m lib; git -c protocol.file.allow=always submodule --quiet add $PWD/../lib m; \
    git commit -qm m; git -C m checkout -q --detach; git -C m config user.name a; \
    git -C m config user.email b";

#[test]
fn commits_in_a_submodule_come_out() {
    for site in sites() {
        let case = site.repository();
        case.host(SUBMODULE);
        case.host("git branch gone; git -C m tag t");
        let config = case.host("cat .git/modules/m/config");
        let script = "set -e; cd m; echo x > x; git add x; git commit -qm x; git checkout -q -b b; \
                      echo y > y; git add y; git commit -qm y; git checkout -q HEAD~; git config alias.x y; \
                      cd ..; git commit -qam bump; git submodule status | cut -c-43; git -C m tag -d t >/dev/null; \
                      git branch -q -D gone";
        let output = case.inside(script);
        let (shown, stderr) = text(&output);
        assert!(output.status.success(), "{site}: {stderr}");
        let commands: Vec<&str> =
            stderr.split('`').filter(|part| part.starts_with("git -C")).collect();
        assert_eq!((stderr.lines().count(), commands.len()), (3, 2), "{site}: {stderr}");
        case.host(&commands.join(" >/dev/null\n"));
        assert_eq!(case.host("git branch --list gone; git -C m tag"), "", "{site}: {stderr}");
        assert_eq!(case.host("git submodule status | cut -c-43"), shown, "{site}: {stderr}");
        let look = "git log -1 --format=%s; git status --porcelain; git -C m log --format=%s b; \
                    git -C m log -1 --format=%s; git -C m status --porcelain; git -C m fsck; \
                    git -C m symbolic-ref HEAD || echo detached";
        assert_eq!(case.host(look), "bump\ny\nx\nlib\nx\ndetached\n", "{site}: {stderr}");
        assert_eq!(case.host("cat .git/modules/m/config"), config, "{site}");
    }
}
