use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Policy, is_canonical};
use crate::accounts::Account;

fn account(name: &str, home: &str) -> Account {
    Account { name: name.to_owned(), uid: 1000, gid: 1000, home: PathBuf::from(home) }
}

fn policy(roots: &str) -> String {
    format!(
        r#"{{"user": "pi-agent", "stateDir": "/var/lib/pi-agent",
            "hostUsers": {{"alice": {{"projectRoots": {roots}}}}}}}"#
    )
}

fn refused(text: &str) -> String {
    Policy::parse(text.as_bytes()).unwrap_err().what
}

#[test]
fn policy_gives_a_user_its_roots_and_pinfolds_own_directories() {
    let policy = Policy::parse(policy(r#"["~/work", "/srv/shared"]"#).as_bytes()).unwrap();
    assert_eq!(policy.program, Path::new("/usr/bin/pinfold"));
    let directories = policy.directories(&account("alice", "/home/alice")).unwrap();
    let expected = [
        "/home/alice/work",
        "/srv/shared",
        "/home/alice/.local/state/pinfold",
        "/home/alice/.cache/pinfold",
    ];
    assert_eq!(directories, expected.map(PathBuf::from));
}

#[test]
fn user_without_an_entry_is_refused_by_name() {
    let policy = Policy::parse(policy(r#"["~/work"]"#).as_bytes()).unwrap();
    for name in ["bob", "Alice", "alice2", "root"] {
        let refusal = policy.directories(&account(name, "/home/x")).unwrap_err();
        assert!(refusal.what.contains(&format!("has no user {name}")), "{refusal}");
        assert!(refusal.hint.is_some());
    }
}

#[test]
fn host_user_may_have_a_service_user_of_its_own() {
    let text = r#"{"user": "agent", "stateDir": "/var/lib/x", "hostUsers": {
        "alice": {"projectRoots": ["/a"], "user": "agent-alice"}, "bob": {"projectRoots": ["/b"]}}}"#;
    let policy = Policy::parse(text.as_bytes()).unwrap();
    assert_eq!(
        ["alice", "bob", "carol"].map(|name| policy.service(name)),
        ["agent-alice", "agent", "agent"]
    );
}

#[test]
fn home_that_is_no_path_gives_nothing() {
    let policy = Policy::parse(policy(r#"["~/work"]"#).as_bytes()).unwrap();
    for home in ["/home/../etc", "home", "/home//alice", "/home/./a", ""] {
        policy.directories(&account("alice", home)).unwrap_err();
    }
}

#[test]
fn roots_and_the_service_users_directory_do_not_contain_each_other() {
    for root in ["/var", "/var/lib/pi-agent", "/var/lib/pi-agent/users/bob"] {
        let policy = Policy::parse(policy(&format!("[{root:?}]")).as_bytes()).unwrap();
        let refusal = policy.directories(&account("alice", "/home/alice")).unwrap_err();
        assert!(refusal.what.contains("lie in each other"), "{refusal}");
    }
}

#[test]
fn policy_that_is_incomplete_ambiguous_or_unknown_is_refused() {
    let base = |user: &str, users: &str, more: &str| {
        format!(r#"{{"user": {user:?}, "stateDir": "/var/lib/x", "hostUsers": {users}{more}}}"#)
    };
    let alice = r#"{"alice": {"projectRoots": ["/srv"]}}"#;
    assert!(Policy::parse(base("agent", alice, "").as_bytes()).is_ok());
    let cases = [
        ("", "EOF"),
        ("[]", "invalid"),
        (&base("agent", r#"{"alice": {}}"#, ""), "missing field"),
        (&base("agent", r#"{"alice": {"projectRoots": ["/a"], "uid": 0}}"#, ""), "unknown field"),
        (&base("agent", alice, r#", "shell": "/bin/sh""#), "unknown field"),
        (&base("agent", alice, r#", "tasksMax": -1"#), "invalid value"),
        (&base("agent", alice, r#", "runtimeMaxSec": 0"#), "nonzero"),
        (&base("agent", alice, r#", "memoryMax": 0"#), "nonzero"),
        (&base("agent", alice, r#", "tasksMax": 0"#), "nonzero"),
        (&base("agent", alice, r#", "environment": {"A": 1}"#), "invalid type"),
        (&base("agent", alice, r#", "settings": []"#), "invalid type"),
        (&base("agent", alice, r#", "program": "/opt/a b""#), "program"),
        (&base("agent", alice, r#", "program": "pinfold""#), "program"),
        (&base("agent", alice, r#", "program": "/opt/%h/pinfold""#), "program"),
    ];
    for (text, expected) in cases {
        let said = refused(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
    let twice = r#"{"alice": {"projectRoots": ["/a"]}, "alice": {"projectRoots": ["/b"]}}"#;
    assert!(refused(&base("agent", twice, "")).contains("twice"));
    assert!(refused(&base("agent", alice, r#", "user": "other""#)).contains("duplicate field"));
}

#[test]
fn state_directory_that_systemd_reads_as_more_than_a_path_is_refused() {
    for directory in ["/var/lib/a b", "/var/lib/a:rw", "/var/%h", "/", "var", "/a/..", "/a\\x20"] {
        let text = format!(
            r#"{{"user": "agent", "stateDir": {directory:?}, "hostUsers": {{"alice": {{"projectRoots": ["/srv"]}}}}}}"#
        );
        assert!(refused(&text).contains("stateDir"), "{directory}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_policy_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Policy::parse(&text);
    }

    #[test]
    fn canonical_paths_have_nothing_to_resolve(path in "[/.a~]{0,12}") {
        if is_canonical(Path::new(&path)) {
            prop_assert!(path.starts_with('/') && path.len() > 1 && !path.ends_with('/'));
            prop_assert!(path[1..].split('/').all(|name| !["", ".", ".."].contains(&name)), "{path}");
        }
    }
}
