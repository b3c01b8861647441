use super::*;

fn event(payload: &[u8]) -> Vec<u8> {
    message(&[(":event-type", "chunk"), (":message-type", "event")], payload)
}

/// Returns all messages of a stream that comes in pieces of a length; an error after those that were
/// whole.
fn read(bytes: &[u8], piece: usize) -> (Vec<Message>, bool) {
    let (mut messages, mut all) = (Messages::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        let mut at = 0;
        while at < piece.len() {
            match messages.next(&piece[at..]) {
                Ok((taken, message)) => {
                    assert!(taken > 0);
                    at += taken;
                    all.extend(message);
                }
                Err(Broken { .. }) => return (all, true),
            }
        }
    }
    (all, false)
}

/// From the specification's own examples of a message without headers, and one with.
#[test]
fn messages_are_written_as_the_specification_has_them() {
    let bare = message(&[], b"{'foo':'bar'}");
    assert_eq!(
        bare,
        b"\x00\x00\x00\x1d\x00\x00\x00\x00\xfd\x52\x8c\x5a{'foo':'bar'}\xc3\x65\x39\x36"
    );
    let typed = message(&[("content-type", "application/json")], b"{'foo':'bar'}");
    assert_eq!(&typed[..12], b"\x00\x00\x00\x3d\x00\x00\x00\x20\x07\xfd\x83\x96");
    assert_eq!(&typed[typed.len() - 4..], b"\x8d\x9c\x08\xb1");
}

#[test]
fn messages_are_read_however_they_are_cut() {
    let error = message(&[(":message-type", "exception")], b"{}");
    let stream = [event(b"one"), error, event(b""), message(&[], b"none")].concat();
    for piece in 1..=stream.len() {
        let (messages, is_broken) = read(&stream, piece);
        let payloads: Vec<_> = messages.iter().map(Message::payload).collect();
        assert_eq!(payloads, [&b"one"[..], b"{}", b"", b"none"], "{piece}");
        let events: Vec<_> = messages.iter().map(|message| message.is_event).collect();
        assert_eq!((events, is_broken), (vec![true, false, true, false], false));
    }
}

#[test]
fn a_changed_byte_anywhere_breaks_the_stream_for_good() {
    let good = event(b"payload");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let stream = [good.clone(), bad, good.clone()].concat();
        for piece in [1, 7, stream.len()] {
            let (messages, is_broken) = read(&stream, piece);
            assert!(messages.len() == 1 && is_broken, "byte {at}, pieces of {piece}");
        }
    }
    let mut messages = Messages::default();
    assert_eq!(messages.next(b"data: {\"usage\""), Err(Broken { kept: 0 }));
    assert_eq!(messages.next(&good), Err(Broken { kept: 0 }));
    assert_eq!(messages.kept(), 0);
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let prelude = |length: u32, headers: u32| {
        let mut bytes = [length.to_be_bytes(), headers.to_be_bytes()].concat();
        bytes.extend_from_slice(&checksum(&bytes).to_be_bytes());
        bytes
    };
    let longest = u32::try_from(LONGEST).unwrap();
    for (length, headers) in [
        (0, 0),
        (15, 0),
        (16, 1),
        (16, u32::MAX),
        (u32::MAX, 0),
        (u32::MAX, u32::MAX),
        (longest + 1, 0),
    ] {
        let bytes = prelude(length, headers);
        assert_eq!(Messages::default().next(&bytes), Err(Broken { kept: 0 }), "{length} {headers}");
    }
    let mut messages = Messages::default();
    assert_eq!(messages.next(&prelude(longest, 0)), Ok((PRELUDE, None)));
    assert!(messages.kept.capacity() < 1024);
}

#[test]
fn headers_that_lie_break_the_stream() {
    let with = |headers: &[u8]| {
        let length = u32::try_from(PRELUDE + headers.len() + EPILOGUE).unwrap();
        let count = u32::try_from(headers.len()).unwrap();
        let mut bytes = [length.to_be_bytes(), count.to_be_bytes()].concat();
        bytes.extend_from_slice(&checksum(&bytes).to_be_bytes());
        bytes.extend_from_slice(headers);
        bytes.extend_from_slice(&checksum(&bytes).to_be_bytes());
        bytes
    };
    for headers in
        [&b"\xff:message-type"[..], b"\x01a\x07\xff\xffx", b"\x01a\x0a", b"\x01a", b"\x01a\x05x"]
    {
        assert_eq!(
            Messages::default().next(&with(headers)),
            Err(Broken { kept: 0 }),
            "{headers:?}"
        );
    }
    // Values of every type are skipped.
    let all =
        b"\x01a\x00\x01b\x01\x01c\x02x\x01d\x03xx\x01e\x04xxxx\x01f\x05xxxxxxxx\x01g\x06\x00\x01x\
        \x01h\x08xxxxxxxx\x01i\x09xxxxxxxxxxxxxxxx\x0d:message-type\x07\x00\x05event";
    assert!(Messages::default().next(&with(all)).unwrap().1.unwrap().is_event);
}
