//! Masks on names that the host saves while a session lives.

use std::fs;
use std::io::Write as _;
use std::process::Child;
use std::time::Duration;

use pinfold_testkit::{installed, skip};

use super::common::{Case, sites, text, wait_for_line};

/// Waits for a line, tries what was masked, and says what it got.
/// Before, the directories of masks are not watched yet, and each save counts as the sandbox's.
const INSIDE: &str = "sleep 1; echo ready; read go; cat .env notes.txt 2>/dev/null; echo evil >> .envrc; \
    mkdir .husky/x; echo evil > .mcp.json; echo tried";

fn case(site: &super::common::Site) -> Case {
    let case = site.repository();
    case.host(
        "mkdir .husky; echo old > .env; echo a > .envrc; echo {} > .mcp.json; ln .env notes.txt; \
         mkdir sub; echo old > sub/.env",
    );
    case
}

/// Runs a script on the host in the middle of a session; returns what the session said.
fn saved(case: &Case, options: &[&str], inside: &str, host: &str) -> (String, String) {
    let mut run = case.spawn(options, inside);
    wait_for_line(&mut run, "ready");
    case.host(host);
    // Far longer than a mask needs to be put back.
    std::thread::sleep(std::time::Duration::from_millis(500));
    // A session that was ended takes none.
    let _ = run.stdin.take().unwrap().write_all(b"go\n");
    text(&run.wait_with_output().unwrap())
}

#[test]
fn a_save_on_the_host_uncovers_nothing_for_long() {
    for site in sites() {
        let case = case(&site);
        let host = "for f in .env .envrc .mcp.json; do echo new > $f.tmp; mv $f.tmp $f; done; \
                    mv .husky h; mv h .husky";
        let (shown, stderr) = saved(&case, &[], INSIDE, host);
        assert_eq!(shown, "tried\n", "{site}: {stderr}");
        assert_eq!(case.host("cat .env .envrc .mcp.json; ls .husky"), "new\nnew\nnew\n", "{site}");
        assert!(stderr.contains("work/.env, "), "{site}: {stderr}");
        assert!(stderr.contains("work/.envrc: saved on the host"), "{site}: {stderr}");
        assert!(stderr.contains("change the secrets in it"), "{site}: {stderr}");
        assert!(stderr.contains("look at it before you use it"), "{site}: {stderr}");
    }
}

#[test]
fn a_directory_that_the_host_replaces_is_masked_again() {
    for site in sites() {
        let case = case(&site);
        let host = "mv sub old; mkdir sub; echo new > sub/.env.tmp; mv sub/.env.tmp sub/.env";
        let inside = "echo ready; read go; cat sub/.env 2>/dev/null; echo tried";
        let (shown, stderr) = saved(&case, &[], inside, host);
        assert_eq!(shown, "tried\n", "{site}: {stderr}");
    }
}

/// The sandbox brings a file of its own to a hidden name, by an exchange of two directories above it.
const EXCHANGE: &str = r#"
import ctypes, os, time
time.sleep(1)
os.makedirs("new/sub")
open("new/sub/.env", "w").write("own")
assert ctypes.CDLL(None).renameat2(-100, b"above", -100, b"new", 2) == 0
time.sleep(0.5)
print(open("above/sub/.env").read() + open("new/sub/.env").read() + "tried")
"#;

#[test]
fn directories_that_the_sandbox_exchanges_are_not_reported_as_saved_on_the_host() {
    if !installed("python3") {
        skip("directories_that_the_sandbox_exchanges", "python3 is not installed");
        return;
    }
    for site in sites() {
        let case = site.repository();
        case.host("mkdir -p above/sub; echo old > above/sub/.env");
        let script = format!("python3 -c '{}'", EXCHANGE.replace('\'', "\""));
        let (shown, stderr) = text(&case.inside(&script));
        assert_eq!(shown, "tried\n", "{site}: {stderr}");
        assert!(!stderr.contains("saved on the host"), "{site}: {stderr}");
        assert!(
            stderr.contains("above/sub/.env: replaced while the sandbox ran"),
            "{site}: {stderr}"
        );
        assert_eq!(case.host("cat above/sub/.env; cat new/sub/.env"), "ownold\n", "{site}");
    }
}

