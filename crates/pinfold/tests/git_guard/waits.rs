//! Whatever names it: content that tools on the host run by themselves waits for its user.

use super::common::{sites, text};

/// Makes a commit with an `.envrc`, without a file of that name in the working tree.
const PLANT: &str = "b=$(echo evil | git hash-object -w --stdin); \
    git update-index --add --cacheinfo 100644,$b,.envrc; git commit -qm planted; \
    git rm -q --cached .envrc;";

/// What a user does with what came out.
const USE: &str = "git reset -q --hard; git stash pop -q 2>/dev/null || true; \
    git checkout -q v1 2>/dev/null || true; ls .envrc 2>/dev/null || true";

#[test]
fn a_detached_head_brings_nothing_that_tools_run() {
    for site in sites() {
        let case = site.repository();
        let (_, stderr) = text(&case.inside(&format!("git checkout -q --detach; {PLANT} sleep 2")));
        assert_eq!(case.host(USE), "", "{site}: {stderr}");
        assert_eq!(case.host("git log -1 --format=%s"), "first\n", "{site}: {stderr}");
        assert!(stderr.contains("brings .envrc"), "{site}: {stderr}");
    }
}

#[test]
fn neither_tags_nor_stashes_bring_what_tools_run() {
    for site in sites() {
        for tag in ["git tag v1 $c", "git tag -a -m x v1 $c"] {
            let case = site.repository();
            let script = format!(
                "{PLANT} c=$(git rev-parse HEAD); git reset -q --hard HEAD~; {tag}; git tag v2; \
                 git update-index --add --cacheinfo 100644,$b,.envrc; \
                 t=$(git write-tree); i=$(git commit-tree -m i -p HEAD $t); \
                 w=$(git commit-tree -m w -p HEAD -p $i $t); git reset -q --hard; \
                 u=$(git commit-tree -m u $t); \
                 s=$(git commit-tree -m s -p HEAD -p $(git commit-tree -m i -p HEAD HEAD^{{tree}}) \
                 -p $u HEAD^{{tree}}); git stash store -m s $s; git stash store -m w $w; sleep 2; \
                 echo y > file; git stash -q"
            );
            let (_, stderr) = text(&case.inside(&script));
            assert_eq!(case.host("git stash list | wc -l; git tag"), "1\nv2\n", "{site}: {stderr}");
            assert_eq!(case.host(USE), "", "{site}: {stderr}");
            assert!(
                stderr.contains("git stash apply") && stderr.contains("git tag v1"),
                "{stderr}"
            );
        }
    }
}

#[test]
fn commits_that_later_ones_take_back_wait_as_well() {
    let take_back = format!("{PLANT} git commit -qm taken-back;");
    for site in sites() {
        for (script, waits) in [
            (take_back.clone(), "main"),
            (take_back.replace(".envrc", ".mcp.json"), "main"),
            (format!("git checkout -q -b side; {take_back} git tag v1; git branch -D side;"), "v1"),
            (
                format!(
                    "git checkout -q -b side; {PLANT} git reset -q --hard; git checkout -q main; \
                         git merge -q -s ours -m merged side; git branch -D side;"
                ),
                "main",
            ),
            (format!("git checkout -q --orphan root; {take_back} git checkout -q main"), "root"),
        ] {
            let case = site.repository();
            let (_, stderr) = text(&case.inside(&script));
            assert!(
                stderr.contains("brings .envrc") || stderr.contains("brings .mcp.json"),
                "{site}: {script}: {stderr}"
            );
            assert!(stderr.contains(waits), "{site}: {script}: {stderr}");
            // Another session names the commit, if it has it.
            let (_, stderr) = text(&case.inside(
                "for c in $(git rev-list --all); do git branch v-$c $c; git tag t-$c $c; done",
            ));
            let look = "git log --branches --tags --format=%s -- .envrc .mcp.json";
            assert_eq!(case.host(look), "", "{site}: {script}: {stderr}");
        }
    }
}

#[test]
fn rebased_branch_of_the_host_with_protected_files_comes_out() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git checkout -q -b feature; for i in 1 2 3; do echo $i > .envrc; git add -f .envrc; \
             git commit -qm $i; done; git checkout -q main; echo m > m; git add m; git commit -qm m",
        );
        let script = "git worktree add -q -b rebased /tmp/w feature; git -C /tmp/w rebase -q main; \
                      git worktree remove /tmp/w";
        let (_, stderr) = text(&case.inside(script));
        assert_eq!(
            case.host("git log --format=%s rebased"),
            "3\n2\n1\nm\nfirst\n",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn tag_of_a_tree_with_what_tools_run_waits() {
    for site in sites() {
        let case = site.repository();
        let script = format!(
            "{PLANT} t=$(git rev-parse HEAD^{{tree}}); git reset -q --hard HEAD~; git tag v1 $t; \
             git tag -a -m x v2 $t; git tag -a -m x v3 v2 2>/dev/null; git tag v4 HEAD^{{tree}}; git tag v5 $b"
        );
        let (_, stderr) = text(&case.inside(&script));
        assert_eq!(case.host("git tag"), "v4\nv5\n", "{site}: {stderr}");
        assert!(
            stderr.contains("refs/tags/v1 in ") && stderr.contains("brings .envrc"),
            "{stderr}"
        );
    }
}

#[test]
fn commits_on_a_detached_head_of_the_host_come_out_although_no_branch_has_its_files() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git checkout -q --detach; mkdir .vscode; echo {} >.vscode/tasks.json; git add -f .vscode; \
             git commit -qm mine",
        );
        let (_, stderr) =
            text(&case.inside("git commit -q --allow-empty -m work; git branch side"));
        let shown = case.host("git log --format=%s; git log -1 --format=%s side");
        assert_eq!(shown, "work\nmine\nfirst\nwork\n", "{site}: {stderr}");
    }
}
