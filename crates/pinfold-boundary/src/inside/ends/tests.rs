use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};

use super::*;

fn streams() -> Streams {
    Streams::plain([StreamEnd::Descriptor, StreamEnd::Descriptor, StreamEnd::Same(1)])
}

#[test]
fn callers_pipes_stay_as_they_are_and_ends_work() {
    let ((read, mut to_read), (mut from_write, write)) =
        (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let mut ends = open_again(&streams(), &[read.as_fd(), write.as_fd()]).unwrap();
    for end in [read.as_fd(), write.as_fd()] {
        assert!(!rustix::fs::fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK));
    }
    drop((read, write));
    let (mut output, mut input) = (File::from(ends.remove(1)), File::from(ends.remove(0)));
    to_read.write_all(b"typed").unwrap();
    let mut buffer = [0; 5];
    input.read_exact(&mut buffer).unwrap();
    output.write_all(&buffer).unwrap();
    drop(output);
    let mut text = String::new();
    from_write.read_to_string(&mut text).unwrap();
    assert_eq!(text, "typed");
}

#[test]
fn terminal_that_is_open_both_ways_gets_a_direction() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let controller = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&controller).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let user = rustix::pty::ioctl_tiocgptpeer(&controller, flags).unwrap();
    let ends = open_again(&streams(), &[user.as_fd(), user.as_fd()]).unwrap();
    let modes: Vec<_> =
        ends.iter().map(|end| rustix::fs::fcntl_getfl(end).unwrap() & OFlags::RWMODE).collect();
    assert_eq!(modes, [OFlags::RDONLY, OFlags::WRONLY]);
}

#[test]
fn position_in_a_file_is_kept() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before\n").unwrap();
    let null = File::open("/dev/null").unwrap();
    let ends = open_again(&streams(), &[null.as_fd(), file.as_fd()]).unwrap();
    rustix::io::write(&ends[1], b"after\n").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before\nafter\n");
}
