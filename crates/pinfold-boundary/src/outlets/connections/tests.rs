use std::net::{TcpListener, UdpSocket};

use pinfold_policy::path::InsidePath;

use super::*;

#[test]
fn request_crosses_a_channel() {
    for to in [None, Some("192.0.2.1:443"), Some("[2001:db8::1]:22")] {
        let to = to.map(|to| to.parse().unwrap());
        let request = DoorRequest { door: 7, to };
        assert_eq!(DoorRequest::decode(&request.encode()), Ok(request));
    }
}

#[test]
fn malformed_request_is_an_error() {
    let with = |to: &[u8]| {
        let mut writer = Writer::default();
        writer.u32(0).bytes(to);
        writer.finish()
    };
    let whole = DoorRequest { door: 1, to: "192.0.2.1:443".parse().ok() }.encode();
    for wrong in [b"end".to_vec(), Vec::new(), with(b"192.0.2.1"), with(b"\xff"), with(b"host:80")]
    {
        assert!(DoorRequest::decode(&wrong).is_err(), "{wrong:?}");
    }
    for length in 0..whole.len() {
        assert!(DoorRequest::decode(&whole[..length]).is_err(), "{length}");
    }
}

/// What a hostile guest may say.
#[test]
fn only_doors_are_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |address: SocketAddr| address.port();
    let own = listener.local_addr().unwrap();
    let missing = InsidePath::new("/nonexistent/socket").unwrap();
    let doors = [
        Door::Listener(own),
        Door::Datagrams(port(names.local_addr().unwrap())),
        Door::Outward(port(own)),
        Door::Unix(missing),
    ];
    let ask = |door, to: Option<SocketAddr>| connect(&doors, DoorRequest { door, to });
    assert!(ask(0, None).is_ok() && ask(1, None).is_ok());
    // Where it says that it wants to go matters at the outward door alone.
    let elsewhere = other.local_addr().unwrap();
    let socket = ask(0, Some(elsewhere)).unwrap();
    assert_eq!(std::net::TcpStream::from(socket).peer_addr().unwrap(), own);
    assert!(ask(2, Some(own)).is_ok());
    let port = port(elsewhere);
    for to in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]"] {
        let to: SocketAddr = format!("{to}:{port}").parse().unwrap();
        assert_eq!(ask(2, Some(to)).unwrap_err(), Errno::ACCESS, "{to}");
    }
    assert_eq!(ask(2, None).unwrap_err(), Errno::ACCESS);
    assert_eq!(ask(3, None).unwrap_err(), Errno::NOENT);
    assert_eq!(ask(4, None).unwrap_err(), Errno::NOENT);
    assert_eq!(ask(u32::MAX, None).unwrap_err(), Errno::NOENT);
}