#[test]
fn file_written_during_an_unmasked_moment_is_set_aside() {
    for site in sites() {
        let case = case(&site);
        // A descriptor that was opened before the mask came back.
        let inside = "echo ready; while ! exec 3>>.envrc; do :; done 2>/dev/null; sleep 1; \
                      echo evil >&3; echo tried";
        let mut run = case.spawn(&[], inside);
        wait_for_line(&mut run, "ready");
        for _ in 0..20 {
            case.host("echo new > .envrc.tmp; mv .envrc.tmp .envrc");
        }
        let (_, stderr) = text(&run.wait_with_output().unwrap());
        let left = case.host("cat .envrc 2>/dev/null || true");
        assert!(!left.contains("evil"), "{site}: {left}{stderr}");
    }
}

/// Opens each file in the moment in which it can be opened, and writes to it.
const CATCH: &str = r#"
import os, time
time.sleep(1)
print("ready", flush=True)
for number in range(20):
    while not os.path.exists(f"done{number}"):
        try:
            file = os.open(f"d{number}/.mcp.json", os.O_WRONLY | os.O_APPEND)
        except OSError:
            continue
        os.write(file, b"evil")
        os.close(file)
        break
print("tried")
"#;

#[test]
fn file_written_and_closed_in_an_unmasked_moment_is_set_aside() {
    if !installed("python3") {
        skip("file_written_and_closed_in_an_unmasked_moment", "python3 is not installed");
        return;
    }
    for site in sites() {
        let case = case(&site);
        case.host("for i in $(seq 0 19); do mkdir d$i; echo {} > d$i/.mcp.json; done");
        let mut run = case.spawn(&[], &format!("python3 -c '{}'", CATCH.replace('\'', "\"")));
        wait_for_line(&mut run, "ready");
        case.host(
            "for i in $(seq 0 19); do echo new > d$i/tmp; mv d$i/tmp d$i/.mcp.json; sleep 0.03; \
             touch done$i; done",
        );
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        assert_eq!(shown, "tried\n", "{site}: {stderr}");
        let left = case.host("cat d*/.mcp.json 2>/dev/null || true");
        assert!(!left.contains("evil"), "{site}: {left}{stderr}");
    }
}

/// What takes a name that is free, or that the host has just saved, is the sandbox's, though it is masked at once.
#[test]
fn a_file_that_the_sandbox_puts_on_a_protected_name_is_set_aside() {
    let take = |name: &str| format!("until mv -f evil {name} && test ! -e evil; do :; done 2>&-;");
    let host = "for f in .envrc .mcp.json; do echo new > $f.tmp; mv $f.tmp $f; sleep 0.2; done";
    for site in sites() {
        for (inside, host) in [
            (take(".mcp.json"), "rm .mcp.json"),
            (take(".envrc"), "mv .envrc .envrc~"),
            (take(".husky"), "mv .husky h"),
            (take(".envrc"), host),
            ("mv sub moved; mkdir sub; mv evil sub/.envrc;".into(), ""),
        ] {
            let make = if inside.contains(".husky") {
                "mkdir evil; echo evil > evil/pre-commit;"
            } else {
                "echo evil > evil;"
            };
            let runs = ["", "sleep 0.4;"].map(|start| {
                let case = case(&site);
                case.host("echo a > sub/.envrc");
                let inside = format!("{start} {make} echo ready; {inside} sleep 0.4; echo tried");
                let run = case.spawn(&[], &format!("timeout 1.5 sh -c '{inside}' || :"));
                (case, run)
            });
            for (case, mut run) in runs {
                wait_for_line(&mut run, "ready");
                case.host(host);
                let (_, stderr) = text(&run.wait_with_output().unwrap());
                let left = case.host("cat .mcp.json .envrc .husky/* sub/.envrc 2>/dev/null || :");
                assert!(!left.contains("evil"), "{site}, {inside}, {host}: {left}{stderr}");
            }
        }
    }
}

