use std::path::PathBuf;

use proptest::prelude::*;

use super::{LONGEST, MOST_GRANTS, Request, Wanted};
use crate::Refusal;

fn request(grants: &[&str]) -> Request {
    let grants = grants.iter().map(|path| Wanted { path: PathBuf::from(path), is_writable: true });
    Request {
        session: "0123456789ab".to_owned(),
        memory: Some(1 << 30),
        cpus: Some(1500),
        tasks: None,
        grants: grants.collect(),
    }
}

#[test]
fn request_survives_its_message() {
    let request = request(&["/home/alice/work", "/home/alice/.cache/pinfold/x"]);
    assert_eq!(Request::decode(&request.encode().unwrap()), Ok(request));
}

#[test]
fn session_that_is_no_id_is_refused() {
    for session in [
        "",
        "0123456789a",
        "0123456789abc",
        "../../../etc",
        "0123456789a.",
        "0123456789AB",
        "01234 678 ab",
        "0123456789a\n",
    ] {
        let message = Request { session: session.to_owned(), ..request(&[]) }.encode().unwrap();
        assert!(Request::decode(&message).is_err(), "{session:?}");
    }
}

#[test]
fn path_that_is_not_canonical_is_refused() {
    for path in ["", "/", "a", "/a/../b", "/a/.", "//a", "/a/", "/a\0b", "."] {
        assert!(Request::decode(&request(&[path]).encode().unwrap()).is_err(), "{path:?}");
    }
}

#[test]
fn other_versions_and_every_cut_or_longer_message_are_refused() {
    let message = request(&["/home/alice/work"]).encode().unwrap();
    for length in 0..message.len() {
        assert!(Request::decode(&message[..length]).is_err(), "{length}");
    }
    let longer = [message.as_slice(), &[0]].concat();
    assert!(Request::decode(&longer).is_err());
    let other = message.iter().map(|byte| if *byte == b'1' { b'2' } else { *byte });
    let refusal = Request::decode(&other.collect::<Vec<_>>()).unwrap_err();
    assert!(refusal.what.contains("another version"), "{refusal}");
}

#[test]
fn more_grants_than_one_message_carries_are_refused_by_both_sides() {
    let paths = vec!["/a"; MOST_GRANTS + 1];
    request(&paths).encode().unwrap_err();
    let most = request(&paths[..MOST_GRANTS]);
    let mut message = most.encode().unwrap();
    assert_eq!(Request::decode(&message), Ok(most));
    // The count: after the version, the session with its length, and three limits.
    let at = super::VERSION.len() + 2 + 12 + 24;
    message[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    Request::decode(&message).unwrap_err();
    request(&[&format!("/{}", "a".repeat(LONGEST))]).encode().unwrap_err();
}

#[test]
fn refusal_is_shown_without_control_characters() {
    let refusal = Refusal::new("no \u{1b}[2Jproject", "ask");
    let read = Refusal::decode(&refusal.encode()).unwrap();
    assert_eq!(read, Refusal::new("no [2Jproject", "ask"));
    assert_eq!(Refusal::decode(b"H"), None);
    assert_eq!(Refusal::decode(b""), None);
    let plain = Refusal::plain("x");
    assert_eq!(Refusal::decode(&plain.encode()), Some(plain));
}

proptest! {
    #[test]
    fn any_message_is_a_request_or_refused(
        rest in prop::collection::vec(any::<u8>(), 0..300),
        has_version in any::<bool>(),
    ) {
        let version = if has_version { super::VERSION } else { &[] };
        if let Ok(request) = Request::decode(&[version, rest.as_slice()].concat()) {
            prop_assert!(request.grants.iter().all(|wanted| crate::policy::is_canonical(&wanted.path)));
        }
        let _ = Refusal::decode(&rest);
    }
}
