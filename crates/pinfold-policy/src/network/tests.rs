use std::net::IpAddr;

use super::*;
use crate::origin::Valued;

fn policy(rules: &[&str], internal: &[&str]) -> NetworkPolicy {
    let read = |rules: &[&str]| {
        rules.iter().map(|rule| Valued::default_of(rule.parse().expect("a rule"))).collect()
    };
    NetworkPolicy { allow: read(rules), internal: read(internal), ..Default::default() }
}

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text, None).expect("an endpoint")
}

#[test]
fn names_are_compared_in_one_form() {
    for (written, canonical) in [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        // A full-width full stop and letters are folded by UTS #46.
        ("ｅｘａｍｐｌｅ．com", "example.com"),
    ] {
        let name: HostName = written.parse().expect(written);
        assert_eq!(name.as_str(), canonical, "{written}");
    }
    for bad in ["", ".", "a..b", "-a.b", "a-.b", "a b", "a/b", "a\0b", "*.a", "a@b", "a%41.b"] {
        assert!(bad.parse::<HostName>().is_err(), "{bad:?}");
    }
    assert!("a".repeat(64).parse::<HostName>().is_err());
    assert!(["ab."; 90].concat().parse::<HostName>().is_err());
}

#[test]
fn an_address_has_one_notation() {
    for odd in
        ["127.1", "0x7f000001", "2130706433", "0177.0.0.01", "1.2.3.4.5", "256.1.1.1", "a.0x1"]
    {
        assert!(odd.parse::<Host>().is_err(), "{odd}");
    }
    for (written, shown) in [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
    ] {
        assert_eq!(written.parse::<Host>().expect(written).to_string(), shown);
    }
}

#[test]
fn a_suffix_is_of_labels() {
    let policy = policy(&["*.example.com", "exact.org"], &[]);
    for allowed in ["a.example.com:443", "a.b.example.com:80", "EXACT.org.:443"] {
        assert!(policy.decide(&endpoint(allowed)).is_ok(), "{allowed}");
    }
    for refused in [
        "example.com:443",
        "badexample.com:443",
        "example.com.evil.net:443",
        "a.example.com:22",
        "sub.exact.org:443",
        "93.184.216.34:443",
    ] {
        assert!(policy.decide(&endpoint(refused)).is_err(), "{refused}");
    }
}

#[test]
fn authorities_do_not_hide_a_host() {
    for bad in
        ["good.com@evil.com:443", "a:b@c:1", "good.com:443:80", "a.com:0", "a.com:+1", "[::1"]
    {
        assert!(Endpoint::parse(bad, Some(443)).is_err(), "{bad}");
    }
    assert_eq!(endpoint("[2606:2800::1]:443").to_string(), "[2606:2800::1]:443");
}

#[test]
fn rules_are_read_and_shown_alike() {
    for rule in ["a.com", "*.a.com:22", "a.com:*", "a.com:443/tcp", "10.0.0.1:5432", "[fd00::1]:80"]
    {
        assert_eq!(rule.parse::<NetworkRule>().expect(rule).to_string(), rule);
    }
    for bad in ["https://a.com", "a.com:70000", "a.*.com", "a.com/udp", "a.com:", "", "*a.com"] {
        assert!(bad.parse::<NetworkRule>().is_err(), "{bad}");
    }
}

#[test]
fn addresses_of_the_hosts_own_networks_need_permission() {
    let policy = policy(&["db.corp:5432", "web.org"], &["db.corp:5432"]);
    let internal = [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "198.18.0.1",
        "168.63.129.16",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2001:0:1:2:3:4:80ff:fffe",
        "ff02::1",
        "fec0::1",
        "::ffff:0:10.0.0.1",
    ];
    for address in internal {
        let address: IpAddr = address.parse().expect(address);
        assert!(policy.check_address(&endpoint("web.org:443"), address).is_err(), "{address}");
        assert!(policy.check_address(&endpoint("db.corp:5432"), address).is_ok(), "{address}");
        assert!(policy.check_address(&endpoint("db.corp:22"), address).is_err(), "{address}");
    }
    // The last four are for documentation, and where a network answers for others with its own.
    for public in [
        "93.184.216.34",
        "172.32.0.1",
        "2606:2800:220:1::1",
        "64:ff9b::5db8:d822",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.80",
        "2001:db8::1",
    ] {
        let address: IpAddr = public.parse().expect(public);
        assert!(policy.check_address(&endpoint("web.org:443"), address).is_ok(), "{address}");
    }
}

