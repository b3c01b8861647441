//! Multiplexers on socket pairs, each in a thread.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::encoded;
use crate::endpoint::{Endpoint, NONCE, Side};
use crate::error::MuxError;
use crate::frame::Frame;
use crate::{Local, MAX_MESSAGE, Multiplexer, Notice, StreamId, WINDOW};

/// What a thread does for the test.
type Errand = Box<dyn FnOnce(&mut Multiplexer) + Send>;

/// One end in a thread of its own. Each stream that the peer opens appears as a local socket.
struct End {
    errands: Sender<Errand>,
    bell: UnixStream,
    opened: Receiver<(StreamId, Vec<u8>, UnixStream)>,
    thread: JoinHandle<MuxError>,
}

impl End {
    fn start(multiplexer: Multiplexer) -> Self {
        let (errands, received) = mpsc::channel::<Errand>();
        let (bell, mut ring) = UnixStream::pair().unwrap();
        let (shown, opened) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut multiplexer = multiplexer;
            loop {
                let (ready, notices) = match multiplexer.turn(&[ring.as_fd()], None) {
                    Ok(turned) => turned,
                    Err(error) => return error,
                };
                for notice in notices {
                    if let Notice::Opened { id, label } = notice {
                        let (local, remote) = UnixStream::pair().unwrap();
                        multiplexer.attach(id, Local::socket(remote.into()).unwrap());
                        let _ = shown.send((id, label, local));
                    }
                }
                if ready[0] && ring.read(&mut [0]).unwrap() == 0 {
                    return MuxError::Closed;
                }
                received.try_iter().for_each(|errand| errand(&mut multiplexer));
            }
        });
        Self { errands, bell, opened, thread }
    }

    fn run<T: Send + 'static>(
        &self,
        errand: impl FnOnce(&mut Multiplexer) -> T + Send + 'static,
    ) -> T {
        let (sender, receiver) = mpsc::channel();
        let errand = move |multiplexer: &mut Multiplexer| drop(sender.send(errand(multiplexer)));
        self.errands.send(Box::new(errand)).unwrap();
        (&self.bell).write_all(b"!").unwrap();
        receiver.recv().unwrap()
    }

    fn open_with(&self, label: &'static [u8], local: Local) -> StreamId {
        self.run(move |multiplexer| multiplexer.open(label, local)).unwrap()
    }

    /// Opens a stream, and returns its local end and the peer's.
    fn open(&self, peer: &Self) -> (UnixStream, UnixStream) {
        let (local, remote) = UnixStream::pair().unwrap();
        let id = self.open_with(b"test", Local::socket(remote.into()).unwrap());
        let (opened, label, theirs) = peer.opened.recv().unwrap();
        assert_eq!((opened, label), (id, b"test".to_vec()));
        (local, theirs)
    }
}

fn ends() -> (End, End) {
    let (left, right) = UnixStream::pair().unwrap();
    let mut host = Multiplexer::host(left.into()).unwrap();
    let guest = End::start(Multiplexer::guest(right.into()).unwrap());
    let mut notices = Vec::new();
    while notices.is_empty() {
        notices = host.turn(&[], None).unwrap().1;
    }
    assert_eq!(notices, [Notice::Ready]);
    (End::start(host), guest)
}

#[test]
fn bytes_cross_both_ways_and_each_direction_ends_by_itself() {
    let (host, guest) = ends();
    let (mut here, mut there) = host.open(&guest);
    here.write_all(b"question").unwrap();
    here.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    there.read_to_string(&mut text).unwrap();
    assert_eq!(text, "question");
    there.write_all(b"answer").unwrap();
    drop(there);
    text.clear();
    here.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
    drop(here);
    // Nothing of it is left at either end.
    let (next, other) = guest.open(&host);
    drop((next, other));
    while host.run(|multiplexer| multiplexer.attached().count()) > 0 {}
    while guest.run(|multiplexer| multiplexer.attached().count()) > 0 {}
}