#[test]
fn a_git_directory_that_the_host_replaces_ends_the_session() {
    for site in sites() {
        let case = case(&site);
        let inside = "echo ready; read go; sleep 10; echo lived";
        // In one step: the end of the session may set aside what a slower one has made so far.
        let host = "git init -q --template= -b main ../new; rm -rf .git; mv ../new/.git .git";
        let (shown, stderr) = saved(&case, &[], inside, host);
        assert!(
            !shown.contains("lived") && stderr.contains("the session was ended"),
            "{site}: {stderr}"
        );
    }
}

/// Stops what builds the sandbox of a run as soon as it has put its first mask, and lets it go on a while later.
fn stop_between_masks(run: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process};
    /// Far longer than two masks are apart.
    const PAUSE: Duration = Duration::from_millis(500);
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let is_init = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"pinfold-init"))
    };
    let init = || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        children.split(' ').filter_map(|pid| pid.parse().ok()).find(is_init)
    };
    // A session that was too fast for this has ended, or has its masks: its mounts are the same.
    let init = loop {
        match init() {
            Some(init) => break Pid::from_raw(init).unwrap(),
            None if run.try_wait().unwrap().is_some() => return,
            None => {}
        }
    };
    let mut pause = Duration::from_millis(1);
    while pause < PAUSE && kill_process(init, Signal::STOP).is_ok() {
        let mounts = fs::read_to_string(format!("/proc/{init}/mountinfo")).unwrap_or_default();
        if mounts.contains(" /run/pinfold/objects/") {
            pause = PAUSE;
        }
        std::thread::sleep(pause);
        let _ = kill_process(init, Signal::CONT);
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What keeps masks in place must not put one before its turn: a mask on `.git` hides the objects that another one
/// takes from there.
#[test]
fn masks_of_a_sandbox_that_is_built_slowly_are_put_once() {
    for site in sites() {
        for options in [&[][..], &["--workspace", "overlay"]] {
            let case = case(&site);
            case.host("for n in $(seq 60); do mkdir d$n; echo x >d$n/.env; done");
            let inside = "git log --format=%s; cut -d' ' -f5 /proc/self/mountinfo | grep -E '/work/|/objects' | sort | uniq -d";
            let mut run = case.spawn(options, inside);
            stop_between_masks(&mut run);
            let (shown, stderr) = text(&run.wait_with_output().unwrap());
            assert_eq!(shown, "first\n", "{site}, {options:?}: {stderr}");
            assert!(!stderr.contains("replaced"), "{site}, {options:?}: {stderr}");
        }
    }
}

/// A mask that cannot be put in place ends the sandbox, and the start with that.
#[test]
fn a_start_during_which_the_host_removes_what_is_masked_ends() {
    const CHANGES: &str = "while [ ! -e ../over ]; do \
        for n in 1 2 3 4 5 6 7 8; do mkdir d$n; echo x >d$n/.env; done; rm -r d?; done";
    let ends = |run: &mut Child| {
        (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            run.try_wait().unwrap().is_some()
        })
    };
    for site in sites() {
        let case = case(&site);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| case.host(CHANGES));
            let ended = (0..8).try_for_each(|_| {
                let mut run = case.spawn(&[], "true");
                if !ends(&mut run) {
                    run.kill().unwrap();
                    return Err("the start did not end".to_owned());
                }
                let output = run.wait_with_output().unwrap();
                let (_, stderr) = text(&output);
                let is_hinted = stderr.contains("while the session was starting: run it again");
                if output.status.success() || is_hinted { Ok(()) } else { Err(stderr) }
            });
            case.host("touch ../over");
            ended
        });
        assert_eq!(ended, Ok(()), "{site}");
    }
}

