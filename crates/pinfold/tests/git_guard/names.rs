//! Names of branches and tags that mean something else on the host, and references that cannot be moved at once.

use super::common::{sites, text, wait_for_line};

#[test]
fn branch_named_head_is_not_made_and_its_commits_are_kept() {
    for site in sites() {
        let case = site.repository();
        let script = "git commit -q --allow-empty -m work; git update-ref refs/tags/HEAD @; \
                      git symbolic-ref HEAD refs/heads/HEAD; git update-ref HEAD main";
        let (_, stderr) = text(&case.inside(script));
        assert_eq!(case.host("git symbolic-ref HEAD"), "refs/heads/main\n", "{site}: {stderr}");
        let names = "git for-each-ref --format='%(refname)' refs/heads refs/tags";
        assert_eq!(case.host(names), "refs/heads/main\n", "{site}: {stderr}");
        assert!(stderr.contains("refs/heads/HEAD in "), "{site}: {stderr}");
        let kept = "git for-each-ref --format='%(subject)' 'refs/pinfold/*/unused/*'";
        assert_eq!(case.host(kept), "work\n", "{site}: {stderr}");
    }
}

#[test]
fn commits_under_a_name_that_is_not_used_are_kept() {
    for site in sites() {
        let case = site.repository();
        case.host("git update-ref refs/heads/own/-name HEAD");
        let script = "git checkout -q -b feature/-x; git commit -q --allow-empty -m work";
        let (_, stderr) = text(&case.inside(script));
        let kept = "git for-each-ref --format='%(subject)' 'refs/pinfold/*/unused/*'";
        assert_eq!(case.host(kept), "work\n", "{site}: {stderr}");
        assert!(stderr.contains("refs/heads/feature/-x in "), "{site}: {stderr}");
        assert!(!stderr.contains("own/-name"), "{site}: {stderr}");
    }
}

#[test]
fn short_name_that_the_host_has_for_something_else_waits() {
    for site in sites() {
        let case = site.repository();
        case.host("git branch topic; git tag v1; git update-ref refs/remotes/origin/main HEAD");
        let script = "git commit -q --allow-empty -m work; git tag topic; git branch v1; git tag v2; \
                      git branch origin/other; git checkout -q -b origin/main";
        let (_, stderr) = text(&case.inside(script));
        let names = "git for-each-ref --format='%(refname) %(subject)'";
        let shown = case.host(&format!("{names} refs/heads refs/tags"));
        let expected = "refs/heads/main work\nrefs/heads/origin/other work\nrefs/heads/topic first\n\
                        refs/tags/v1 first\nrefs/tags/v2 work\n";
        assert_eq!(shown, expected, "{site}: {stderr}");
        assert_eq!(case.host("git symbolic-ref HEAD"), "refs/heads/main\n", "{site}: {stderr}");
        let kept = case.host(&format!("{names} refs/pinfold | cut -d/ -f4-"));
        let expected = "heads/origin/main work\nheads/v1 work\ntags/topic work\n";
        assert_eq!(kept, expected, "{site}: {stderr}");
    }
}

#[test]
fn short_name_that_means_something_else_on_the_host_waits() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git symbolic-ref refs/heads/master refs/heads/main; git update-ref refs/remotes/origin/main HEAD; \
             git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main",
        );
        let script = "git checkout -q --detach; git commit -q --allow-empty -m work; git tag master; git branch origin; \
                      git tag origin/HEAD; git branch $(git rev-parse --short main); \
                      git tag v1-1-g$(git rev-parse --short main); git branch 1234567; git checkout -q main";
        let (_, stderr) = text(&case.inside(script));
        let named = "for name in master origin origin/HEAD $(git rev-parse main | cut -c-7) 1234567; \
                     do git log -1 --format=%s $name; done; git tag";
        let shown = case.host(named);
        assert_eq!(shown, "first\nfirst\nfirst\nfirst\nwork\n", "{site}: {stderr}");
        let kept = case.host("git for-each-ref refs/pinfold | wc -l");
        assert_eq!(kept.trim(), "5", "{site}: {stderr}");
    }
}

#[test]
fn reference_that_is_locked_on_the_host_holds_up_no_other_and_is_not_lost() {
    for site in sites() {
        let case = site.repository();
        case.host("git branch old");
        let script = "echo ready; read l; git commit -q --allow-empty -m work; git branch -f old; \
                      git branch side; git branch plain; echo made; read l; git log -1 --format=%s old";
        let mut child = case.spawn_inside(script);
        wait_for_line(&mut child, "ready");
        case.host("touch .git/refs/heads/old.lock .git/refs/heads/side.lock");
        let next = |child: &mut std::process::Child| {
            use std::io::Write as _;
            child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        };
        next(&mut child);
        wait_for_line(&mut child, "made");
        case.host(
            "for n in $(seq 50); do git rev-parse -q --verify plain >/dev/null && break; sleep .1; done; \
             sleep 1; rm .git/refs/heads/*.lock",
        );
        next(&mut child);
        let (shown, stderr) = text(&child.wait_with_output().unwrap());
        assert_eq!(shown, "work\n", "{site}: {stderr}");
        let names = "git for-each-ref --format='%(refname) %(subject)'";
        let expected = "refs/heads/main work\nrefs/heads/old work\nrefs/heads/plain work\n\
                        refs/heads/side work\n";
        assert_eq!(case.host(names), expected, "{site}: {stderr}");
    }
}

#[test]
fn reference_that_cannot_move_at_the_end_is_kept_and_the_others_move() {
    for site in sites() {
        let case = site.repository();
        case.host("git branch old; git branch other");
        let script = "git commit -q --allow-empty -m work; git branch -f old; git branch -f other; git branch new; \
                      git rev-parse HEAD^{tree} >.git/refs/heads/tree; echo ready; read l";
        let mut child = case.spawn_inside(script);
        wait_for_line(&mut child, "ready");
        case.host("touch .git/refs/heads/old.lock");
        drop(child.stdin.take());
        let (_, stderr) = text(&child.wait_with_output().unwrap());
        let names = "git for-each-ref --format='%(refname) %(subject)' refs/heads";
        let expected = "refs/heads/main work\nrefs/heads/new work\nrefs/heads/old first\n\
                        refs/heads/other work\n";
        assert_eq!(case.host(names), expected, "{site}: {stderr}");
        let kept = "git for-each-ref --format='%(refname)' refs/pinfold | cut -d/ -f4-";
        assert_eq!(case.host(kept), "heads/old\nheads/tree\n", "{site}: {stderr}");
        assert!(!stderr.contains("commits in "), "{site}: {stderr}");
    }
}
