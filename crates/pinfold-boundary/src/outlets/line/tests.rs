use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use pinfold_wire::{Channel, LineIn, LineOut};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::OptionalActions;

use super::Line;

/// The outer end of a line on a thread, with a hostile sandbox at the other.
struct Outer {
    controller: OwnedFd,
    inside: Channel,
    /// Where it would hear of its window.
    window: OwnedFd,
    line: JoinHandle<Result<(), Errno>>,
}

fn start() -> Outer {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = rustix::pty::openpt(flags).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let user = rustix::pty::ioctl_tiocgptpeer(&controller, flags).unwrap();
    let mut modes = rustix::termios::tcgetattr(&user).unwrap();
    modes.make_raw();
    rustix::termios::tcsetattr(&user, OptionalActions::Now, &modes).unwrap();
    rustix::io::ioctl_fionbio(&user, true).unwrap();
    let (channel, inside) = Channel::pair().unwrap();
    let window = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let heard = window.try_clone().unwrap();
    let line =
        std::thread::spawn(move || Line { task: None, window: None, channel }.carry(&user, &heard));
    Outer { controller, inside, window, line }
}

fn heard(inside: &Channel) -> Option<LineIn> {
    inside.receive().unwrap().map(|received| received.message)
}

#[test]
fn bytes_sizes_and_the_end_cross() {
    let outer = start();
    rustix::io::write(&outer.controller, b"\x03typed").unwrap();
    assert_eq!(heard(&outer.inside), Some(LineIn::Typed(b"\x03typed".to_vec())));
    let size = rustix::termios::Winsize { ws_row: 9, ws_col: 8, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&outer.controller, size).unwrap();
    rustix::io::write(&outer.window, &1_u64.to_ne_bytes()).unwrap();
    assert_eq!(heard(&outer.inside), Some(LineIn::Window((9, 8))));
    outer.inside.send(&LineOut::Written(b"written\n".to_vec()), &[]).unwrap();
    outer.inside.send(&LineOut::End, &[]).unwrap();
    assert_eq!(heard(&outer.inside), Some(LineIn::Shown));
    assert_eq!(outer.line.join().unwrap(), Ok(()));
    let mut shown = [0; 64];
    let count = rustix::io::read(&outer.controller, &mut shown).unwrap();
    assert_eq!(&shown[..count], b"written\n");
    assert_eq!(rustix::io::read(&outer.controller, &mut shown), Err(Errno::IO));
}

#[test]
fn writer_waits_for_its_reader() {
    let outer = start();
    let much = LineOut::Written(vec![b'x'; 4096]);
    let mut sent = 0;
    let mut refused = 0;
    while refused < 50 {
        match outer.inside.offer(&much) {
            Ok(()) => (sent, refused) = (sent + 4096, 0),
            Err(Errno::AGAIN) => {
                refused += 1;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Err(errno) => panic!("{errno}"),
        }
    }
    assert!(sent < 4 << 20, "{sent} bytes are held for a reader that does not read");
    // It still hears that nobody reads any more.
    drop(outer.controller);
    assert_eq!(outer.line.join().unwrap(), Err(Errno::IO));
}

#[test]
fn nonsense_or_an_end_without_a_word_ends_it() {
    for nonsense in [&b"\xff"[..], b"\x02\xff\xff\xff\xff", &[0; 70_000]] {
        let outer = start();
        rustix::net::send(&outer.inside, nonsense, rustix::net::SendFlags::NOSIGNAL).unwrap();
        assert_eq!(outer.line.join().unwrap(), Err(Errno::PIPE));
    }
    let outer = start();
    drop(outer.inside);
    assert_eq!(outer.line.join().unwrap(), Err(Errno::PIPE));
    let mut rest = [0; 16];
    assert_eq!(rustix::io::read(&outer.controller, &mut rest), Err(Errno::IO));
}
