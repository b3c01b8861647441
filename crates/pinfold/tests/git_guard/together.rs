//! Two sessions at once in one checkout, of which one makes what the other starts with.

use std::io::Write as _;
use std::process::Child;

use super::common::{sites, text, wait_for_line};

fn go(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
}

/// Git on the host works for each session in the repositories that the session has a copy of. One that
/// another live session made is under its control: `commondir` leads git to any other repository.
#[test]
fn a_repository_that_a_live_session_made_is_hidden_from_others() {
    for site in sites() {
        for options in [&[][..], &["--workspace", "overlay"]] {
            let case = site.repository();
            let make = "mkdir x; git init -q -b main x/r; cd x/r; git config user.name a; \
                        git config user.email b; git commit -q --allow-empty -m a; echo ready; read go";
            let mut first = case.spawn_inside(make);
            wait_for_line(&mut first, "ready");
            let look = "ls -A x/r/.git; git -C x/r branch evil 2>&1; git log --format=%s; echo y >>file; \
                        git config user.name a; git config user.email b; git commit -qam own";
            let (shown, stderr) = text(&case.run(options, look));
            assert!(!shown.contains("HEAD\n"), "{site}: {shown}{stderr}");
            assert!(shown.contains("first\n"), "{site}: {shown}{stderr}");
            go(&mut first);
            let (_, stderr) = text(&first.wait_with_output().unwrap());
            assert!(stderr.contains("new repository"), "{site}: {stderr}");
            assert_eq!(
                case.host("git -C x/r for-each-ref | wc -l").trim(),
                "1",
                "{site}: {stderr}"
            );
            // The next session has it.
            assert_eq!(text(&case.inside("git -C x/r log --format=%s")).0, "a\n", "{site}");
        }
    }
}

/// Two sessions that help each other: the link of one is where its look does not come, and back when
/// the other ends, which has seen it at its start.
#[test]
fn a_link_that_is_away_while_its_session_ends_is_found_by_the_other() {
    for site in sites() {
        // Without a repository: nothing in `sub` is masked, so the second session can move it.
        let case = site.bare_directory();
        case.host("mkdir sub; sleep 0.05");
        let make = "mkdir -p x/sub; ln -s /home x/sub/l; touch x/sub/$(printf 'a\\033'); echo ready; read go";
        let mut first = case.spawn_in("sub", &[], make);
        wait_for_line(&mut first, "ready");
        let hide = "echo ready; read go; mv sub/x away; echo moved; read go; mv away sub/x";
        let mut second = case.spawn_inside(hide);
        wait_for_line(&mut second, "ready");
        go(&mut second);
        wait_for_line(&mut second, "moved");
        go(&mut first);
        let (_, stderr) = text(&first.wait_with_output().unwrap());
        assert!(!stderr.contains("set aside"), "{site}: {stderr}");
        go(&mut second);
        let (_, stderr) = text(&second.wait_with_output().unwrap());
        assert_eq!(case.host("ls -A sub/x/sub"), "", "{site}: {stderr}");
        assert!(stderr.contains("sub/x/sub/l (set aside"), "{site}: {stderr}");
    }
}
