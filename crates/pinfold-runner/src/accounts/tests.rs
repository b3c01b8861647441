use super::{is_name, parse};

#[test]
fn account_line_gives_name_ids_and_home_or_nothing() {
    let alice = parse("alice:x:1000:1001:Alice,,,:/home/alice:/bin/sh").unwrap();
    assert_eq!((alice.uid, alice.gid, alice.name.as_str()), (1000, 1001, "alice"));
    assert_eq!(alice.home, std::path::Path::new("/home/alice"));
    for line in ["", "alice", "alice:x:a:1:::", "-x:x:1:1::/h:", "a b:x:1:1::/h:", "a:x:1:1::h:"] {
        assert_eq!(parse(line), None, "{line}");
    }
}

#[test]
fn name_that_means_something_to_systemd_is_no_account() {
    for name in ["pi-agent", "_apt", "a.b", "Alice"] {
        assert!(is_name(name), "{name}");
    }
    let long = "a".repeat(256);
    for name in ["", "-u", "0", "1000", "a b", "a%n", "a:b", "a/b", "a\n", "ä", &long] {
        assert!(!is_name(name), "{name:?}");
    }
}
