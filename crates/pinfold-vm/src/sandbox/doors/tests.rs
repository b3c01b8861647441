use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pinfold_mux::{Local, Multiplexer, Notice};

use super::*;

/// A guest that opens streams of any label, more than it may have, and closes them again: the process that connects hears
/// of well-formed requests alone, and no descriptor is left.
#[test]
fn hostile_guest_gets_what_it_may_ask_for_and_nothing_else() {
    let (left, right) = UnixStream::pair().unwrap();
    let (_supervisor, peer) = Channel::pair().unwrap();
    let peer = peer.as_fd().try_clone_to_owned().unwrap();
    let (doors, connections) = Channel::pair().unwrap();
    let connector = std::thread::spawn(move || {
        let mut asked = Vec::new();
        while let Ok(Some(received)) = connections.receive::<DoorRequest>() {
            asked.push(received.message);
            let (mine, theirs) = UnixStream::pair().unwrap();
            let given = [theirs.as_fd()];
            // Every other door is refused.
            let given = if received.message.door == 1 { &given[..] } else { &[] };
            connections.send(&Report::Socket, given).unwrap();
            drop(mine);
        }
        asked
    });
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let host = std::thread::spawn(move || {
        let doors = Doors::from(doors);
        let mut host = HostFerry::new(Multiplexer::host(left.into()).unwrap(), peer);
        while host.turn(&[], None).is_ok() {
            doors.serve(&mut host);
        }
    });
    let whole = DoorRequest { door: 1, to: "198.18.1.1:443".parse().ok() }.encode();
    let refused = DoorRequest { door: 2, to: None }.encode();
    let labels: Vec<&[u8]> = vec![
        &whole,
        &refused,
        &whole[..whole.len() - 1],
        b"",
        b"reports",
        b"orders",
        b"ds\x01\0\0\0",
    ];
    let mut guest = Multiplexer::guest(right.into()).unwrap();
    let (mut labels, mut open, mut rounds) = (labels.into_iter().cycle().take(700), 0, 0);
    let mut next = labels.next();
    while next.is_some() || open > 0 {
        rounds += 1;
        assert!(rounds < 100_000);
        if let Some(label) = next
            && guest.opens_left() > 0
        {
            let (mine, theirs) = UnixStream::pair().unwrap();
            guest.open(label, Local::socket(theirs.into()).unwrap()).unwrap();
            drop(mine);
            open += 1;
            next = labels.next();
        }
        for notice in guest.turn(&[], Some(Duration::from_millis(1))).unwrap().1 {
            match notice {
                Notice::Closed(_) => open -= 1,
                Notice::Opened { id, .. } => guest.refuse(id),
                Notice::Ready => {}
            }
        }
    }
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after <= before + 8, "{before} {after}");
    drop(guest);
    host.join().unwrap();
    let asked = connector.join().unwrap();
    assert_eq!(asked.len(), 200);
    assert!(asked.iter().all(|request| [1, 2].contains(&request.door)));
}
