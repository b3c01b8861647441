//! What another session in the same checkout does to the paths of a live one: a directory renamed,
//! and another one, or a link to one, in its place.

use std::io::Write as _;

use super::common::{Case, Site, sites, text, wait_for_line};

/// What puts another repository in the place of `sub`.
const SWAPS: [&str; 3] = [
    "mv sub aside; ln -s ../victim sub",
    "mv sub aside; mv ../victim sub; ln -s work/sub ../victim",
    "mv deep aside; mkdir deep; ln -s ../../victim deep/sub",
];

/// What the sandbox has the host take over, and would have it remove.
const INSIDE: &str = "cd sub; git remote add evil https://evil.test/x; git config user.name evil; git config user.email e@evil.test
    git commit -q --allow-empty -m evil; echo ready; read -r go";

fn repository(site: &Site, swap: &str) -> Case {
    let case = site.repository();
    // Empty directories and files are what placeholders are.
    case.host(
        "git init -q --template= ../victim; cd ../victim; git config user.name owner; git config user.email o@example.org
         git commit -q --allow-empty -m owner
         mkdir .git/hooks .git/info; touch .git/config.worktree .git/info/attributes",
    );
    if swap.contains("deep") {
        case.host("mkdir deep; git init -q --template= deep/sub; ln -s deep/sub sub")
    } else {
        case.host("git init -q --template= sub")
    };
    case
}

fn victim(case: &Case) -> String {
    case.host(
        "cd ../victim; find -P . ! -name index | sort; cat .git/config .git/HEAD
         git for-each-ref --format='%(refname) %(objectname)'",
    )
}

#[test]
fn nothing_of_another_directory_is_changed_in_the_place_of_one_that_was_moved() {
    // A repository that is moved into the workspace is new there, and is rebuilt.
    let swaps = SWAPS.iter().filter(|swap| !swap.contains("mv ../victim"));
    for (site, swap) in swaps.flat_map(|swap| sites().into_iter().map(move |site| (site, swap))) {
        let case = repository(&site, swap);
        let before = victim(&case);
        let mut run = case.spawn(&[], INSIDE);
        wait_for_line(&mut run, "ready");
        case.host(swap);
        run.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let (_, stderr) = text(&run.wait_with_output().unwrap());
        assert_eq!(victim(&case), before, "{site}, {swap}: {stderr}");
        // A link in its place leads out of the workspace.
        let is_reported = stderr.contains("it is not the directory that it was")
            || stderr.contains("sub (set aside") && stderr.contains("the link leads out");
        assert!(is_reported, "{swap}: {stderr}");
    }
}

#[test]
fn files_of_a_dead_session_are_not_removed_elsewhere() {
    // One that is moved into the workspace is new there.
    let swaps = SWAPS.iter().filter(|swap| !swap.contains("mv ../victim"));
    for (site, swap) in swaps.flat_map(|swap| sites().into_iter().map(move |site| (site, swap))) {
        let case = repository(&site, swap);
        let before = victim(&case);
        let mut run = case.spawn(&[], INSIDE);
        wait_for_line(&mut run, "ready");
        run.kill().unwrap();
        run.wait().unwrap();
        case.host(swap);
        // The next session that starts, elsewhere, cleans up.
        case.host("mkdir ../elsewhere");
        let output = case.run_in("../elsewhere", &[], "true");
        assert!(output.status.success(), "{}", text(&output).1);
        assert_eq!(victim(&case), before, "{site}, {swap}");
    }
}
