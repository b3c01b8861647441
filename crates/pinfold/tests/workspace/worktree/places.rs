//! Where a worktree lies, and what is there already.

use pinfold_testkit::{Stage, installed, people, skip};

use super::{host, refused, repository, session, streams};

#[test]
fn the_main_worktree_names_it_also_from_a_linked_one() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "git worktree add -q -b other ../other/linked; cd ../other/linked; \
                      echo o >o; git add o; git commit -qm of-other",
        );
        let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--"]);
        run.args(["sh", "-c", "pwd; git log -1 --format=%s; cat o"]);
        let output = run.current_dir(stage.path("other/linked")).output().unwrap();
        let top = stage.path("ws-b").display().to_string();
        assert_eq!(streams(&output).0, format!("{top}\nof-other\no\n"), "{}", streams(&output).1);
    }
}

#[test]
fn bare_and_shallow_repositories_have_worktrees_too() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "git commit -qm two --allow-empty; git clone -q --bare . ../other/r.git; \
                      git clone -q --depth 1 file://$PWD ../other/shallow; \
                      git clone -q --shared . ../other/shared; mkdir ../other/d; \
                      git clone -q --bare . ../other/d/.bare",
        );
        let cases = [
            ("other/r.git", "other/r-b/q"),
            ("other/shallow", "other/shallow-b/q"),
            ("other/shared", "other/shared-b/q"),
            ("other/d/.bare", "other/d-b/q"),
        ];
        for (directory, top) in cases {
            let mut run = stage.pinfold(&["run", "--worktree-branch", "b/q", "--"]);
            run.args(["sh", "-c", "pwd; cat a; git status --porcelain"]);
            let output = run.current_dir(stage.path(directory)).output().unwrap();
            let top = stage.path(&top.replace("-b/q", "-b-q")).display().to_string();
            assert_eq!(streams(&output).0, format!("{top}\na\n"), "{}", streams(&output).1);
            assert!(streams(&output).1.contains("removed"), "{}", streams(&output).1);
        }
    }
}

#[test]
fn submodules_are_left_empty_and_a_note_says_so() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "git clone -q . ../other/lib; git -c protocol.file.allow=always \
                      submodule --quiet add ../other/lib lib; git commit -qm lib",
        );
        let (shown, errors) = session(&stage, "b", "ls -A lib; git status --porcelain");
        assert_eq!(shown, "", "{errors}");
        assert!(errors.contains("submodules are not checked out"), "{errors}");
        assert!(errors.contains("removed the worktree"), "{errors}");
        // A submodule is a repository like any other.
        let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--", "pwd"]);
        let output = run.current_dir(stage.path("ws/lib")).output().unwrap();
        assert_eq!(streams(&output).0, format!("{}\n", stage.path("ws/lib-b").display()));
    }
}

#[test]
fn a_branch_of_one_remote_begins_where_the_remote_has_it() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "git clone -q . ../other/up; cd ../other/up; git checkout -qb far; \
                      echo f >far; git add far; git commit -qm far; cd -; \
                      git remote add up ../other/up; git fetch -q up",
        );
        let (shown, errors) = session(&stage, "far", "cat far");
        assert_eq!(shown, "f\n");
        assert!(errors.contains("branch far is new, from up/far"), "{errors}");
    }
}

#[test]
fn obstacle_to_a_worktree_is_named() {
    for user in people() {
        let stage = repository(user);
        let here = stage.base().display().to_string();
        let run = |branch: &str| refused(&stage, &["--worktree-branch", branch]);
        assert!(run("main").contains(&format!("branch main is checked out in {here}/ws\n")));
        host(
            &stage,
            "git worktree add -q -b taken ../other/place; mkdir ../ws-full; \
                      echo mine >../ws-full/mine; echo mine >../ws-file; ln -s other ../ws-link",
        );
        let elsewhere = run("taken");
        assert!(elsewhere.contains(&format!("checked out in {here}/other/place\n")), "{elsewhere}");
        assert!(elsewhere.contains(&format!("hint: start there: cd {here}/other/place")));
        for name in ["full", "file", "link"] {
            let taken = run(name);
            assert!(taken.contains(&format!("{here}/ws-{name} exists")), "{taken}");
        }
        assert_eq!(
            host(&stage, "cat ../ws-full/mine ../ws-file; readlink ../ws-link"),
            "mine\nmine\nother\n"
        );
        session(&stage, "a/b", "echo more >>a");
        let other = run("a-b");
        assert!(other.contains("ws-a-b is a worktree of branch a/b, not of a-b"), "{other}");
        let below = run("a/b/c");
        assert!(below.contains("cannot make the worktree"), "{below}");
        host(&stage, "rm -r ../other/place");
        assert!(run("taken").contains("which is gone"));
        assert_eq!(host(&stage, "git branch --format='%(refname:short)'"), "a/b\nmain\ntaken\n");
    }
}