#[test]
fn paths_that_a_server_may_read_otherwise_match_nothing() {
    let pattern: PathPattern = "/repos/acme/**".parse().expect("a pattern");
    for path in [
        "/repos/acme",
        "/repos/acme/",
        "/repos/acme/x",
        "/repos/acme/x/",
        "/repos/acme/a.b/.c/..d/e..",
        "/repos/acme/My%20File%20(1).txt",
        "/repos/acme/a,b;v=1/@x/~y/C%23",
        "/repos/acme/caf%C3%A9/%e6%97%a5%e6%9c%ac/%F0%9F%98%80",
        "/repos/acme/compare/main...topic",
    ] {
        assert!(pattern.matches(path), "{path}");
    }
    for path in [
        "/repos/acmex",
        "/repos/acme/../evil",
        "/repos/acme/%2e%2e/evil",
        "/repos/acme/..;/evil",
        "/repos/acme/.;a=b/evil",
        "/repos/acme/%252e%252e/evil",
        "/repos/acme/..%2Fevil",
        "/repos//acme/x",
        "/repos/acme\\..\\evil",
        "/repos/acme/%c0%ae%c0%ae/evil",
        "/repos/acme/%C0%AF..",
        "/repos/acme/%e0%80%ae%e0%80%ae/evil",
        "/repos/acme/%ef%bc%8e%ef%bc%8e/evil",
        "/repos/acme/%ef%bc%8f..%ef%bc%8fevil",
        "/repos/acme/%e2%80%a4%e2%80%a4/evil",
        "/repos/acme/%e2%80%a5/evil",
        "/repos/acme/%e2%88%95evil",
        "/repos/acme/%ef%bb%bf..",
        "/repos/acme/%u002e%u002e/evil",
        "/repos/acme/%%32%65",
        "/repos/acme/%2",
        "/repos/acme/%",
        "/repos/acme/%+2",
        "/repos/acme/..%09/evil",
        "/repos/acme/..%20/evil",
        "/repos/acme/%20../evil",
        "/repos/acme/.%20./evil",
        "/repos/acme/.../evil",
        "/repos/acme/..%3b/evil",
        "/repos/acme/..%3fx/evil",
        "/repos/acme/..%23x",
        "/repos/acme/%00",
        "/repos/acme/x%0d%0ay",
        "/repos/acme/%7f",
        "/repos/acme/..\u{e9}",
        "/repos/acme/\u{ff0e}\u{ff0e}/evil",
        "/repos/acme/%ff",
        "/repos/acme/.. /evil",
        "/repos/acme/\t",
        "",
        "repos/acme",
    ] {
        assert!(!pattern.matches(path), "{path}");
    }
}

#[test]
fn a_broader_rule_opens_nothing_that_a_rule_on_requests_leaves_out() {
    let mut policy = policy(&["*.a.com", "api.a.com:443", "*"], &[]);
    let asked = endpoint("api.a.com:443");
    assert!(policy.allows_request(&asked, "POST", "/x"));
    let strict = |method: &str, path: &str| NetworkRule {
        methods: vec![method.to_owned()],
        paths: vec![path.parse().expect("a path")],
        .."api.a.com".parse().expect("a rule")
    };
    policy.allow.push(Valued::default_of(strict("GET", "/repos/**")));
    policy.allow.push(Valued::default_of(strict("POST", "/issues")));
    for (method, path, allowed) in [
        ("GET", "/repos/x", true),
        ("POST", "/issues", true),
        ("POST", "/repos/x", false),
        ("GET", "/issues", false),
        ("DELETE", "/", false),
    ] {
        assert_eq!(policy.allows_request(&asked, method, path), allowed, "{method} {path}");
    }
    assert!(policy.allows_request(&endpoint("other.a.com:443"), "POST", "/x"));
    assert!(!policy.allows_request(&endpoint("1.2.3.4:443"), "GET", "/"));
}

#[test]
fn refusal_has_a_hint() {
    let policy = policy(&["a.com", "*.b.com"], &[]);
    for (asked, hint) in [
        ("x.org:443", "--allow-host x.org"),
        ("x.org:22", "--allow-host x.org:22"),
        ("a.com:22", "--allow-host a.com:22"),
        ("1.2.3.4:443", "--allow-host 1.2.3.4:443"),
        ("10.0.0.1:443", "--allow-internal-host 10.0.0.1:443"),
    ] {
        let refused = policy.decide(&endpoint(asked)).expect_err(asked);
        assert_eq!(refused.hint(), Some(Hint::Flag(hint.to_owned())));
        let rule = hint.split_once(' ').expect("a flag and a rule").1;
        let cured = self::policy(&[rule], &[]);
        assert!(cured.decide(&endpoint(asked)).is_ok(), "{hint} allows {asked}");
    }
}