/// Nobody would put a mask back any more: a key at the terminal, or a lack of memory, can end the helper.
#[test]
fn a_session_ends_with_what_keeps_its_masks() {
    for site in sites() {
        let case = case(&site);
        let mut run = case.spawn(&[], "trap '' INT; echo ready; sleep 10; echo lived");
        wait_for_line(&mut run, "ready");
        let find = format!("pgrep -P {} -f keep-masks", run.id());
        let helper = case.host(&find);
        let helper = helper.trim();
        case.host(&format!("test \"$(ps -o pgid= -p {helper})\" -eq {helper}; kill -9 {helper}"));
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        assert!(!shown.contains("lived"), "{site}: {stderr}");
        assert!(stderr.contains("what keeps masks in place ended"), "{site}: {stderr}");
    }
}

/// The mask moves with the directory, to where nobody knows that there is one.
#[test]
fn a_save_in_a_directory_that_the_session_moved_ends_it() {
    for site in sites() {
        for inside in ["mv sub moved", "mv sub moved; mkdir sub; echo x > sub/.env"] {
            let case = case(&site);
            let inside = format!("{inside}; echo ready; read go; cat moved/.env; echo lived");
            let host = "sleep 0.2; echo new > moved/.env.tmp; mv moved/.env.tmp moved/.env";
            let (shown, stderr) = saved(&case, &[], &inside, host);
            assert_eq!(shown, "", "{site}: {stderr}");
            assert!(stderr.contains("the session was ended"), "{site}: {stderr}");
        }
        let case = case(&site);
        let inside = "mv sub moved; mkdir n; mv moved n/sub; echo ready; read go; mv n/sub sub; echo x > \
                      n/y; rm -r n; cat sub/.env 2>/dev/null; echo lived";
        let (shown, stderr) = saved(&case, &[], inside, "echo y > n/sub/y; rm n/sub/y");
        assert_eq!(shown, "lived\n", "{site}: {stderr}");
    }
}

/// In its first moments a session watches no directories: what happens there is found at its end.
#[test]
fn save_in_a_short_session_is_reported() {
    for site in sites() {
        for (inside, host) in [
            ("", "echo new > .env.tmp; mv .env.tmp .env"),
            ("", "mv sub old; mkdir sub; echo new > sub/.env"),
            ("", "mv .env .bak; echo new > .env; sleep 0.05; mv .bak .env"),
            ("mv sub moved", "echo new > moved/.env.tmp; mv moved/.env.tmp moved/.env"),
            ("mv sub moved; mkdir sub", "rm moved/.env; echo new > moved/.env"),
        ] {
            let case = case(&site);
            let mut run = case.spawn(&[], &format!("{inside}\necho ready; read go"));
            wait_for_line(&mut run, "ready");
            case.host(host);
            let _ = run.stdin.take().unwrap().write_all(b"go\n");
            let (_, stderr) = text(&run.wait_with_output().unwrap());
            let is_reported =
                stderr.contains("may have read it") || stderr.contains("session was ended");
            assert!(is_reported && stderr.contains("/.env: "), "{site}, {host}: {stderr}");
        }
    }
}

