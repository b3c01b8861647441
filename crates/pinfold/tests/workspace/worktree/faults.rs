//! Several at once, killed on the way, full disks, and files that are not what was trusted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, people, tracer};

use super::{host, refused, repository, session, streams};

#[test]
fn two_runs_share_a_worktree_and_the_last_one_removes_it() {
    for user in people() {
        let stage = repository(user);
        let mut first = stage.pinfold(&["run", "--worktree-branch", "b", "--"]);
        let first = first.args(["sh", "-c", "echo started; read line"]);
        let first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = first.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        let (shown, errors) = session(&stage, "b", "cat a");
        assert_eq!((shown.as_str(), errors.as_str()), ("a\n", ""));
        assert!(stage.path("ws-b").exists());
        first.stdin.take().unwrap().write_all(b"\n").unwrap();
        let first = first.wait_with_output().unwrap();
        assert!(streams(&first).1.contains("removed the worktree"), "{:?}", streams(&first));
        assert!(!stage.path("ws-b").exists());
    }
}

#[test]
fn runs_that_start_together_make_it_once() {
    for user in people() {
        let stage = repository(user);
        let start = |_| {
            let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--"]);
            run.args(["sh", "-c", "cat a; read line"]).stdin(Stdio::piped());
            run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut runs: Vec<_> = (0..4).map(start).collect();
        for run in &mut runs {
            let mut line = String::new();
            BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "a\n");
        }
        let inputs: Vec<_> = runs.iter_mut().map(|run| run.stdin.take().unwrap()).collect();
        for mut input in inputs {
            input.write_all(b"\n").unwrap();
        }
        let ends: Vec<_> = runs.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
        let removed = |end: &&Output| streams(end).1.contains("removed the worktree");
        assert!(ends.iter().all(|end| end.status.success()), "{ends:?}");
        assert_eq!(ends.iter().filter(removed).count(), 1, "{ends:?}");
        assert!(!stage.path("ws-b").exists());
        assert_eq!(host(&stage, "git worktree list | wc -l"), "1\n");
    }
}

#[test]
fn run_that_waits_for_worktrees_says_what_it_waits_for() {
    for user in people() {
        let stage = repository(user);
        // Makes the file of the lock.
        session(&stage, "b", "true");
        let mut other = stage.command("/usr/bin/flock");
        other.arg(stage.state().join("worktrees/lock")).args([
            "sh",
            "-c",
            "echo locked; read line",
        ]);
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--", "true"]);
        let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(run.stderr.take().unwrap()).read_line(&mut said).unwrap();
        drop(other.stdin.take());
        other.wait().unwrap();
        run.wait().unwrap();
        let waits = "pinfold: waiting for another run that makes, checks or removes a worktree\n";
        assert_eq!(said, waits);
    }
}

#[test]
fn a_fifo_in_the_place_of_a_file_of_gits_is_refused_at_once() {
    for user in people() {
        for name in ["packed-refs", "objects/info/alternates", "info/exclude"] {
            let stage = repository(user);
            host(&stage, &format!("rm -f .git/{name}; mkfifo .git/{name}"));
            let says = refused(&stage, &["--worktree-branch", "b"]);
            assert!(says.contains(&format!("{name} is a FIFO")), "{says}");
        }
    }
}

/// Stops at system calls at which pinfold itself is killed: before, while and after the worktree is
/// made and filled; and some at which git is.
const KILLS: [(usize, u32); 12] = [
    (0, 200),
    (0, 400),
    (0, 600),
    (0, 700),
    (0, 800),
    (0, 900),
    (0, 1000),
    (0, 1200),
    (0, 1600),
    (1, 200),
    (7, 100),
    (7, 200),
];

#[test]
fn next_run_continues_after_a_kill_at_any_stage() {
    for user in people() {
        let stage = repository(user);
        for (nth, step) in KILLS {
            let mut run = stage.pinfold(&["run", "--worktree-branch", "b", "--", "true"]);
            run.stdout(Stdio::null()).stderr(Stdio::null());
            tracer::kill_at(run, nth, step);
            let script = "cat a sub/b; git status --porcelain; git fsck";
            let (shown, errors) = session(&stage, "b", script);
            assert_eq!(shown, "a\nb\n", "{nth} {step}: {errors}");
            assert!(errors.contains("removed the worktree"), "{nth} {step}: {errors}");
            let left = host(&stage, "git worktree list | wc -l; ls .git/worktrees 2>&1 | wc -l");
            assert!(left == "1\n0\n" || left == "1\n1\n", "{nth} {step}: {left}");
            assert!(!stage.path("ws-b").exists());
        }
    }
}

