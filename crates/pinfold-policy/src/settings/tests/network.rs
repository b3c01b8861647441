//! `[network]`, `[[secrets]]` and `publish`.

use super::*;
use crate::network::{Endpoint, Spots};

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text, None).unwrap()
}

#[test]
fn a_secrets_hosts_may_be_reached_and_a_rule_on_requests_still_decides() {
    let settings = user(
        "publish = [\"3000\", \"[::1]:3001\", \"8080:3000\", \"[::1]:8081:3001\"]\n\
         [[secrets]]\nid = \"github\"\nenv = \"GH_TOKEN\"\n\
         hosts = [\"api.github.com\", \"*.example.com\"]\nports = [443, 8443]\n\
         [network]\nrequests = [{ host = \"api.github.com\", methods = [\"GET\"] }]\n",
    );
    let settings = settings.resolve().unwrap();
    let asked = endpoint("api.github.com:443");
    assert!(settings.network.decide(&asked).is_ok());
    assert!(settings.network.allows_request(&asked, "GET", "/x"));
    assert!(!settings.network.allows_request(&asked, "POST", "/x"));
    assert!(settings.network.decide(&endpoint("a.example.com:8443")).is_ok());
    assert!(settings.network.decide(&endpoint("example.com:443")).is_err());
    let secret = &settings.secrets[0].value;
    assert!(secret.is_for(&asked) && !secret.is_for(&endpoint("api.github.com:80")));
    assert_eq!(secret.spots, Spots::USUAL);
    let published: Vec<String> =
        settings.publish.iter().map(|address| address.value.to_string()).collect();
    let expected = ["127.0.0.1:3000", "[::1]:3001", "127.0.0.1:8080:3000", "[::1]:8081:3001"];
    assert_eq!(published, expected);
    assert_eq!(settings.publish[3].value.sandbox, 3001);
}

#[test]
fn a_host_by_flag_stays_under_the_administrators() {
    let flags = |rule: &str| Flags {
        network: FlagNetwork { allow: vec![rule.parse().unwrap()], ..FlagNetwork::default() },
        ..Flags::default()
    };
    let case = |rule| Case {
        ceiling: "[network]\nhosts = [\"*.example.com\"]\n",
        flags: flags(rule),
        ..Case::default()
    };
    assert!(case("a.example.com").resolve().is_ok());
    for rule in ["example.com", "a.example.com:22", "*", "192.0.2.1"] {
        let error = case(rule).error();
        assert!(error.contains("--allow-host") && error.contains("policy.toml:2"), "{error}");
    }
    let mut settings = case("a.example.com").resolve().unwrap();
    assert!(settings.allow_every_name("pinfold learn").is_err());
}

#[test]
fn mistakes_name_the_place_and_what_is_expected() {
    const SECRET: &str = "[[secrets]]\nid = \"a\"\nenv = \"A\"\n";
    let secret = |rest: &str| -> &'static str { format!("{SECRET}{rest}").leak() };
    for (text, expected) in [
        ("[network]\nallow = [\"https://a.com\"]\n", "leave out the scheme"),
        ("[network]\nalow = []\n", "did you mean `allow`"),
        ("[network]\nrequests = [{ host = \"a.com\" }]\n", "list the host under allow"),
        ("[network]\nrequests = [{ host = \"a.com\", methods = [] }]\n", "an empty list"),
        ("[network]\nrequests = [{ host = \"a.com\", paths = [] }]\n", "an empty list"),
        ("[network]\nrequests = [{ host = \"a.com\", methods = [\"get\"] }]\n", "capital"),
        ("[network]\nrequests = [{ host = \"a.com\", paths = [\"x\"] }]\n", "begins with /"),
        ("publish = [\"localhost:80\"]\n", "[ADDRESS:][HOST_PORT:]PORT"),
        ("publish = [\"0\"]\n", "[ADDRESS:][HOST_PORT:]PORT"),
        ("publish = [\"8080:0\"]\n", "[ADDRESS:][HOST_PORT:]PORT"),
        ("publish = [\"1:2:3\"]\n", "[ADDRESS:][HOST_PORT:]PORT"),
        ("publish = [\"::1:3000\"]\n", "[ADDRESS:][HOST_PORT:]PORT"),
        (secret(""), "hosts"),
        (secret("hosts = []\n"), "at least one host"),
        (secret("hosts = [\"*\"]\n"), "by name"),
        (secret("hosts = [\"192.0.2.1\"]\n"), "by name"),
        (secret("hosts = [\"a.com\"]\nwhere = []\n"), "an empty list"),
        (secret("hosts = [\"a.com\"]\nports = []\n"), "an empty list"),
        (secret("hosts = [\"a.com\"]\nwhere = [\"cookie\"]\n"), "expected header"),
        ("[[secrets]]\nid = \"a\"\nenv = \"HTTP_PROXY\"\nhosts = [\"a.com\"]\n", "reserved"),
    ] {
        let error = user(text).error();
        assert!(error.contains("config.toml:") && error.contains(expected), "{text}: {error}");
    }
    let twice: &'static str =
        format!("{0}hosts = [\"a.com\"]\n{0}hosts = [\"b.com\"]\n", SECRET).leak();
    assert!(user(twice).error().contains("already holds the placeholder"));
}
