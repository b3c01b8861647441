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
        assert!(stderr.contains("changes .envrc"), "{site}: {stderr}");
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
