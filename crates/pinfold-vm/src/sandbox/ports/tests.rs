use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinfold_mux::{GuestFerry, Multiplexer, Notice};

use super::*;
use crate::guest::Ports as GuestPorts;

/// A ferry on the host that serves ports until the guest's end is gone.
fn host(channel: UnixStream, mut asked: AskedPorts) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (_supervisor, peer) = Channel::pair().unwrap();
        let peer = peer.as_fd().try_clone_to_owned().unwrap();
        let mut ferry = HostFerry::new(Multiplexer::host(channel.into()).unwrap(), peer);
        while let Ok(ready) = ferry.turn(&[asked.asked()], None) {
            if ready == [true] {
                asked.take();
            }
            asked.open(&mut ferry);
        }
    })
}

fn stream(ports: &Ports, port: u16) -> UnixStream {
    let stream = UnixStream::from(ports.stream_to(port).unwrap());
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn stream_leads_to_the_port_of_either_family_and_ends_where_nobody_listens() {
    let (left, right) = UnixStream::pair().unwrap();
    let (ports, asked) = ports().unwrap();
    let host = host(left, asked);
    let (stop, stopped) = Channel::pair().unwrap();
    let guest = std::thread::spawn(move || {
        let (_init, peer) = Channel::pair().unwrap();
        let peer = peer.as_fd().try_clone_to_owned().unwrap();
        let mut ferry = GuestFerry::new(Multiplexer::guest(right.into()).unwrap(), peer);
        let mut ports = GuestPorts::default();
        while ferry.turn(&[stopped.as_fd()], ports.timeout()).unwrap() == [false] {
            ports.serve(&mut ferry);
        }
    });
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let port = listener.local_addr().unwrap().port();
        let mut near = stream(&ports, port);
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"question").unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let mut question = String::new();
        far.read_to_string(&mut question).unwrap();
        assert_eq!(question, "question");
        far.write_all(b"answer").unwrap();
        drop(far);
        let mut answer = String::new();
        near.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
        drop(listener);
        assert!(matches!(stream(&ports, port).read(&mut [0]), Ok(0) | Err(_)));
    }
    drop(stop);
    guest.join().unwrap();
    host.join().unwrap();
}

/// A guest that takes some streams, refuses some and leaves the rest alone: nobody who asks waits, and nothing is left.
#[test]
fn guest_that_takes_nothing_holds_up_nobody() {
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (left, right) = UnixStream::pair().unwrap();
    let (ports, asked) = ports().unwrap();
    let host = host(left, asked);
    let mut guest = Multiplexer::guest(right.into()).unwrap();
    let mut streams = Vec::new();
    let (mut opened, begun) = (0, Instant::now());
    for port in 0..400 {
        streams.push(stream(&ports, port));
        for notice in guest.turn(&[], Some(Duration::from_millis(1))).unwrap().1 {
            let Notice::Opened { id, label } = notice else { continue };
            opened += usize::from(PortRequest::decode(&label).is_ok());
            if opened % 4 == 0 {
                guest.refuse(id);
            }
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!((112..400).contains(&opened), "{opened}");
    let ended = streams.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        (&**stream).read(&mut [0]).is_ok_and(|count| count == 0)
    });
    assert!(ended.count() > 100, "those that are too many");
    drop(guest);
    host.join().unwrap();
    drop((ports, streams));
    assert_eq!(std::fs::read_dir("/proc/self/fd").unwrap().count(), before);
}