#[test]
fn a_secret_that_was_moved_out_cannot_be_read_while_the_host_saves_it() {
    for site in sites() {
        let case = site.repository();
        // One whose name says nothing is a link that leads nowhere.
        case.host("echo old >.env; echo old >plain.txt; echo .env >.gitignore");
        for name in [".env", "plain.txt"] {
            let moved = case.pinfold_itself(&["hide", name]);
            assert!(moved.status.success(), "{site}: {}", text(&moved).1);
        }
        assert!(!case.host("git status --porcelain").contains(".env"), "{site}");
        let inside = "echo ready; end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do
            cat .env plain.txt $(readlink .env plain.txt) 2>/dev/null; done; echo tried";
        let mut run = case.spawn(&[], inside);
        wait_for_line(&mut run, "ready");
        let refused = text(&case.pinfold_itself(&["hide", "--undo", ".env"])).1;
        assert!(refused.contains("uses the directory of"), "{site}: {refused}");
        case.host("for n in $(seq 200); do echo new$n >.env; echo new$n >plain.txt; done");
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        assert_eq!(shown, "tried\n", "{site}: {stderr}");
        assert!(!stderr.contains("saved on the host"), "{site}: {stderr}");
        assert_eq!(case.host("cat .env plain.txt"), "new200\nnew200\n", "{site}");
        case.host("echo again >t; mv t .env");
        let (_, stderr) = text(&case.inside("true"));
        let note = "work/.env, which was hidden, is a file again";
        assert!(stderr.contains(note), "{site}: {stderr}");
        let moved = case.pinfold_itself(&["hide", ".env", "plain.txt"]);
        assert!(text(&moved).1.contains("is hidden already"), "{site}: {}", text(&moved).1);
        let (_, stderr) = text(&case.inside("true"));
        assert!(!stderr.contains("is a file again"), "{site}: {stderr}");
        case.pinfold_itself(&["hide", "--undo", ".env", "plain.txt"]);
        assert_eq!(case.host("cat .env plain.txt; find . -type l"), "again\nnew200\n", "{site}");
    }
}

#[test]
fn git_decides_whether_a_secret_is_moved_without_force() {
    for site in sites() {
        let case = site.repository();
        case.host("echo k >.env; git add .env; git commit -qm env; echo typed >.env; mkdir sub; echo k >sub/.env");
        let refused = case.pinfold_itself(&["hide", ".env"]);
        let (_, stderr) = text(&refused);
        assert!(!refused.status.success() && stderr.contains("git tracks"), "{site}: {stderr}");
        assert!(stderr.contains("hint: "), "{site}: {stderr}");
        assert!(case.pinfold_itself(&["hide", "--force", ".env", "sub/.env"]).status.success());
        let (listed, _) = text(&case.pinfold_itself(&["hide"]));
        assert_eq!(listed.matches("/.env  hidden\n").count(), 2, "{site}: {listed}");
        assert!(case.pinfold_itself(&["hide", "--undo", ".env", "sub/.env"]).status.success());
        assert_eq!(
            case.host("cat .env sub/.env; git status --porcelain"),
            "typed\nk\n M .env\n?? sub/\n"
        );
        assert_eq!(
            text(&case.pinfold_itself(&["hide"])).1,
            "pinfold: nothing is hidden\n",
            "{site}"
        );
    }
}

/// A working directory leads past a mask that is put on it later, and what is written deep in it changes no time of
/// the directory that the mask lies on.
#[test]
fn what_the_sandbox_writes_into_a_directory_that_the_host_moves_to_a_protected_name_is_set_aside() {
    for site in sites() {
        let case = case(&site);
        case.host("mkdir -p h/_");
        let inside = "sleep 0.4; cd h/_; echo ready; read go; echo evil >pre-commit; echo tried";
        let (shown, stderr) = saved(&case, &[], inside, "mv -T h .husky");
        let left = case.host("find .husky -type f 2>/dev/null || :");
        assert_eq!((shown.as_str(), left.as_str()), ("tried\n", ""), "{site}: {stderr}");
    }
}

/// inotify needs the right to read a directory, and names in it can be changed without.
#[test]
fn a_directory_that_the_sandbox_closes_before_it_is_watched_is_kept() {
    for site in sites() {
        for mode in ["300", "0"] {
            let case = case(&site);
            let inside = format!(
                "chmod {mode} sub; sleep 0.6; chmod 700 sub; echo ready; read go; cat sub/.env 2>/dev/null; echo tried"
            );
            let (shown, stderr) = saved(&case, &[], &inside, "echo new >sub/t; mv sub/t sub/.env");
            assert_eq!(shown, "tried\n", "{site}, {mode}: {stderr}");
        }
    }
}