#[test]
fn many_streams_carry_many_bytes_at_the_same_time() {
    let (host, guest) = ends();
    let length = 20 * WINDOW as usize;
    let threads: Vec<_> = (0..8_u8)
        .map(|index| {
            let (mut here, mut there) =
                if index % 2 == 0 { host.open(&guest) } else { guest.open(&host) };
            let sent: Vec<u8> = (0..length).map(|at| (at / 3) as u8 ^ index).collect();
            let expected = sent.clone();
            let writer = std::thread::spawn(move || here.write_all(&sent).unwrap());
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                there.read_to_end(&mut got).unwrap();
                assert!(got == expected, "stream {index}");
            });
            [writer, reader]
        })
        .collect();
    threads.into_iter().flatten().for_each(|thread| thread.join().unwrap());
}

#[test]
fn stalled_reader_stops_no_other_stream() {
    let (host, guest) = ends();
    let (mut stalled, never_read) = host.open(&guest);
    let filler = std::thread::spawn(move || {
        // More than every buffer on the way holds.
        let _ = stalled.write_all(&vec![0; 8 << 20]);
    });
    for _ in 0..50 {
        let (mut here, mut there) = host.open(&guest);
        here.write_all(&[1; 5000]).unwrap();
        there.read_exact(&mut [0; 5000]).unwrap();
    }
    assert!(!filler.is_finished());
    // The writer learns that nobody will read it.
    drop(never_read);
    filler.join().unwrap();
}

#[test]
fn reader_that_goes_ends_its_direction_alone() {
    let (host, guest) = ends();
    let (mut here, there) = host.open(&guest);
    there.shutdown(std::net::Shutdown::Read).unwrap();
    here.write_all(b"for nobody").unwrap();
    let refused = loop {
        if let Err(error) = here.write_all(b"more") {
            break error;
        }
    };
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    (&there).write_all(b"still heard").unwrap();
    drop(there);
    let mut text = String::new();
    here.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still heard");
}

#[test]
fn writer_that_goes_without_reading_everything_is_heard_to_its_end() {
    let (host, guest) = ends();
    let (mut here, mut there) = host.open(&guest);
    here.write_all(b"never read").unwrap();
    // It has arrived when it can be seen without being taken.
    let peek = RecvFlags::PEEK;
    rustix::net::recv(&there, &mut [0_u8], peek).unwrap();
    there.write_all(b"last words").unwrap();
    drop(there);
    let mut text = String::new();
    here.read_to_string(&mut text).unwrap();
    assert_eq!(text, "last words");
}

#[test]
fn pipes_have_one_direction() {
    let (host, guest) = ends();
    let (reader, mut writer) = std::io::pipe().unwrap();
    host.open_with(b"out", Local::reading(reader.into()).unwrap());
    let (_, _, mut there) = guest.opened.recv().unwrap();
    writer.write_all(b"printed").unwrap();
    drop(writer);
    let mut text = String::new();
    there.read_to_string(&mut text).unwrap();
    assert_eq!(text, "printed");
    let (mut reader, writer) = std::io::pipe().unwrap();
    host.open_with(b"in", Local::writing(writer.into()).unwrap());
    let (_, _, there) = guest.opened.recv().unwrap();
    (&there).write_all(b"typed").unwrap();
    drop(there);
    text.clear();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "typed");
}

fn seqpacket() -> (OwnedFd, OwnedFd) {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap()
}

#[test]
fn messages_keep_their_borders_up_to_the_largest() {
    let (left, right) = UnixStream::pair().unwrap();
    let (mut host, mut guest) =
        (Multiplexer::host(left.into()).unwrap(), Multiplexer::guest(right.into()).unwrap());
    let (here, near) = seqpacket();
    let (there, far) = seqpacket();
    let mut far = Some(far);
    let mut near = Some(near);
    let lengths = [1, 2, 4096, MAX_MESSAGE - 1, MAX_MESSAGE, 3, MAX_MESSAGE];
    let (mut sent, mut got) = (0, Vec::new());
    let mut buffer = vec![0; MAX_MESSAGE + 1];
    while got.len() < lengths.len() {
        if let Some(next) = lengths.get(sent) {
            let text = vec![sent as u8; *next];
            sent += usize::from(rustix::net::send(&here, &text, SendFlags::DONTWAIT).is_ok());
        }
        for notice in host.turn(&[], Some(std::time::Duration::ZERO)).unwrap().1 {
            assert_eq!(notice, Notice::Ready);
            let near = Local::messages(near.take().unwrap()).unwrap();
            host.open(b"messages", near).unwrap();
        }
        for notice in guest.turn(&[], Some(std::time::Duration::ZERO)).unwrap().1 {
            if let Notice::Opened { id, .. } = notice {
                guest.attach(id, Local::messages(far.take().unwrap()).unwrap());
            }
        }
        while let Ok((_, length)) = rustix::net::recv(&there, &mut buffer[..], RecvFlags::DONTWAIT)
        {
            assert_ne!(length, 0, "ended after {got:?}");
            assert!(buffer[..length].iter().all(|byte| usize::from(*byte) == got.len()));
            got.push(length);
        }
    }
    assert_eq!(got, lengths);
}

