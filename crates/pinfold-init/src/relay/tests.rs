use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

use pinfold_wire::{Channel, LineIn, LineOut};
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use super::{Afterwards, Ends};

/// A relay on a thread, at a terminal of this machine's kernel.
struct Relayed {
    user: OwnedFd,
    outside: Channel,
    held: Option<OwnedFd>,
    relay: JoinHandle<()>,
}

impl Relayed {
    fn start() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = rustix::pty::openpt(flags).unwrap();
        rustix::pty::unlockpt(&controller).unwrap();
        let user = rustix::pty::ioctl_tiocgptpeer(&controller, flags).unwrap();
        let (line, outside) = Channel::pair().unwrap();
        let (ending, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        let relay = std::thread::spawn(move || {
            let afterwards = Afterwards { bytes: 1 << 20, time: Duration::from_millis(100) };
            let (controller, line, ending) = (&controller, &line, &ending);
            let _ = Ends { controller, line, ending, afterwards }.serve();
        });
        let relayed = Self { user, outside, held: Some(held), relay };
        assert_eq!(relayed.next(), Some(LineOut::Open));
        relayed
    }

    fn next(&self) -> Option<LineOut> {
        self.outside.receive().unwrap().map(|received| received.message)
    }

    fn type_in(&self, keys: &[u8]) {
        self.outside.send(&LineIn::Typed(keys.to_vec()), &[]).unwrap();
    }

    /// What is shown until it ends so.
    fn shown(&self, end: &[u8]) -> Vec<u8> {
        let mut shown = Vec::new();
        while !shown.ends_with(end) {
            match self.next() {
                Some(LineOut::Written(bytes)) => shown.extend(bytes),
                other => panic!("{other:?} after {}", shown.escape_ascii()),
            }
        }
        shown
    }

    fn read(&self) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let count = rustix::io::read(&self.user, &mut buffer).unwrap();
        buffer[..count].to_vec()
    }
}

#[test]
fn a_program_that_reads_its_keys_itself_gets_them_all_and_keeps_its_modes() {
    let relayed = Relayed::start();
    let mut modes = tcgetattr(&relayed.user).unwrap();
    modes.make_raw();
    // One that has no key: a terminal that takes the code for one would take Ctrl-Space for it.
    modes.special_codes[SpecialCodeIndex::VQUIT] = 0;
    tcsetattr(&relayed.user, OptionalActions::Now, &modes).unwrap();
    let modes = tcgetattr(&relayed.user).unwrap();
    for keys in [b"\x03".as_slice(), b"a\x1ab", b"\0", b"\x1c", "\u{ff}\x03".as_bytes()] {
        relayed.type_in(keys);
        let mut read = Vec::new();
        while read.len() < keys.len() {
            read.extend(relayed.read());
        }
        assert_eq!(read, keys);
    }
    // What is said in the other direction comes after all of that.
    rustix::io::write(&relayed.user, b"written\n").unwrap();
    relayed.shown(b"written\n");
    assert_eq!(format!("{:?}", tcgetattr(&relayed.user).unwrap()), format!("{modes:?}"));
}

#[test]
fn typed_input_is_read_and_output_is_shown() {
    let relayed = Relayed::start();
    relayed.type_in(b"typed\n");
    assert_eq!(relayed.read(), b"typed\n");
    rustix::io::write(&relayed.user, b"written\n").unwrap();
    assert_eq!(relayed.shown(b"written\r\n"), b"typed\r\nwritten\r\n");
    relayed.outside.send(&LineIn::Window((31, 99)), &[]).unwrap();
    relayed.type_in(b"\n");
    relayed.read();
    let size = rustix::termios::tcgetwinsize(&relayed.user).unwrap();
    assert_eq!((size.ws_row, size.ws_col), (31, 99));
}

#[test]
fn a_key_that_means_a_signal_is_shown_and_takes_with_it_what_was_typed_before() {
    let relayed = Relayed::start();
    relayed.type_in(b"dropped\x03kept\n");
    assert_eq!(relayed.read(), b"kept\n");
    assert_eq!(relayed.shown(b"kept\r\n"), b"^Ckept\r\n");
    let mut raw = tcgetattr(&relayed.user).unwrap();
    raw.local_modes.remove(LocalModes::ISIG);
    tcsetattr(&relayed.user, OptionalActions::Now, &raw).unwrap();
    relayed.type_in(b"\x03\n");
    assert_eq!(relayed.read(), b"\x03\n");
}

#[test]
fn all_is_shown_before_the_end_is_said() {
    let mut relayed = Relayed::start();
    let mut modes = tcgetattr(&relayed.user).unwrap();
    modes.make_raw();
    tcsetattr(&relayed.user, OptionalActions::Now, &modes).unwrap();
    let user = rustix::io::dup(&relayed.user).unwrap();
    // More than terminal, relay and socket hold.
    let writer = std::thread::spawn(move || {
        for _ in 0..512 {
            let mut rest = &[b'x'; 4096][..];
            while !rest.is_empty() {
                rest = &rest[rustix::io::write(&user, rest).unwrap()..];
            }
        }
    });
    let mut count = 0;
    while count < 256 * 4096 {
        match relayed.next() {
            Some(LineOut::Written(bytes)) => count += bytes.len(),
            other => panic!("{other:?}"),
        }
    }
    // The last of it may be anywhere on its way.
    while !writer.is_finished() {
        match relayed.next() {
            Some(LineOut::Written(bytes)) => count += bytes.len(),
            other => panic!("{other:?}"),
        }
        std::thread::yield_now();
    }
    relayed.held = None;
    loop {
        match relayed.next() {
            Some(LineOut::Written(bytes)) => count += bytes.len(),
            other => break assert_eq!(other, Some(LineOut::End)),
        }
    }
    assert_eq!(count, 512 * 4096);
    assert!(!relayed.relay.is_finished(), "the outside has not shown it yet");
    relayed.outside.send(&LineIn::Shown, &[]).unwrap();
    relayed.relay.join().unwrap();
}

/// Writes as long as there is a terminal.
fn flood(relayed: &Relayed) {
    let user = rustix::io::dup(&relayed.user).unwrap();
    std::thread::spawn(move || while rustix::io::write(&user, &[b'x'; 4096]).is_ok() {});
}

#[test]
fn a_key_is_heard_however_much_is_written() {
    let relayed = Relayed::start();
    flood(&relayed);
    relayed.type_in(b"\x03");
    let mut seen = Vec::new();
    while !seen.windows(2).any(|two| two == b"^C") {
        match relayed.next() {
            Some(LineOut::Written(bytes)) => seen = [&seen[seen.len().min(1)..], &bytes].concat(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn endless_output_does_not_delay_the_end() {
    let mut relayed = Relayed::start();
    flood(&relayed);
    relayed.held = None;
    while !matches!(relayed.next(), Some(LineOut::End)) {}
}

#[test]
fn init_ends_when_the_supervisor_is_gone_or_sends_nonsense() {
    let Relayed { outside, relay, .. } = Relayed::start();
    drop(outside);
    relay.join().unwrap();
    let Relayed { outside, relay, user, .. } = Relayed::start();
    rustix::net::send(&outside, b"\xffnonsense", rustix::net::SendFlags::NOSIGNAL).unwrap();
    relay.join().unwrap();
    assert_eq!(rustix::io::read(&user, &mut [0; 16]), Ok(0), "the terminal hung up");
}
