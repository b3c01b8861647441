use std::path::{Path, PathBuf};

use pinfold_runner::accounts::Account;
use pinfold_runner::policy::Policy;

use super::{checked, configuration};

#[test]
fn configuration_comes_from_the_home_or_from_where_the_policy_says() {
    let text = br#"{"user": "pi-agent", "stateDir": "/var/lib/x", "configPath": ".pi/other", "hostUsers": {
        "alice": {"projectRoots": ["/a"]},
        "bob": {"user": "pi-bob", "projectRoots": ["/b"], "configPath": ".claude"},
        "carol": {"user": "pi-carol", "projectRoots": ["/c"], "configPath": "/srv/pi"}}}"#;
    let policy = Policy::parse(text).unwrap();
    let of = |name: &str| {
        let home = PathBuf::from("/nowhere").join(name);
        configuration(&policy, &Account { name: name.to_owned(), uid: 1, gid: 1, home }).unwrap()
    };
    let is = |name: &str, from: &str, to: &str| {
        assert_eq!(of(name), (PathBuf::from(from), Path::new(to).to_owned()));
    };
    is("alice", "/nowhere/alice/.pi/other", ".pi/other");
    is("bob", "/nowhere/bob/.claude", ".claude");
    is("carol", "/srv/pi", ".pi/agent");
}

fn policy(host_users: &str, more: &str) -> String {
    format!(r#"{{"user": "agent", "stateDir": "/var/lib/x", "hostUsers": {host_users}{more}}}"#)
}

fn refused(text: &str) -> String {
    checked(Policy::parse(text.as_bytes()).unwrap()).unwrap_err().what
}

#[test]
fn root_that_is_no_canonical_path_is_refused() {
    for root in [
        "",
        "/",
        "~bob/work",
        "~/..",
        "~/a/../b",
        "work",
        "./work",
        "/srv/../etc",
        "//srv",
        "/srv/",
    ] {
        let said = refused(&policy(&format!(r#"{{"alice": {{"projectRoots": [{root:?}]}}}}"#), ""));
        assert!(said.contains("must be an absolute path"), "{root}: {said}");
    }
}

#[test]
fn policy_in_which_something_is_missing_or_means_nothing_is_refused() {
    let alice = r#"{"alice": {"projectRoots": ["/srv"]}}"#;
    checked(Policy::parse(policy(alice, "").as_bytes()).unwrap()).unwrap();
    for (text, expected) in [
        (policy("{}", ""), "hostUsers is empty"),
        (policy(r#"{"alice": {"projectRoots": []}}"#, ""), "projectRoots of alice is empty"),
        (policy(alice, r#", "environment": {"A=": "x"}"#), "no variable"),
        (policy(alice, r#", "environmentFiles": ["secrets/../x"]"#), "absolute paths"),
        (policy(alice, r#", "configPath": "../x""#), "configPath"),
    ] {
        let said = refused(&text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn names_that_no_user_has_or_no_session_may_run_as_are_refused() {
    let of = |user: &str, host: &str, own: &str| {
        refused(&format!(
            r#"{{"user": {user:?}, "stateDir": "/var/lib/x", "hostUsers": {{{host:?}: {{"projectRoots": ["/a"]{own}}}}}}}"#
        ))
    };
    for (user, own) in [("root", ""), ("alice", ""), ("agent", "root"), ("agent", "alice")] {
        let own = if own.is_empty() { String::new() } else { format!(r#", "user": "{own}""#) };
        let said = of(user, "alice", &own);
        assert!(said.contains("must neither be root"), "{user} {own}: {said}");
    }
    for said in
        [of("a%n", "alice", ""), of("agent", "alice", r#", "user": "a b""#), of("agent", "0", "")]
    {
        assert!(said.contains("is no name"), "{said}");
    }
}

/// A caller can have its service user run any program, also outside a unit.
#[test]
fn two_host_users_with_one_service_user_are_refused() {
    let text = |alice: &str, bob: &str| {
        format!(
            r#"{{"user": "agent", "stateDir": "/var/lib/x", "hostUsers": {{
            "alice": {{"projectRoots": ["/a"]{alice}}}, "bob": {{"projectRoots": ["/b"]{bob}}}}}}}"#
        )
    };
    let own = |name: &str| format!(r#", "user": "{name}""#);
    for (alice, bob) in [("", ""), (&*own("x"), &*own("x")), ("", &*own("agent"))] {
        let said = refused(&text(alice, bob));
        assert!(said.contains("hostUsers.bob.user"), "{said}");
    }
    checked(Policy::parse(text("", &own("x")).as_bytes()).unwrap()).unwrap();
}
