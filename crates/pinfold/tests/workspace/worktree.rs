//! Runs in a worktree of their own next to the repository.

mod faults;
mod places;

use std::fs;
use std::process::Output;
use std::thread;
use std::time::Duration;

use pinfold_testkit::{Stage, people, processes_with};
use rustix::process::{Pid, Signal, kill_process};

fn streams(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs a script on the host, as the user, which must succeed.
fn host(stage: &Stage, script: &str) -> String {
    let mut shell = stage.command("/bin/sh");
    for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        shell.env(format!("{name}_NAME"), "me").env(format!("{name}_EMAIL"), "me@example.org");
    }
    let output = shell.args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", streams(&output).1);
    streams(&output).0
}

/// A repository in the workspace, with some kinds of files and a directory `sub`.
fn repository(user: pinfold_testkit::User) -> Stage {
    let stage = Stage::new(user);
    host(
        &stage,
        "git init -qb main .; git config user.name me; git config user.email me@example.org; \
         mkdir sub; echo a >a; echo b >sub/b; echo '#!/bin/sh' >x; chmod +x x; ln -s a l; \
         printf '.env\\nbuild\\n' >.gitignore; git add .; git commit -qm one",
    );
    stage
}

/// Runs a script in the worktree of a branch.
fn session(stage: &Stage, branch: &str, script: &str) -> (String, String) {
    let output = stage.run_shell(&["--worktree-branch", branch], &format!("set -e\n{script}"));
    let (shown, errors) = streams(&output);
    assert!(output.status.success(), "{errors}");
    (shown, errors)
}

/// The same, which pinfold must refuse; gives what it says.
fn refused(stage: &Stage, options: &[&str]) -> String {
    let output = stage.run(options, &["true"]);
    assert_eq!(output.status.code(), Some(125), "{:?}", streams(&output));
    streams(&output).1
}

#[test]
fn a_run_has_its_own_checkout_of_a_new_branch_that_goes_when_nothing_is_new() {
    for user in people() {
        let stage = repository(user);
        host(&stage, "echo dirty >>a; echo key=1 >.env; echo new >untracked; git add untracked");
        let before = host(&stage, "git status --porcelain; cat a .env");
        let top = stage.path("ws-feat-x").display().to_string();
        let script = "pwd; echo $PINFOLD_WORKSPACE; git status --porcelain; git branch \
                      --show-current; git log --format=%s; cat a; stat -c %A x; readlink l; \
                      ls -A ../ws; mkdir build; echo o >build/o; ls .env untracked || echo none";
        let (shown, errors) = session(&stage, "feat/x", script);
        let expected = format!("{top}\n{top}\nfeat/x\none\na\n-rwxr-xr-x\na\n.git\nnone\n");
        assert_eq!(shown, expected, "{errors}");
        assert!(errors.contains(&format!("made the worktree {top} (branch feat/x is new")));
        assert!(errors.contains(&format!("removed the worktree {top}: nothing in it was new")));
        assert!(!stage.path("ws-feat-x").exists());
        assert_eq!(host(&stage, "git status --porcelain; cat a .env"), before);
        assert_eq!(host(&stage, "git worktree list | wc -l; git branch"), "1\n  feat/x\n* main\n");
        let records = std::fs::read_dir(stage.state().join("worktrees")).unwrap();
        assert_eq!(records.count(), 1, "only the lock");
    }
}

#[test]
fn the_worktree_is_the_owners_and_files_are_where_the_caller_stands() {
    for user in people() {
        let stage = repository(user);
        let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--", "pwd"]);
        let output = run.current_dir(stage.path("ws/sub")).output().unwrap();
        assert_eq!(streams(&output).0, format!("{}\n", stage.path("ws-b/sub").display()));
        session(&stage, "b", "echo c >c");
        let owners =
            host(&stage, "find ../ws-b .git/worktrees .git/refs -printf '%U:%G\\n' | sort -u");
        assert_eq!(owners, format!("{}:{}\n", user.uid, user.gid));
        assert_eq!(host(&stage, "git -C ../ws-b status --porcelain"), "?? c\n");
    }
}

