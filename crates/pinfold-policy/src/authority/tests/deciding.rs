use std::time::{Duration, SystemTime};

use super::support::*;
use crate::access::Access;
use crate::authority::{Answer, Decision, DenyReason, Effect, HardLinks, UserPresence, Verdict};
use crate::glob::Glob;

fn tree() -> MemoryTree {
    MemoryTree::default()
        .file("/home/me/w/src/main.rs")
        .file("/home/me/w/.env")
        .directory("/home/me/w/.vscode")
        .file("/home/me/w/sub/.git/config")
        .link("/home/me/w/link", "sub")
        .file("/usr/bin/sh")
}

fn deny(access: Access, path: &str) -> DenyReason {
    match decide(&workspace(), &tree(), access, path) {
        Decision::Deny(reason) => reason,
        other => panic!("{path}: {other:?}"),
    }
}

fn allowed(access: Access, path: &str) -> bool {
    decide(&workspace(), &tree(), access, path).is_allowed()
}

#[test]
fn a_grant_allows_what_it_names() {
    assert!(allowed(Access::FULL, "/w/src/main.rs"));
    assert!(allowed(Access::WRITE, "/w/src/new.rs"));
    assert!(allowed(Access::READ | Access::EXECUTE, "/usr/bin/sh"));
    assert!(matches!(deny(Access::WRITE, "/usr/bin/sh"), DenyReason::AccessNotGranted { .. }));
    assert!(matches!(deny(Access::READ, "/etc/shadow"), DenyReason::NotGranted { .. }));
}

#[test]
fn leading_directories_are_listed_and_no_more() {
    assert!(allowed(Access::LIST | Access::METADATA, "/"));
    assert!(matches!(deny(Access::WRITE, "/"), DenyReason::OnlyLeads { .. }));
    assert!(matches!(deny(Access::WRITE, "/new"), DenyReason::NotGranted { .. }));
}

#[test]
fn restrictions_beat_grants() {
    assert!(matches!(deny(Access::METADATA, "/w/.env"), DenyReason::Hidden { .. }));
    let missing = "/w/.vscode/tasks.json";
    assert!(matches!(deny(Access::WRITE, missing), DenyReason::Protected { .. }));
    assert!(allowed(Access::READ, missing));
    let authority = workspace();
    let Decision::Allow(by) = decide(&authority, &tree(), Access::WRITE, "/w/sub/.git/config")
    else {
        panic!()
    };
    assert_eq!(by.private.unwrap().effect, Effect::Private);
}

#[test]
fn parent_of_a_protected_file_cannot_be_moved() {
    for path in ["/w", "/w/.vscode", "/w/sub", "/w/sub/.git", "/w/sub/.git/config"] {
        assert!(!allowed(Access::MOVE, path), "{path}");
        assert!(!allowed(Access::DELETE, path), "{path}");
    }
    assert!(matches!(deny(Access::MOVE, "/w/sub"), DenyReason::Pinned { .. }));
    assert!(allowed(Access::MOVE, "/w/src"));
    assert!(allowed(Access::DELETE, "/w/link"), "the link, not the directory it leads to");
}

#[test]
fn hiding_wins_and_otherwise_the_innermost() {
    let authority = build(
        [grant("/w", "/w", Access::FULL)],
        [
            restriction("/w/a", Effect::ReadOnly),
            restriction("/w/a/b", Effect::Private),
            restriction("/w/h", Effect::Hide),
            restriction("/w/h/p", Effect::Private),
        ],
    )
    .unwrap();
    let tree = MemoryTree::default().file("/w/a/b/f").file("/w/h/p/f");
    let ask = |path| decide(&authority, &tree, Access::WRITE, path).is_allowed();
    assert!(!ask("/w/a/f"));
    assert!(ask("/w/a/b/f"));
    assert!(!ask("/w/h/p/f"));
}

#[test]
fn question_without_a_user_is_a_refusal() {
    let mut root = grant("/w", "/w", Access::READ_ONLY);
    root.ask = Access::WRITE;
    let authority = build([root], []).unwrap();
    let tree = MemoryTree::default().file("/w/f");
    let decision = decide(&authority, &tree, Access::READ | Access::WRITE, "/w/f");
    assert_eq!(
        decision,
        Decision::Ask { prompt: "allow write on /w/f?".to_owned(), default: Answer::No }
    );
    assert_eq!(decision.clone().settle(UserPresence::Present), decision);
    let settled = decision.settle(UserPresence::Absent);
    assert!(matches!(settled, Decision::Deny(DenyReason::NobodyToAsk { .. })));
    assert!(!decide(&authority, &tree, Access::DELETE, "/w/f").is_allowed());
}