#[test]
fn a_clone_of_another_repository_there_is_not_entered() {
    for user in people() {
        let stage = repository(user);
        host(&stage, "git clone -q . ../ws-b; git -C ../ws-b checkout -qb b");
        assert!(
            refused(&stage, &["--worktree-branch", "b"]).contains("exists and is not a worktree")
        );
        // A worktree in git's list whose directory somebody has replaced.
        session(&stage, "c", "echo more >>a");
        host(&stage, "rm -r ../ws-c; git clone -q . ../ws-c; git -C ../ws-c checkout -qb c");
        assert!(
            refused(&stage, &["--worktree-branch", "c"]).contains("exists and is not a worktree")
        );
    }
}

#[test]
fn the_mode_and_the_branch_need_each_other() {
    for user in people() {
        let stage = repository(user);
        stage.write("ws/sandbox.json", r#"{"workspaceMode": "dedicated_worktree"}"#);
        let asked = refused(&stage, &[]);
        assert!(asked.contains("sandbox.json") && asked.contains("--worktree-branch"), "{asked}");
        let (shown, _) = session(&stage, "b", "pwd");
        assert_eq!(shown, format!("{}\n", stage.path("ws-b").display()));
        let none = stage.path("other");
        let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--", "true"]);
        let output = run.current_dir(none).output().unwrap();
        assert!(streams(&output).1.contains("is in no git repository"), "{:?}", streams(&output));
    }
}

#[test]
fn empty_repository_and_closed_parent_are_reported() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "git init -q .");
        assert!(refused(&stage, &["--worktree-branch", "b"]).contains("no commit yet"));
        let stage = repository(user);
        if user.is_root() {
            // Root's own directories are closed to nobody; a read-only one is.
            continue;
        }
        std::os::unix::fs::chown(stage.base(), Some(0), Some(0)).unwrap();
        let closed = refused(&stage, &["--worktree-branch", "b"]);
        stage.own(stage.base());
        assert!(closed.contains("cannot make the worktree"), "{closed}");
        assert!(closed.contains("must be able to write in"), "{closed}");
        assert_eq!(host(&stage, "git branch; ls .git/worktrees 2>/dev/null || :"), "* main\n");
    }
}

#[test]
fn a_worktree_in_another_checkout_shows_nothing_of_it() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "echo key=1 >.env; echo other >secret; git worktree add -q -b in sub/tree; \
                      git init -q sub/second; cd sub/second; git commit -qm one --allow-empty; \
                      git worktree add -q -b b sub/third",
        );
        for (place, seen) in [("sub/tree", ""), ("sub/second/sub/third", "")] {
            let mut run = stage.pinfold(&["run", "--", "sh", "-c"]);
            run.arg(
                "for up in .. ../.. ../../.. ../../../..; do cat $up/.env $up/secret $up/a $up/b; \
                 done; ls ..; grep -rs key= ../.. --include=.env",
            );
            let output = run.current_dir(stage.path("ws").join(place)).output().unwrap();
            let name = place.rsplit('/').next().unwrap();
            assert_eq!(streams(&output).0, format!("{name}\n{seen}"), "{}", streams(&output).1);
        }
    }
}

#[test]
fn check_says_what_a_worktree_would_allow_once_it_exists() {
    for user in people() {
        let stage = repository(user);
        let check = || stage.pinfold(&["check", "write", "a", "--worktree-branch", "b"]).output();
        let before = check().unwrap();
        assert!(streams(&before).1.contains("does not exist yet"), "{:?}", streams(&before));
        assert!(!stage.path("ws-b").exists());
        session(&stage, "b", "echo more >>a");
        let after = check().unwrap();
        assert!(after.status.success(), "{:?}", streams(&after));
    }
}

