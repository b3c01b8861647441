//! What comes out of `git = quarantine`.

use super::QUARANTINE;
use super::common::{self, sites};

#[test]
fn commits_come_out_of_the_quarantine_and_nothing_else_does() {
    for site in sites() {
        let case = site.repository();
        let config = case.host("cat .git/config");
        let script = "echo a >> file; git commit -qam a; git branch b; git checkout -q -b c; \
                      echo c > c; git add c; git commit -qm c; git tag t; git notes add -m n; \
                      git config core.pager x; cp evil .git/hooks/post-checkout; echo d >> c; \
                      git gc -q";
        let output = case.run(QUARANTINE, script);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !told.contains("pinfold:"), "{site}: {told}");
        let look = "git symbolic-ref HEAD; git log --format=%s c --; git status --porcelain; \
                    git for-each-ref --format='%(refname)'; git notes show c; git fsck";
        let expected = "refs/heads/c\nc\na\nfirst\n M c\nrefs/heads/b\nrefs/heads/c\nrefs/heads/main\n\
                        refs/notes/commits\nrefs/tags/t\nn\n";
        assert_eq!(case.host(look), expected, "{site}");
        assert_eq!(case.host("cat .git/config"), config, "{site}");
        assert!(!case.path().join(".git/hooks/post-checkout").exists() && !case.was_marked());
        assert_eq!(case.sessions(), 0, "{site}");
    }
}

#[test]
fn a_branch_that_both_sides_moved_is_kept_beside() {
    for site in sites() {
        let case = site.repository();
        let mut child =
            case.spawn(QUARANTINE, "git commit -q --allow-empty -m in; echo ready; read x");
        common::wait_for_line(&mut child, "ready");
        case.host("git commit -q --allow-empty -m out");
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("no fast-forward"), "{site}: {told}");
        let look = "git log --format=%s -1; git for-each-ref --format='%(subject)' refs/pinfold";
        assert_eq!(case.host(look), "out\nin\n", "{site}");
    }
}

#[test]
fn a_copy_that_became_something_else_is_not_taken() {
    for site in sites() {
        for trick in [
            "mv /run/pinfold/git/0/git /run/pinfold/git/0/g; ln -s ${PWD%/work}/other /run/pinfold/git/0/git",
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
            case.run(QUARANTINE, trick);
            let after = case.host("git for-each-ref; git rev-parse HEAD; git count-objects");
            assert_eq!(after, before, "{trick} ({site})");
        }
    }
}
