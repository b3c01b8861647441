use std::path::PathBuf;

use pinfold_runner::Refusal;
use pinfold_runner::request::{LONGEST, MOST_GRANTS, Request, Wanted};

use super::{encode, refusal};

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
fn request_is_read_as_it_was_written() {
    let paths = vec!["/a"; MOST_GRANTS];
    for grants in [&["/home/alice/work", "/home/alice/.cache/pinfold/x"][..], &paths] {
        let request = request(grants);
        assert_eq!(Request::decode(&encode(&request).unwrap()), Ok(request));
    }
}

#[test]
fn request_that_the_runner_would_not_take_is_not_sent() {
    encode(&request(&vec!["/a"; MOST_GRANTS + 1])).unwrap_err();
    encode(&request(&[&format!("/{}", "a".repeat(LONGEST))])).unwrap_err();
}

#[test]
fn refusal_is_shown_without_control_characters() {
    let read = refusal(&Refusal::new("no \u{1b}[2Jproject", "ask").encode()).unwrap();
    assert_eq!(read, Refusal::new("no [2Jproject", "ask"));
    let plain = Refusal::plain("x");
    assert_eq!(refusal(&plain.encode()), Some(plain));
    for other in [&b"H"[..], b"", b"R", b"Rwithout an end"] {
        assert_eq!(refusal(other), None);
    }
}
