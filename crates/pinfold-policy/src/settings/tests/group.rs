//! Trust in groups.

use super::*;
use crate::network::{Endpoint, Repository};

const TOKEN: &str = "group = \"a\"\n[[secrets]]\nid = \"t\"\nenv = \"GH_TOKEN\"\n\
    hosts = [\"*.github.com\", \"github.com\"]\n";
const ADMIN: &str = "group = \"a\"\n[groups.a]\ntrust = \"admin\"\n[[secrets]]\nid = \"t\"\n\
    env = \"GH_TOKEN\"\nhosts = [\"api.github.com\"]\n";
const OWN: &str = "[[secrets]]\nid = \"t\"\nenv = \"GH_TOKEN\"\nhosts = [\"github.com\"]\n";

#[test]
fn a_token_for_github_is_for_admins_and_for_sessions_of_no_group() {
    let member = "group_trust = \"member\"";
    for (ceiling, user, brokered, cure) in [
        ("", TOKEN, true, true),
        ("", ADMIN, false, false),
        ("", OWN, false, false),
        (member, TOKEN, true, true),
        (member, OWN, true, false),
        ("group_trust = \"admin\"", ADMIN, false, false),
        (
            "",
            "group = \"a\"\n[[secrets]]\nid = \"t\"\nenv = \"T\"\nhosts = [\"a.com\"]\n",
            false,
            false,
        ),
    ] {
        let settings = Case { ceiling, user, ..Case::default() }.resolve().unwrap();
        let policy = &settings.network;
        assert_eq!(policy.brokered.len(), usize::from(brokered), "{ceiling} {user}");
        assert_eq!(policy.allow.is_empty(), brokered, "{ceiling} {user}");
        assert_eq!(settings.placed().count(), usize::from(!brokered), "{ceiling} {user}");
        assert!(policy.brokered.iter().all(|one| one.cure.is_some() == cure), "{ceiling} {user}");
    }
    let above = ceiling(member, ADMIN).error();
    assert!(above.starts_with("groups.trust: admin by config.toml:3 is above member"), "{above}");
    let unknown = user("[groups.a]\ntrust = \"root\"\n").error();
    assert!(unknown.contains("known: member, admin"), "{unknown}");
}

#[test]
fn git_is_let_through_to_its_repositories_unless_all_of_github_is_open() {
    let at = |text: &str| Endpoint::parse(text, None).unwrap();
    let mine = Repository::of_url("https://github.com/me/tool").unwrap();
    let mut settings = user(TOKEN).resolve().unwrap();
    assert!(settings.network.decide(&at("github.com:443")).is_err());
    settings.broker(std::slice::from_ref(&mine)).unwrap();
    let allows = |settings: &Settings, method, path| {
        settings.network.allows_request(&at("github.com:443"), method, path)
    };
    assert!(allows(&settings, "GET", "/me/tool.git/info/refs"));
    assert!(allows(&settings, "POST", "/me/tool/git-receive-pack"));
    assert!(!allows(&settings, "POST", "/me/tool.git/info/refs"));
    assert!(!allows(&settings, "GET", "/them/tool.git/info/refs"));
    for refused in ["github.com:80", "api.github.com:443", "uploads.github.com:443"] {
        let refused = settings.network.decide(&at(refused)).unwrap_err();
        assert!(refused.to_string().contains("group a does not get the token t"), "{refused}");
        assert_eq!(refused.cure().unwrap().to_string(), "trust = \"admin\" under [groups.a]");
    }
    let mut open = Case { user: TOKEN, ..Case::default() };
    open.flags.network.allow.push("github.com".parse().unwrap());
    let mut settings = open.resolve().unwrap();
    settings.broker(&[mine]).unwrap();
    assert!(allows(&settings, "GET", "/them/tool.git/info/refs"));
    assert_eq!(settings.network.brokered[0].repositories.len(), 1);
}

#[test]
fn the_administrators_hosts_bind_what_git_is_let_through_to() {
    let mut settings = ceiling("[network]\nhosts = [\"a.com\"]\n", TOKEN).resolve().unwrap();
    let mine = Repository::of_url("https://github.com/me/tool").unwrap();
    let error = settings.broker(&[mine]).unwrap_err().to_string();
    assert!(error.starts_with("network.allow: github.com:443"), "{error}");
}
