//! What the host changes while a session works in a view is seen there, and nothing of the session's is
//! lost by it.

use std::process::Output;
use std::time::{Duration, Instant};

use pinfold_testkit::{Session, Stage, installed, people, skip};

use super::{errors, host, pinfold};

/// Far longer than a change needs to be seen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session in a view that waits for commands, on a workspace that the host has prepared.
fn view<'a>(stage: &'a Stage, options: &[&str], before: &str) -> Session<'a> {
    host(stage, before);
    let options = [&["--workspace", "overlay"], options].concat();
    Session::start(stage, &options)
}

fn shown(output: &Output) -> String {
    assert!(output.status.success(), "{}", errors(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a script in the sandbox until it shows this, and returns how long that took.
fn await_output(session: &Session<'_>, script: &str, expected: &str) -> Duration {
    let begun = Instant::now();
    loop {
        let now = shown(&session.shell(script));
        if now == expected {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < PATIENCE, "{script}: {now:?} is not {expected:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const BEFORE: &str = "echo 0 >edited; echo 0 >saved; echo 0 >removed; echo 0 >renamed; echo 0 >kind; mkdir -p dir/sub; \
                      echo 0 >dir/sub/f; echo 0 >dir/kept; echo '#!/bin/sh' >program; chmod 644 program";
/// Looks at every name, so that each is remembered; the last ones do not exist.
const LOOK: &str = "for f in edited saved removed renamed kind dir/sub/f dir/kept new dir/new dir/sub/new moved other/sub/f kind/x; \
                    do printf '%s=%s ' $f \"$(cat $f 2>/dev/null)\"; done; test -x program && echo x; true";

/// What the host does to a workspace, and what the sandbox sees of it.
fn assert_changes_are_seen(stage: &Stage, options: &[&str]) {
    let session = view(stage, options, BEFORE);
    let first = shown(&session.shell(LOOK));
    assert!(
        first.starts_with("edited=0 saved=0 removed=0 renamed=0 kind=0 dir/sub/f=0"),
        "{first}"
    );
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(shown(&session.shell(LOOK)), first);
    let script = "echo 1 >>edited; echo 1 >t; mv t saved; rm removed; mv renamed moved; rm kind; mkdir kind; \
                  echo 1 >kind/x; echo 1 >new; echo 1 >dir/new; echo 1 >dir/sub/t; mv dir/sub/t dir/sub/f; \
                  mv dir other; mkdir -p dir/sub; echo 1 >dir/sub/new; chmod 755 program";
    host(stage, script);
    let expected = "edited=0\n1 saved=1 removed= renamed= kind= dir/sub/f= dir/kept= new=1 dir/new= dir/sub/new=1 \
                    moved=0 other/sub/f=1 kind/x=1 x\n";
    let took = await_output(&session, LOOK, expected);
    println!("seen after {took:?}");
    // What was made after the watch began is watched, too.
    host(stage, "echo 2 >dir/sub/t; mv dir/sub/t dir/sub/new; mkdir -p a/b/c");
    await_output(&session, "cat dir/sub/new; ls a/b", "2\nc\n");
    assert_eq!(shown(&session.shell("cat a/b/c/n 2>/dev/null; true")), "");
    host(stage, "echo 3 >a/b/c/n");
    await_output(&session, "cat a/b/c/n 2>/dev/null; true", "3\n");
    session.end();
    let (changes, _) = pinfold(stage, &["diff", "--stat"]).unwrap_or_default();
    assert_eq!(changes, "", "the session changed nothing");
}

#[test]
fn a_view_shows_what_the_host_changes() {
    for user in people() {
        assert_changes_are_seen(&Stage::new(user), &[]);
    }
}

#[test]
fn a_view_behind_an_engine_shows_what_the_host_changes() {
    for engine in ["runc", "crun"] {
        if !installed(engine) {
            skip("a_view_behind_an_engine_shows_what_the_host_changes", engine);
            continue;
        }
        for user in people() {
            assert_changes_are_seen(&Stage::new(user), &["--engine", engine]);
        }
    }
}

/// A file that is open is not looked up again; it is when it was closed.
#[test]
fn a_file_that_was_open_is_seen_once_it_is_closed() {
    for user in people() {
        let stage = Stage::new(user);
        let session = view(&stage, &[], "echo 0 >f; echo 0 >other");
        let holder =
            "exec 3<f; touch held; until test -e go; do sleep 0.1; done; exec 3<&-; sleep 10";
        let mut holder = session.spawn(holder);
        await_output(&session, "ls held 2>/dev/null; true", "held\n");
        std::thread::sleep(Duration::from_millis(1200));
        host(&stage, "echo 1 >t; mv t f; echo 1 >t; mv t other");
        await_output(&session, "cat other", "1\n");
        assert_eq!(shown(&session.shell("cat f; touch go")), "0\n");
        await_output(&session, "cat f", "1\n");
        session.end();
        let _ = holder.wait();
    }
}

/// Saves on the host, a writer inside through the same names, and renames of them.
#[test]
fn nothing_that_a_session_writes_is_lost_by_a_thousand_saves() {
    for user in people() {
        let stage = Stage::new(user);
        let session = view(
            &stage,
            &[],
            "mkdir d; for n in 1 2 3 4 5; do echo host >d/shared$n; echo host >d/theirs$n; done",
        );
        std::thread::sleep(Duration::from_millis(1200));
        let writer = "cd d; n=0; echo start >log; until test -e ../stop; do n=$((n + 1)); \
                      echo $n >>log; echo $n >>shared$((n % 5 + 1)); echo $n >new$n.t; mv new$n.t new$n; \
                      read -r line <theirs1; mv shared1 s; mv s shared1; done; echo $n >../count";
        let mut child = session.spawn(writer);
        let saves = "for n in $(seq 200); do for k in 1 2 3 4 5; do echo $n >d/t$k; mv d/t$k d/theirs$k; done; \
                     echo $n >d/t; mv d/t d/shared2; sleep 0.01; done";
        host(&stage, saves);
        await_output(&session, "cat d/theirs1 d/theirs5", "200\n200\n");
        assert_eq!(shown(&session.shell("touch stop")), "");
        child.wait().unwrap();
        let count: usize = shown(&session.shell("cat count")).trim().parse().unwrap();
        assert!(count > 10, "{count}");
        let check = "cd d; n=$(cat ../count); seq $n | sed 1istart | cmp - log && for k in $(seq $n); do \
                     read -r line <new$k; test \"$line\" = $k || echo lost $k; done; for k in 1 2 3 4 5; do grep -v host shared$k; \
                     done | sort -n | uniq | wc -l";
        let kept: usize = shown(&session.shell(check)).trim().parse().unwrap();
        // The first append to `shared2` may begin with what the host saved last.
        assert!((count..=count + 1).contains(&kept), "{kept} of {count}");
        session.end();
        // What both changed is a conflict, as without a refresh.
        let stderr = pinfold(&stage, &["apply"]).unwrap_err();
        assert!(stderr.contains("changed: d/shared2"), "{stderr}");
        assert_eq!(host(&stage, "cat d/shared2"), "200\n");
    }
}

/// Masks lie on names of the view, which are in use as long as they do, and go with a directory that
/// the host renames. What the host makes again in its place has no mask (docs/security).
#[test]
fn masks_in_a_view_stay_when_it_is_refreshed() {
    for user in people() {
        let stage = Stage::new(user);
        let before = "mkdir sub; echo SECRET0 >.env; echo SECRET0 >sub/.env; echo 0 >seen";
        let session = view(&stage, &[], before);
        let script = "until test -e stop; do cat .env sub/.env sub2/.env 2>/dev/null; done";
        let mut reader = session.spawn(script);
        std::thread::sleep(Duration::from_millis(1200));
        let saves = "for n in $(seq 50); do echo SECRET$n >t; mv t .env; echo SECRET$n >sub/t; mv sub/t sub/.env; \
                     mv sub sub2; mv sub2 sub; rm .env; echo SECRET$n >.env; sleep 0.05; done; \
                     mv sub sub2; echo 1 >t; mv t seen";
        host(&stage, saves);
        await_output(&session, "cat seen", "1\n");
        shown(&session.shell("touch stop"));
        let mut read = String::new();
        std::io::Read::read_to_string(reader.stdout.as_mut().unwrap(), &mut read).unwrap();
        reader.wait().unwrap();
        assert!(!read.contains("SECRET"), "{read}");
        session.end();
    }
}

/// A directory takes its mask to its new name, and a file leaves it behind.
#[test]
fn hidden_file_in_a_view_stays_hidden_when_the_host_renames_it() {
    for user in people() {
        let stage = Stage::new(user);
        let session =
            view(&stage, &[], "mkdir sub; echo SECRET >sub/.env; echo SECRET >.env; echo 0 >seen");
        // Until the workspace is watched.
        std::thread::sleep(Duration::from_millis(1500));
        host(
            &stage,
            "mv sub sub.old; sleep 0.3; mkdir sub; sleep 0.3; echo SECRET >sub/.env; mv .env .env.old; echo SECRET >.env; \
             echo 1 >t; mv t seen",
        );
        await_output(&session, "cat seen", "1\n");
        let names = "sub.old/.env sub/.env .env.old .env";
        await_output(&session, &format!("cat {names} 2>&1"), "");
        shown(&session.shell("ls -a . sub sub.old; sleep 1"));
        assert_eq!(shown(&session.shell(&format!("cat {names} 2>&1"))), "");
        session.end();
    }
}

/// At rest a thread waits, and the watches of a large workspace cost a short session nothing.
#[test]
fn a_view_at_rest_costs_no_processor_time() {
    for user in people() {
        let stage = Stage::new(user);
        let session = view(&stage, &[], "for n in $(seq 300); do mkdir -p d$((n % 20))/s$n; done");
        std::thread::sleep(Duration::from_secs(2));
        let before = ticks(&session);
        std::thread::sleep(Duration::from_secs(5));
        let spent = ticks(&session) - before;
        session.end();
        assert_eq!(spent, 0, "hundredths of a second in five seconds");
    }
}

/// The processor time of the thread that refreshes, in ticks.
fn ticks(session: &Session<'_>) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", session.process.id())).unwrap();
    let stats =
        tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("stat")).unwrap());
    let stat = stats.into_iter().find(|stat| stat.contains("(view)")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
