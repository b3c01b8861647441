use proptest::prelude::*;

use super::{MOST_GRANTS, Request};

const SESSION: &str = "0123456789ab";

/// Returns a request without limits, by hand.
fn message(session: &str, paths: &[&str]) -> Vec<u8> {
    let put = |message: &mut Vec<u8>, text: &str| {
        message.extend((text.len() as u16).to_le_bytes());
        message.extend(text.as_bytes());
    };
    let mut message = super::VERSION.to_vec();
    put(&mut message, session);
    message.extend([0; 24]);
    message.extend((paths.len() as u32).to_le_bytes());
    for path in paths {
        message.push(1);
        put(&mut message, path);
    }
    message
}

#[test]
fn session_that_is_no_id_is_refused() {
    Request::decode(&message(SESSION, &[])).unwrap();
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
        assert!(Request::decode(&message(session, &[])).is_err(), "{session:?}");
    }
}

#[test]
fn path_that_is_not_canonical_is_refused() {
    for path in ["", "/", "a", "/a/../b", "/a/.", "//a", "/a/", "/a\0b", "."] {
        assert!(Request::decode(&message(SESSION, &[path])).is_err(), "{path:?}");
    }
}

#[test]
fn other_versions_and_every_cut_or_longer_message_are_refused() {
    let message = message(SESSION, &["/home/alice/work"]);
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
fn more_grants_than_one_message_carries_are_refused() {
    let paths = vec!["/a"; MOST_GRANTS + 1];
    Request::decode(&message(SESSION, &paths)).unwrap_err();
    let mut most = message(SESSION, &paths[1..]);
    assert_eq!(Request::decode(&most).unwrap().grants.len(), MOST_GRANTS);
    // The count: after the version, the session with its length, and three limits.
    let at = super::VERSION.len() + 2 + SESSION.len() + 24;
    most[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    Request::decode(&most).unwrap_err();
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
    }
}