/// What git leaves at each step of making a worktree (`add_worktree` in its builtin/worktree.c).
#[test]
fn worktree_that_git_has_half_made_is_made_again() {
    for user in people() {
        let steps = [
            "true",
            "printf initializing >$own/locked",
            "mkdir -p $top",
            "echo $top/.git >$own/gitdir",
            "echo gitdir: $own >$top/.git",
            "echo 0000000000000000000000000000000000000000 >$own/HEAD; echo ../.. >$own/commondir",
            "echo ref: refs/heads/b >$own/HEAD; git branch b",
            "rm $own/locked",
            "echo half >$top/a; echo torn >$top/x",
        ];
        for last in 0..steps.len() {
            let stage = repository(user);
            session(&stage, "z", "true");
            let record = stage.state().join("worktrees").join(record_of(&stage));
            let made: String = steps[..=last].join("; ");
            host(
                &stage,
                &format!(
                    "own=$PWD/.git/worktrees/ws-b; top=${{PWD%/ws}}/ws-b; mkdir -p $own; {made}; \
                     printf making >{}",
                    record.display()
                ),
            );
            let (shown, errors) = session(&stage, "b", "cat a sub/b; git status --porcelain");
            assert_eq!(shown, "a\nb\n", "{last}: {errors}");
            assert!(errors.contains("removed the worktree"), "{last}: {errors}");
            assert_eq!(host(&stage, "ls .git/worktrees 2>/dev/null | wc -l"), "0\n", "{last}");
        }
    }
}

/// git makes `commondir` and then fills it. Killed in between, it leaves what keeps every git from listing worktrees.
#[test]
fn worktree_that_git_has_half_made_keeps_no_other_from_being_made() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "own=$PWD/.git/worktrees/ws-b; mkdir -p $own; printf initializing >$own/locked; \
             echo $PWD-b/.git >$own/gitdir; : >$own/commondir; ! git worktree list 2>/dev/null",
        );
        let (shown, errors) = session(&stage, "c", "cat a");
        assert_eq!(shown, "a\n", "{errors}");
        assert!(errors.contains("removed the worktree"), "{errors}");
        assert_eq!(host(&stage, "git worktree list | wc -l"), "1\n", "{errors}");
    }
}

/// The name of the record of `b`'s worktree.
fn record_of(stage: &Stage) -> String {
    let top = stage.path("ws-b").display().to_string();
    let sum = host(stage, &format!("printf %s {top} | sha256sum"));
    sum.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_checkout_that_fails_leaves_nothing() {
    for user in people() {
        let stage = repository(user);
        host(
            &stage,
            "blob=$(git rev-parse HEAD:sub/b); rm -f .git/objects/$(echo $blob | \
                      sed 's,^..,&/,')",
        );
        let failed = refused(&stage, &["--worktree-branch", "b"]);
        assert!(failed.contains("cannot check out b in"), "{failed}");
        assert!(!stage.path("ws-b").exists());
        assert_eq!(host(&stage, "git branch; git worktree list | wc -l"), "* main\n1\n");
    }
}

#[test]
fn a_program_that_the_worktree_has_otherwise_is_not_what_was_trusted() {
    for user in people() {
        let stage = repository(user);
        stage.write("ws/setup.sh", "echo trusted\n");
        let file =
            r#"{"resumeCommands": ["sh ./setup.sh"], "network": {"allow": ["example.org"]}}"#;
        stage.write("ws/sandbox.json", file);
        host(&stage, "git add .; git commit -qm settings; git branch other");
        host(
            &stage,
            "git checkout -q other; echo 'echo other' >setup.sh; git commit -qam other; \
                      git checkout -q main",
        );
        let trusted = stage.pinfold(&["trust", "--yes"]).output().unwrap();
        assert!(streams(&trusted).1.contains("trusted until"), "{:?}", streams(&trusted));
        session(&stage, "same", "true");
        let other = refused(&stage, &["--worktree-branch", "other"]);
        assert!(other.contains("is not the same in"), "{other}");
        assert!(!stage.path("ws-other").exists());
    }
}