#[test]
fn work_that_would_be_lost_keeps_the_worktree_and_the_note_says_how_to_remove_it() {
    // Who removes a worktree is tried above; what would be lost is the same for everybody.
    let stage = repository(people().pop().unwrap());
    let kinds = [
        ("echo more >>a", "changes that are not committed"),
        ("echo more >new", "changes that are not committed"),
        ("chmod -x x", "changes that are not committed"),
        (
            "echo more >>a; git add a; git show :a >/dev/null; git checkout -q HEAD -- x; \
              git restore -W --source HEAD a",
            "changes that are not committed",
        ),
        ("echo more >>a; git update-index --assume-unchanged a", "not committed"),
        ("echo more >>a; git update-index --skip-worktree a", "not committed"),
        ("git commit -qm two --allow-empty", "commits that no other branch has"),
        ("git checkout -q --detach; git commit -qm three --allow-empty", "no other branch has"),
    ];
    for (number, (script, why)) in kinds.iter().enumerate() {
        let branch = format!("b{number}");
        let (_, errors) = session(&stage, &branch, script);
        let top = stage.path(&format!("ws-{branch}"));
        assert!(errors.contains("kept the worktree") && errors.contains(why), "{errors}");
        assert!(top.join("a").exists(), "{script}");
        let command = errors.split('`').nth(1).unwrap();
        host(&stage, &format!("{command} --force"));
        assert!(!top.exists());
    }
}

/// Returns the processes below a process.
fn below(process: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let listed = listed.unwrap_or_default();
    let children = listed.split(' ').filter_map(|child| child.parse().ok());
    children.flat_map(|child| [vec![child], below(child)].concat()).collect()
}

