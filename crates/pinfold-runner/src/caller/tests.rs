use std::os::fd::AsFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::Caller;

#[test]
fn caller_is_who_made_the_socket_and_whom_sudo_names() {
    let kind = SocketType::SEQPACKET;
    let (one, _other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let caller = Caller::of_socket(one.as_fd()).unwrap();
    assert_eq!(caller.uid, rustix::process::geteuid().as_raw());
    let own = caller.uid.to_string();
    assert_eq!(caller.agrees_with_sudo(None), Ok(()));
    assert_eq!(caller.agrees_with_sudo(Some(&own)), Ok(()));
    let other = (caller.uid + 1).to_string();
    for text in ["", "-1", "root", "0x0", "99999999999", &other, &format!("{own} ")] {
        assert!(caller.agrees_with_sudo(Some(text)).is_err(), "{text}");
    }
}
