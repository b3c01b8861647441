//! Ends that talk nonsense: the sandbox towards the outside, and the other way round.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::{Bytes, ErrorKind, Read, Roots, Tools, serve};

fn frame(id: u32, header: &[u8], content: &[u8]) -> Vec<u8> {
    let (header_length, content_length) = (header.len() as u32, content.len() as u32);
    let prefix = [id, header_length, content_length].map(u32::to_le_bytes).concat();
    [&prefix[..], header, content].concat()
}

/// A small generator (xorshift64), so that a failure can be seen again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Returns what the outside makes of a sandbox that says this.
fn heard(said: &[u8]) -> ErrorKind {
    let (own, mut theirs) = UnixStream::pair().expect("a pair");
    let tools = Tools::new(OwnedFd::from(own)).expect("tools");
    let said = said.to_vec();
    let inside = thread::spawn(move || {
        let mut asked = [0; 12];
        theirs.read_exact(&mut asked).expect("a request");
        // A client that has heard enough closes its end.
        let _ = theirs.write_all(&said);
        let _ = theirs.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = theirs.read_to_end(&mut rest);
    });
    let read = tools.read(Read { path: "x".into(), range: None });
    let kind = read.map(|_| ()).expect_err("no answer").kind;
    drop(tools);
    inside.join().expect("a thread");
    kind
}

#[test]
fn a_sandbox_that_talks_nonsense_is_not_listened_to() {
    let read = br#"{"read":{"size":1,"kind":"text"}}"#;
    let wrong: [Vec<u8>; 9] = [
        Vec::new(),
        frame(0, b"", b""),
        frame(0, b"{", b""),
        frame(0, br#"{"list":{"entries":[],"truncated":false}}"#, b""),
        frame(7, read, b"x"),
        frame(0, br#"{"read":{"size":-1,"kind":"text"}}"#, b""),
        // Announced and never sent; and more than was agreed.
        frame(0, read, b"x")[..20].to_vec(),
        [[0, 0, 0, 0], [0xff; 4], [0xff; 4]].concat(),
        [&b"["[..]; 40_000].concat(),
    ];
    for said in wrong {
        assert_eq!(heard(&said), ErrorKind::Gone, "{said:?}");
    }
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    assert_eq!(heard(&frame(0, deep.as_bytes(), b"")), ErrorKind::Gone);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..300 {
        let said = random.bytes(400);
        assert_eq!(heard(&said), ErrorKind::Gone, "{said:?}");
    }
}

#[test]
fn a_sandbox_that_floods_with_events_costs_no_memory() {
    let (own, mut theirs) = UnixStream::pair().expect("a pair");
    let tools = Tools::new(OwnedFd::from(own)).expect("tools");
    let flood = thread::spawn(move || {
        // Before it is asked for, an event would be nonsense.
        theirs.read_exact(&mut [0; 1]).expect("a request");
        let event = frame(0, br#"{"event":{"change":"created","path":"x"}}"#, &[0; 4096]);
        let mut sent = 0_u32;
        while sent < 20_000 && theirs.write_all(&event).is_ok() {
            sent += 1;
        }
        sent
    });
    let watch = crate::Watch { path: ".".into(), recursive: false };
    let mut watch = tools.watch(watch).expect("a call");
    // All of it was read while nobody took any.
    assert_eq!(flood.join().expect("a thread"), 20_000);
    let mut taken = 0;
    while watch.event().is_ok() {
        taken += 1;
    }
    // What waited, and what came while it was taken.
    assert!(taken < 5_000, "{taken}");
}

#[test]
fn an_outside_that_talks_nonsense_ends_only_its_own_tools() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for turn in 0..300 {
        let (mut own, theirs) = UnixStream::pair().expect("a pair");
        let roots = Roots::new(vec!["/nowhere".into()], "/nowhere".into());
        let served = thread::spawn(move || serve(OwnedFd::from(theirs), roots));
        own.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let said = match turn % 3 {
            0 => random.bytes(300),
            1 => frame(random.next() as u32, &random.bytes(300), &random.bytes(300)),
            _ => frame(1, br#"{"read":{"path":{"base64":"!"}}}"#, b""),
        };
        let _ = own.write_all(&said);
        let _ = own.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = own.read_to_end(&mut answer);
        let ended = served.join().expect("no panic");
        assert!(ended.is_err() || said.is_empty() || !answer.is_empty() || turn % 3 == 1);
    }
}

#[test]
fn bytes_cross_as_text_where_they_are_text_and_exactly_otherwise() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..500 {
        let bytes = Bytes::from(random.bytes(40));
        let json = serde_json::to_string(&bytes).expect("JSON");
        assert_eq!(serde_json::from_str::<Bytes>(&json).expect("bytes"), bytes);
        let value = serde_json::to_value(&bytes).expect("JSON");
        assert_eq!(serde_json::from_value::<Bytes>(value).expect("bytes"), bytes);
    }
    for wrong in [r#"{}"#, r#"{"base64":"!"}"#, r#"{"base64":"","x":""}"#, r#"{"x":""}"#, "1"] {
        assert!(serde_json::from_str::<Bytes>(wrong).is_err(), "{wrong}");
    }
}