/// Stops each git that the process with these words has started, until that has ended.
fn stop_git_of(words: &str) {
    let mut was_there = false;
    loop {
        let found = processes_with(words);
        if was_there && found.is_empty() {
            return;
        }
        was_there |= !found.is_empty();
        let all = found.into_iter().flat_map(|process| below(i32::try_from(process).unwrap()));
        let name =
            |process: i32| fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        for git in all.filter(|process| name(*process).trim_end() == "git") {
            // It may have ended by itself.
            let _ = kill_process(Pid::from_raw(git).unwrap(), Signal::STOP);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// git reads every file whose size the index does not know, here for seconds. A git that is stopped takes longer, and no processor.
#[test]
fn worktree_that_takes_git_long_to_look_at_stays() {
    let stage = repository(people().pop().unwrap());
    let script = "head -c 64M /dev/zero >big; o=$(git rev-parse HEAD:a); for n in $(seq 100); do ln big big$n; \
                  printf '100644 %s 0\\tbig%s\\n' $o $n; done | git update-index --index-info";
    let look = format!("look-at-worktree\0{}", stage.path("ws/.git").display());
    thread::spawn(move || stop_git_of(&look));
    let (_, errors) = session(&stage, "b", script);
    assert!(errors.contains("ws-b: its programs took more than 20 s together; remove"), "{errors}");
    assert!(stage.path("ws-b/big100").exists());
}

/// A worktree gets its index last: what a killed start has not written was never there.
#[test]
fn worktree_without_an_index_has_lost_nothing_by_what_is_not_there() {
    for user in people() {
        let stage = repository(user);
        let prepare = "rm -rf ../out ../ws-b; git worktree prune; git branch -qf b; git worktree add -qf ../ws-b b; \
                       rm .git/worktrees/ws-b/index; mkdir -p ../out/git/refs; cd ../out/git; \
                       touch config; git -C ../../ws rev-parse main >HEAD";
        let paths = ["ws/.git", "ws/.git/worktrees/ws-b", "ws-b", "out"]
            .map(|path| stage.path(path).display().to_string());
        let looks = [
            ("rm a x", "clean\n"),
            ("rm -r sub a x l .gitignore", "clean\n"),
            ("rm a; echo more >>x", "changed\n"),
            ("rm a; echo more >new", "changed\n"),
        ];
        for (script, expected) in looks {
            host(&stage, &format!("{prepare}; cd ../../ws-b; {script}"));
            let commit = host(&stage, "git rev-parse main");
            let mut words = vec!["look-at-worktree"];
            words.extend(paths.iter().map(String::as_str));
            words.push(commit.trim());
            let output = stage.pinfold(&words).output().unwrap();
            assert_eq!(streams(&output), (expected.to_owned(), String::new()), "{script}");
        }
    }
}

#[test]
fn worktrees_that_git_cannot_list_are_refused_with_what_git_says() {
    for user in people() {
        let stage = repository(user);
        let half = "mkdir -p .git/worktrees/half; cd .git/worktrees/half; : >commondir; \
                    echo /nowhere/.git >gitdir; echo ref: refs/heads/half >HEAD";
        host(&stage, half);
        let errors = refused(&stage, &["--worktree-branch", "b"]);
        assert!(errors.contains("cannot list the worktrees of "), "{errors}");
        assert!(
            errors.contains("commondir") && errors.contains("worktree list` has to"),
            "{errors}"
        );
        assert!(!stage.path("ws-b").exists());
    }
}

#[test]
fn ignored_closed_directory_goes_with_the_worktree() {
    for user in people() {
        let stage = repository(user);
        let script = "mkdir -p build/m/v1 build/shut; echo o >build/m/v1/o; chmod -R a-w build/m; \
                      ln -s ../a build/l; chmod 0 build/shut";
        let (_, errors) = session(&stage, "b", script);
        assert!(errors.contains("removed the worktree"), "{errors}");
        assert!(!stage.path("ws-b").exists());
    }
}

#[test]
fn a_kept_worktree_is_used_again_and_stays_the_persons() {
    for user in people() {
        let stage = repository(user);
        session(&stage, "b", "echo more >>a; git commit -qam two");
        host(&stage, "git merge -q b");
        let (shown, errors) = session(&stage, "b", "git log --format=%s; cat a");
        assert_eq!((shown.as_str(), errors.as_str()), ("two\none\na\nmore\n", ""));
        assert!(stage.path("ws-b").exists());
        host(&stage, "git worktree remove ../ws-b");
        let (_, errors) = session(&stage, "b", "true");
        assert!(errors.contains("of branch b") && errors.contains("removed"), "{errors}");
    }
}

#[test]
fn commits_come_out_into_the_worktree() {
    for user in people() {
        let stage = repository(user);
        let options = ["--worktree-branch", "b"];
        let output = stage.run_shell(&options, "echo more >>a; git commit -qam two");
        assert!(streams(&output).1.contains("no other branch has"), "{:?}", streams(&output));
        let shown =
            host(&stage, "cd ../ws-b; git status --porcelain; git log --format=%s b; cat a");
        assert_eq!(shown, "two\none\na\nmore\n");
        assert_eq!(host(&stage, "git log --format=%s; cat a"), "one\na\n");
    }
}

#[test]
fn nothing_of_the_repositorys_configuration_runs_on_the_host() {
    for user in people() {
        let stage = repository(user);
        let ran = stage.path("other/ran").display().to_string();
        host(
            &stage,
            &format!(
                "echo '*.bin filter=f diff=d' >.gitattributes; echo x >z.bin; git add .; \
                 git commit -qm two; \
                 git config filter.f.smudge 'echo smudge >>{ran}; cat'; \
                 git config filter.f.clean 'echo clean >>{ran}; cat'; \
                 git config filter.f.required true; \
                 git config filter.f.process 'echo process >>{ran}; false'; \
                 git config core.fsmonitor 'echo fsmonitor >>{ran}; false'; \
                 git config core.sshCommand 'echo ssh >>{ran}; false'; \
                 git config core.pager 'echo pager >>{ran}'; \
                 for hook in post-checkout reference-transaction post-index-change; do \
                 printf '#!/bin/sh\\necho %s >>{ran}\\n' $hook >.git/hooks/$hook; \
                 chmod +x .git/hooks/$hook; done"
            ),
        );
        let (shown, errors) = session(&stage, "b", "cat z.bin; cp z.bin build.bin");
        assert_eq!(shown, "x\n");
        assert!(errors.contains("files with a filter (f) are as they were committed"), "{errors}");
        assert!(errors.contains("kept"), "{errors}");
        host(&stage, "rm ../ws-b/build.bin; git config --unset core.fsmonitor; rm .git/hooks/*");
        let (_, errors) = session(&stage, "c", "true");
        assert!(errors.contains("removed"), "{errors}");
        assert!(!stage.path("other/ran").exists(), "{}", host(&stage, &format!("cat {ran}")));
    }
}

#[test]
fn line_ends_are_as_the_configuration_and_the_private_attributes_say() {
    for user in people() {
        let stage = repository(user);
        host(&stage, "git config core.autocrlf true; echo 'x -text' >.git/info/attributes");
        let (shown, errors) = session(&stage, "b", "od -An -c a; od -An -c x | tail -n 1");
        assert!(shown.contains("a  \\r  \\n") && !shown.ends_with("\\r  \\n\n"), "{shown}");
        assert!(errors.contains("removed"), "{errors}");
    }
}