#[test]
fn a_part_is_checked_out_where_the_repository_has_a_part() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "mkdir far; echo f >far/f; git add .; git commit -qm far; git sparse-checkout set sub",
        );
        let (shown, errors) =
            session(&stage, "b", "ls; git status --porcelain; git sparse-checkout list");
        assert_eq!(shown, "a\nl\nsub\nx\nsub\n", "{errors}");
        assert!(errors.contains("removed the worktree"), "{errors}");
        // What git skips counts when it is there.
        let hide =
            "mkdir far; echo mine >far/f; git update-index --skip-worktree far/f a; echo mine >>a";
        let (_, errors) = session(
            &stage,
            "b",
            &format!("{hide}; git sparse-checkout disable 2>/dev/null || true"),
        );
        assert!(errors.contains("changes that are not committed"), "{errors}");
        // A worktree of a whole one is whole, whatever part others have.
        host(
            &stage,
            "git worktree remove --force ../ws-b; git worktree add -q ../other/whole -b whole; \
             git -C ../other/whole sparse-checkout disable",
        );
        let mut run = stage.pinfold(&["run", "--worktree-branch", "c", "--", "ls"]);
        let output = run.current_dir(stage.path("other/whole")).output().unwrap();
        assert_eq!(streams(&output).0, "a\nfar\nl\nsub\nx\n", "{}", streams(&output).1);
    }
}

#[test]
fn partial_clone_with_missing_objects_is_refused_with_a_hint() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true; \
             git checkout -qb more; echo more >sub/b; git commit -qam more; git checkout -q main; \
             git clone -q --filter=blob:none \"file://$PWD\" ../other/clone",
        );
        let run = |branch: &str| {
            let mut run =
                stage.pinfold(&["run", "--worktree-branch", branch, "--", "cat", "sub/b"]);
            run.current_dir(stage.path("other/clone")).output().unwrap()
        };
        let here = run("new");
        assert_eq!(streams(&here).0, "b\n", "{}", streams(&here).1);
        let (_, errors) = streams(&run("more"));
        assert!(
            errors.contains("is a partial clone, and for a worktree nothing is fetched"),
            "{errors}"
        );
        let way = errors.split('`').nth(1).unwrap().to_owned();
        assert!(!stage.path("other/clone-more").exists(), "{errors}");
        host(&stage, &way);
        let there = run("more");
        assert_eq!(streams(&there).0, "more\n", "{}", streams(&there).1);
    }
}

#[test]
fn every_format_of_a_repository_has_worktrees() {
    for user in people() {
        for format in ["--object-format=sha256", "--ref-format=reftable"] {
            let stage = Stage::new(user);
            let made = stage.command("git").args(["init", "-qb", "main", format]).output().unwrap();
            if !made.status.success() {
                skip("every_format_of_a_repository", &format!("git does not know {format}"));
                continue;
            }
            host(&stage, "echo a >a; git add .; git commit -qm one");
            let commit =
                "git -c user.name=n -c user.email=e@example.org commit -qm two --allow-empty";
            let (shown, errors) =
                session(&stage, "b/c", &format!("cat a; git status --porcelain; {commit}"));
            assert_eq!(shown, "a\n", "{format}: {errors}");
            assert!(errors.contains("no other branch has"), "{format}: {errors}");
            assert_eq!(host(&stage, "git log --format=%s b/c"), "two\none\n", "{format}");
        }
    }
}

#[test]
fn files_of_git_lfs_are_there_as_far_as_their_content_is() {
    if !installed("git-lfs") {
        return skip("files_of_git_lfs_are_there", "it takes git-lfs");
    }
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "git lfs install --skip-repo; git lfs track '*.big'; echo content >one.big; echo other >two.big; \
             git add .; git commit -qm lfs; rm -r .git/lfs/objects/$(printf 'other\n' | sha256sum | cut -c-2)",
        );
        let (shown, errors) =
            session(&stage, "b", "cat one.big; head -n 1 two.big; git status --porcelain");
        assert_eq!(shown, "content\nversion https://git-lfs.github.com/spec/v1\n", "{errors}");
        assert!(errors.contains("Git LFS whose content was never fetched"), "{errors}");
        assert!(errors.contains("removed the worktree"), "{errors}");
        let script = "echo more >>one.big; git add one.big; git show :one.big | head -n 1";
        let (shown, errors) = session(&stage, "c", script);
        assert_eq!(shown, "version https://git-lfs.github.com/spec/v1\n", "{errors}");
        assert!(errors.contains("changes that are not committed"), "{errors}");
        // Another program by that name is not what everybody knows.
        host(&stage, "git config filter.lfs.process 'echo ran >../other/ran; false'");
        let (shown, _) = session(&stage, "d", "cat one.big");
        assert_eq!((shown.as_str(), stage.path("other/ran").exists()), ("content\n", false));
    }
}