/// Returns a peer that speaks by hand, after the greeting.
fn by_hand() -> (End, UnixStream) {
    let (left, mut raw) = UnixStream::pair().unwrap();
    let mut host = Multiplexer::host(left.into()).unwrap();
    assert_eq!(host.turn(&[], None).unwrap().1, []);
    let mut greeting = vec![0; Endpoint::new(Side::Host([0; NONCE])).output().len()];
    raw.read_exact(&mut greeting).unwrap();
    raw.write_all(&greeting).unwrap();
    assert_eq!(host.turn(&[], None).unwrap().1, [Notice::Ready]);
    (End::start(host), raw)
}

#[test]
fn lie_ends_every_stream_with_its_reason() {
    let (host, mut raw) = by_hand();
    raw.write_all(&encoded(&[Frame::Open { id: StreamId(1), label: b"" }])).unwrap();
    let (_, _, mut stream) = host.opened.recv().unwrap();
    raw.write_all(&encoded(&[Frame::Finish { id: StreamId(5) }])).unwrap();
    assert_eq!(host.thread.join().unwrap(), MuxError::UnknownStream(5));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    raw.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn message_of_impossible_length_is_a_lie() {
    let (host, mut raw) = by_hand();
    let (_here, near) = seqpacket();
    let id = host.run(|multiplexer| multiplexer.open(b"", Local::messages(near).unwrap()));
    let bytes = &(MAX_MESSAGE as u32 + 1).to_le_bytes();
    raw.write_all(&encoded(&[Frame::Data { id: id.unwrap(), bytes }])).unwrap();
    assert_eq!(host.thread.join().unwrap(), MuxError::Message(MAX_MESSAGE as u32 + 1));
}

#[test]
fn half_a_message_is_not_delivered() {
    let (host, mut raw) = by_hand();
    let (here, near) = seqpacket();
    let id = host.run(|multiplexer| multiplexer.open(b"", Local::messages(near).unwrap())).unwrap();
    let frames = [Frame::Data { id, bytes: b"\x05\0\0\0ab" }, Frame::Finish { id }];
    raw.write_all(&encoded(&frames)).unwrap();
    let (_, length) = rustix::net::recv(&here, &mut [0_u8; 9], RecvFlags::empty()).unwrap();
    assert_eq!(length, 0);
}

#[test]
fn aborted_stream_ends_both_ways() {
    let (host, mut raw) = by_hand();
    raw.write_all(&encoded(&[Frame::Open { id: StreamId(1), label: b"" }])).unwrap();
    let (id, _, mut stream) = host.opened.recv().unwrap();
    raw.write_all(&encoded(&[Frame::Abort { id }])).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    stream.write_all(b"x").unwrap_err();
}

#[test]
fn what_a_peer_sent_before_it_went_is_delivered() {
    let (host, mut raw) = by_hand();
    raw.write_all(&encoded(&[Frame::Open { id: StreamId(1), label: b"" }])).unwrap();
    let (id, _, mut stream) = host.opened.recv().unwrap();
    stream.write_all(b"never read").unwrap();
    let frames = [Frame::Data { id, bytes: b"last words" }, Frame::Finish { id }];
    raw.write_all(&encoded(&frames)).unwrap();
    drop(raw);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "last words");
    assert_eq!(host.thread.join().unwrap(), MuxError::Closed);
}

#[test]
fn channel_stays_ended() {
    let (left, right) = UnixStream::pair().unwrap();
    let mut guest = Multiplexer::guest(left.into()).unwrap();
    drop(right);
    for _ in 0..3 {
        assert_eq!(guest.turn(&[], None), Err(MuxError::Closed));
    }
}