#[test]
fn an_expired_grant_allows_nothing() {
    let mut root = grant("/w", "/w", Access::FULL);
    let end = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
    root.expires = Some(end);
    let authority = build([root], []).unwrap();
    let tree = MemoryTree::default().file("/w/f");
    let resolved = authority.resolve(&tree, "/w/f").unwrap();
    let before = end - Duration::from_secs(1);
    assert!(authority.decide_at(Access::READ, &resolved, before).is_allowed());
    assert_eq!(
        authority.decide_at(Access::READ, &resolved, end),
        Decision::Deny(DenyReason::Expired {
            root: authority.grants().next().unwrap().root.id.clone()
        })
    );
}

#[test]
fn rules_limit_names_sizes_and_hard_links() {
    let mut root = grant("/w", "/w", Access::FULL);
    root.rules.deny = vec![Glob::new("*.key").unwrap()];
    root.rules.hard_links = HardLinks::RejectInWritable;
    root.rules.max_file_size = Some(100);
    let authority = build([root], []).unwrap();
    let tree = MemoryTree::default()
        .file("/w/a.key")
        .file("/w/b")
        .with(host("/w/two"), Node::File { links: 2, size: 1 })
        .with(host("/w/big"), Node::File { links: 1, size: 101 });
    let ask = |access, path| decide(&authority, &tree, access, path);
    assert!(matches!(ask(Access::READ, "/w/a.key"), Decision::Deny(DenyReason::Glob { .. })));
    assert!(matches!(ask(Access::READ, "/w/two"), Decision::Deny(DenyReason::HardLink { .. })));
    assert!(matches!(ask(Access::READ, "/w/big"), Decision::Deny(DenyReason::TooLarge { .. })));
    assert!(ask(Access::DELETE, "/w/big").is_allowed());
    assert!(ask(Access::FULL, "/w/b").is_allowed());
}

#[test]
fn an_explanation_names_every_step() {
    let authority = workspace();
    let tree = tree().link("/home/me/w/v", ".vscode");
    let explained = authority.explain(&tree, Access::WRITE, "/w/v/tasks.json").unwrap();
    assert_eq!(explained.verdict, Verdict::Deny);
    assert_eq!(
        explained.to_string(),
        "write /w/v/tasks.json: denied for agent session pi\n  \
         because   /w/.vscode/tasks.json is read-only: the host runs it\n  \
         link      /w/v -> .vscode\n  \
         inside    /w/.vscode/tasks.json\n  \
         host      /home/me/w/.vscode/tasks.json (not there yet)\n  \
         grant     root /w (workspace): read, write, execute, delete, list, move, watch, metadata; \
         by the built-in default\n  \
         restrict  /home/me/w/.vscode is read-only: the host runs it; by the built-in default\n  \
         hint      add \"it\" to opt_in under [files] in your config.toml"
    );
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json["verdict"], "deny");
    assert_eq!(json["access"][0], "write");
    let absent = authority.explain(&tree, Access::READ, "/etc/passwd").unwrap();
    assert_eq!(absent.hint.unwrap(), "grant it with --read /etc/passwd or --write /etc/passwd");
}

#[test]
fn a_mount_stays_in_place_through_every_grant_that_shows_it() {
    let grants = [
        grant("/w", "/w", Access::FULL),
        grant("/again", "/w", Access::FULL),
        grant("/w/a/vendor", "/other", Access::READ_ONLY),
    ];
    let authority = build(grants, []).unwrap();
    let tree = MemoryTree::default().directory("/w/a/vendor").directory("/other");
    for path in ["/w/a/vendor", "/again/a/vendor", "/w/a", "/again/a"] {
        let decision = decide(&authority, &tree, Access::MOVE, path);
        assert!(matches!(decision, Decision::Deny(DenyReason::Pinned { .. })), "{path}");
    }
}

#[test]
fn leading_directories_can_be_watched() {
    assert!(allowed(Access::WATCH, "/"));
}