#[test]
fn a_ceiling_rule_covers_what_is_narrower() {
    let covers = |above: &str, below: &str| {
        let read = |text: &str| text.parse::<NetworkRule>().expect("a rule");
        read(above).covers(&read(below))
    };
    assert!(covers("*.a.com", "x.a.com") && covers("*.a.com", "*.x.a.com:443"));
    assert!(covers("*:*", "a.com:22") && covers("a.com:*", "a.com"));
    assert!(!covers("*.a.com", "a.com") && !covers("a.com", "*.a.com"));
    assert!(!covers("a.com", "a.com:22") && !covers("*", "1.2.3.4:443"));
    assert!(!covers("a.com", "a.com:443/tcp"));
}

#[test]
fn a_remote_is_a_repository_on_github_in_every_way_that_git_writes_it() {
    for url in [
        "https://github.com/me/tool.git",
        "https://github.com/me/tool",
        "https://GitHub.com:443/me/tool/",
        "https://me:secret@github.com/me/tool.git",
        "git@github.com:me/tool.git",
        "github.com:me/tool",
        "ssh://git@github.com/me/tool.git",
        "ssh://git@ssh.github.com:443/me/tool.git",
    ] {
        let repository = Repository::of_url(url).unwrap_or_else(|| panic!("{url}"));
        assert_eq!(repository.to_string(), "me/tool", "{url}");
    }
    for url in [
        "https://github.com.evil.org/me/tool",
        "https://evil.org/github.com/me/tool",
        "https://github.com@evil.org/me/tool",
        "https://gist.github.com/me/tool",
        "http://github.com/me/tool",
        "https://github.com/me",
        "https://github.com/me/tool/extra",
        "https://github.com/me/..",
        "https://github.com/../tool",
        "https://github.com/me/.git",
        "https://github.com/me/t%6fol",
        "https://github.com/me/tool?x",
        "./github.com:me/tool",
        "file:///github.com/me/tool",
        "",
    ] {
        assert_eq!(Repository::of_url(url), None, "{url}");
    }
}

#[test]
fn only_gits_own_requests_are_for_a_repository() {
    let repository = Repository::of_url("https://github.com/me/tool").expect("a repository");
    let (fetch, push) = (Some("service=git-upload-pack"), Some("service=git-receive-pack"));
    for (method, path, query, expected) in [
        ("GET", "/me/tool.git/info/refs", fetch, true),
        ("GET", "/me/tool/info/refs", push, true),
        ("POST", "/me/tool.git/git-upload-pack", None, true),
        ("POST", "/me/tool/git-receive-pack", None, true),
        ("GET", "/me/tool.git/info/refs", None, false),
        ("GET", "/me/tool.git/info/refs", Some("service=git-upload-pack&x"), false),
        ("GET", "/me/tool.git/info/refs", Some("service=git-upload-packs"), false),
        ("POST", "/me/tool.git/info/refs", fetch, false),
        ("GET", "/me/tool.git/git-receive-pack", None, false),
        ("POST", "/me/tool.git/git-receive-pack", Some(""), false),
        ("POST", "/me/tool.git/git-receive-pack/", None, false),
        ("GET", "/me/Tool.git/info/refs", fetch, false),
        ("GET", "/me/tool.git.git/info/refs", fetch, false),
        ("GET", "/me/tool2/info/refs", fetch, false),
        ("GET", "/me/tool.git/../tool.git/info/refs", fetch, false),
    ] {
        let asked = repository.is_asked_for(method, path, query);
        assert_eq!(asked, expected, "{method} {path} {query:?}");
    }
}

#[test]
fn hosts_that_serve_strangers_are_intercepted_where_a_rule_allows_them() {
    let policy = |rules: &[&str]| NetworkPolicy {
        allow: rules.iter().map(|rule| Valued::default_of(rule.parse().unwrap())).collect(),
        ..NetworkPolicy::default()
    };
    let asked = |text: &str| Endpoint::parse(text, Some(443)).unwrap();
    let raw = asked("raw.githubusercontent.com");
    let github = policy(&["github.com", "raw.githubusercontent.com"]);
    assert!(github.intercepts(&raw) && github.intercepts_any());
    assert!(!github.intercepts(&asked("github.com")) && !github.must_intercept(&raw));
    let below = policy(&["*.cloudfront.net"]);
    assert!(below.intercepts(&asked("d1.cloudfront.net")) && below.intercepts_any());
    assert!(!policy(&["github.com"]).intercepts_any());
    // A client that may ask for every name need not hide one.
    let every = policy(&["*"]);
    assert!(!every.intercepts(&raw) && !every.intercepts_any());
    let unseen = policy(&["raw.githubusercontent.com/tls"]);
    assert!(!unseen.intercepts(&raw) && !unseen.intercepts_any());
}
