//! A guest that lies.

use super::{carry, encoded, pair};
use crate::endpoint::{Endpoint, Event, NONCE, Side};
use crate::error::{MuxError, OpenError};
use crate::frame::{Frame, HEADER, MAX_LABEL, MAX_PAYLOAD, StreamId};
use crate::{MOST_HELD, STREAMS, WINDOW};

const FIRST: StreamId = StreamId(1);
const OPENED: Frame<'_> = Frame::Open { id: FIRST, label: b"x" };

/// What the host says to frames of a guest that has greeted.
fn verdict(frames: &[Frame<'_>]) -> Result<(), MuxError> {
    pair().0.receive(&encoded(frames))
}

#[test]
fn each_lie_ends_the_channel_with_its_reason() {
    let id = FIRST;
    let unknown = StreamId(9);
    let open = OPENED;
    let finish = Frame::Finish { id };
    let bytes = &[0; MAX_PAYLOAD];
    let data = Frame::Data { id, bytes };
    assert_eq!(WINDOW as usize, 3 * MAX_PAYLOAD);
    let after = Err(MuxError::AfterEnd(1));
    let cases: &[(&[Frame<'_>], Result<(), MuxError>)] = &[
        (&[Frame::Data { id: unknown, bytes: b"x" }], Err(MuxError::UnknownStream(9))),
        (&[Frame::Finish { id: unknown }], Err(MuxError::UnknownStream(9))),
        (&[Frame::Abort { id: unknown }], Err(MuxError::UnknownStream(9))),
        (&[Frame::Stop { id: unknown }], Err(MuxError::UnknownStream(9))),
        (&[Frame::Credit { id: unknown, bytes: 1 }], Err(MuxError::UnknownStream(9))),
        (&[Frame::Credit { id: StreamId(0), bytes: 1 }], Err(MuxError::UnknownStream(0))),
        // A stream of the host's that it has not opened.
        (&[Frame::Data { id: StreamId(2), bytes: b"x" }], Err(MuxError::UnknownStream(2))),
        (&[Frame::Stop { id: StreamId(2) }], Err(MuxError::UnknownStream(2))),
        (
            &[Frame::Open { id: StreamId(2), label: b"" }],
            Err(MuxError::StreamNumber { given: 2, next: 1 }),
        ),
        (
            &[Frame::Open { id: StreamId(3), label: b"" }],
            Err(MuxError::StreamNumber { given: 3, next: 1 }),
        ),
        (&[open, open], Err(MuxError::StreamNumber { given: 1, next: 3 })),
        (&[open, data, data, data], Ok(())),
        (
            &[open, data, data, data, Frame::Data { id, bytes: b"x" }],
            Err(MuxError::CreditOverrun(1)),
        ),
        (&[open, finish, Frame::Data { id, bytes: b"x" }], after),
        (&[open, finish, finish], after),
        (&[open, Frame::Abort { id }, finish], after),
        (&[open, Frame::Stop { id }, Frame::Stop { id }], after),
        (&[open, Frame::Credit { id, bytes: 1 }], Err(MuxError::Credit(1))),
        (&[open, Frame::Credit { id, bytes: u32::MAX }], Err(MuxError::Credit(u32::MAX))),
        (&[open, Frame::Credit { id, bytes: 0 }], Err(MuxError::Credit(0))),
        (&[Frame::Opens(1)], Err(MuxError::Credit(1))),
        (&[Frame::Opens(u32::MAX)], Err(MuxError::Credit(u32::MAX))),
        (&[Frame::Opens(0)], Err(MuxError::Credit(0))),
        (&[Frame::Data { id, bytes: b"" }], Err(MuxError::Length { kind: 2, length: 0 })),
    ];
    for (frames, expected) in cases {
        assert_eq!(verdict(frames), *expected, "{:?}", &frames[frames.len() - 1]);
    }
}

#[test]
fn frames_of_impossible_length_are_refused_before_their_payload() {
    let header = |kind: u8, length: usize| {
        let [low, high] = (length as u16).to_le_bytes();
        [kind, 1, 0, 0, 0, low, high]
    };
    for (kind, length) in [
        (1, MAX_LABEL + 1),
        (2, MAX_PAYLOAD + 1),
        (2, 65535),
        (3, 1),
        (4, 1),
        (5, 9),
        (6, 3),
        (6, 5),
        (7, 4),
    ] {
        let error = MuxError::Length { kind, length: length as u16 };
        assert_eq!(pair().0.receive(&header(kind, length)), Err(error));
    }
    assert_eq!(pair().0.receive(&header(0, 0)), Err(MuxError::Kind(0)));
    assert_eq!(pair().0.receive(&header(8, 0)), Err(MuxError::Kind(8)));
}

#[test]
fn streams_beyond_the_limit_end_the_channel() {
    let (mut host, _) = pair();
    for index in 0..STREAMS {
        let id = StreamId(1 + 2 * index);
        host.receive(&encoded(&[Frame::Open { id, label: b"" }])).unwrap();
    }
    let id = StreamId(1 + 2 * STREAMS);
    let more = encoded(&[Frame::Open { id, label: b"" }]);
    assert_eq!(host.receive(&more), Err(MuxError::TooManyStreams));
}

/// Openings come back only through the host's output, which the guest does not read.
#[test]
fn guest_that_opens_and_closes_without_reading_is_stopped() {
    let (mut host, _) = pair();
    let mut opened = 0;
    let error = loop {
        let id = StreamId(1 + 2 * opened);
        let label = [b'x'; MAX_LABEL];
        let frames = [Frame::Open { id, label: &label }, Frame::Stop { id }, Frame::Finish { id }];
        match host.receive(&encoded(&frames)) {
            Ok(()) => opened += 1,
            Err(error) => break error,
        }
        while let Some(event) = host.next_event() {
            if let Event::Opened { id, .. } = event {
                host.stop(id);
            }
        }
        assert!(host.held_in_all() <= MOST_HELD);
        assert!(opened < 100_000, "the host lets it go on");
    };
    assert_eq!(error, MuxError::TooManyStreams);
}

/// The host itself opens streams, sends, and grants; the guest allows everything and reads nothing.
#[test]
fn memory_is_bounded_for_a_guest_that_sends_everything_and_reads_nothing() {
    let (mut host, _) = pair();
    let bytes = [0; MAX_PAYLOAD];
    for index in 0..STREAMS {
        let id = StreamId(1 + 2 * index);
        let data = Frame::Data { id, bytes: &bytes };
        let open = Frame::Open { id, label: b"" };
        host.receive(&encoded(&[open, data, data, data])).unwrap();
    }
    let mut own = Vec::new();
    while let Ok(id) = host.open(&[b'y'; MAX_LABEL]) {
        let data = Frame::Data { id, bytes: &bytes };
        host.receive(&encoded(&[data, data, data])).unwrap();
        own.push(id);
    }
    for id in &own {
        host.send(*id, &bytes);
        host.finish(*id);
    }
    assert_eq!(own.len(), STREAMS as usize);
    assert!(host.held_in_all() <= MOST_HELD, "{}", host.held_in_all());
}

#[test]
fn credit_and_stop_for_a_stream_that_is_over_are_no_lie() {
    let (mut host, mut guest) = pair();
    let id = host.open(b"").unwrap();
    host.finish(id);
    carry(&mut host, &mut guest);
    guest.finish(id);
    carry(&mut host, &mut guest);
    host.receive(&encoded(&[Frame::Credit { id, bytes: 1 }, Frame::Stop { id }])).unwrap();
    let late = encoded(&[Frame::Data { id, bytes: b"x" }]);
    assert_eq!(host.receive(&late), Err(MuxError::UnknownStream(id.0)));
}

#[test]
fn only_the_greeting_of_this_start_begins_a_channel() {
    let greeting = |nonce| Endpoint::new(Side::Host(nonce)).output().to_vec();
    let mut host = Endpoint::new(Side::Host([1; NONCE]));
    assert_eq!(host.receive(&greeting([2; NONCE])), Err(MuxError::Greeting));
    for noise in [&b"[    0.000000] Linux version"[..], b"\0", b"pfmux\0\0\x02"] {
        let mut guest = Endpoint::new(Side::Guest);
        assert_eq!(guest.receive(noise), Err(MuxError::Greeting));
        assert_eq!(guest.output(), b"");
    }
    // A guest says nothing, and opens nothing, before it was greeted.
    let mut guest = Endpoint::new(Side::Guest);
    assert_eq!(guest.open(b""), Err(OpenError::NotReady));
    for byte in greeting([3; NONCE]) {
        assert_eq!(guest.output(), b"");
        guest.receive(&[byte]).unwrap();
    }
    assert_eq!(guest.output(), greeting([3; NONCE]));
}

#[test]
fn numbers_of_streams_are_never_used_twice() {
    let (mut host, mut guest) = pair();
    let mut last = StreamId(0);
    for _ in 0..1000 {
        let id = host.open(b"").unwrap();
        assert!(id > last);
        last = id;
        host.finish(id);
        carry(&mut host, &mut guest);
        guest.finish(id);
        carry(&mut host, &mut guest);
    }
    let again = encoded(&[Frame::Open { id: StreamId(2), label: b"" }]);
    let next = u64::from(last.0) + 2;
    assert_eq!(guest.receive(&again), Err(MuxError::StreamNumber { given: 2, next }));
}

#[test]
fn a_frame_is_taken_however_it_is_cut() {
    let bytes =
        encoded(&[OPENED, Frame::Data { id: FIRST, bytes: b"abc" }, Frame::Finish { id: FIRST }]);
    for size in 1..=bytes.len() {
        let (mut host, _) = pair();
        bytes.chunks(size).for_each(|part| host.receive(part).unwrap());
        assert_eq!((host.held(FIRST).0, host.ended(FIRST)), (&b"abc"[..], Some(true)));
    }
    assert_eq!(bytes.len(), 3 * HEADER + 4);
}
