use std::os::fd::{AsFd as _, OwnedFd};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use std::time::Duration;

use super::*;

/// Returns a terminal in raw mode: the side of the emulator, and the side of programs.
fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let emulator = openpt(flags).unwrap();
    grantpt(&emulator).unwrap();
    unlockpt(&emulator).unwrap();
    let path = ptsname(&emulator, Vec::new()).unwrap();
    let open = std::fs::OpenOptions::new().read(true).write(true).open(path.to_str().unwrap());
    let program = OwnedFd::from(open.unwrap());
    let mut raw = tcgetattr(&program).unwrap();
    raw.make_raw();
    tcsetattr(&program, OptionalActions::Now, &raw).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&program, size).unwrap();
    (emulator, program)
}

/// Reads until a text was read.
fn read_until(from: &OwnedFd, text: &str) -> String {
    let (mut all, mut buffer) = (String::new(), [0; 4096]);
    while !all.contains(text) {
        let count = rustix::io::read(from, &mut buffer).unwrap();
        all.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    all
}

fn write(to: &OwnedFd, text: &str) {
    assert_eq!(rustix::io::write(to, text.as_bytes()).unwrap(), text.len());
}

#[test]
fn a_notice_holds_output_back_and_lets_keys_through() {
    let (emulator, caller) = terminal();
    let (inside, program) = terminal();
    let passage = Arc::new(Passage::default());
    let output = passage.start(caller.as_fd(), inside.as_fd()).unwrap();
    write(&program, "before");
    read_until(&emulator, "before");

    let held = passage.hold(Keys::ToSandbox).unwrap();
    held.open();
    let mut page = Page::new(vec!["provider p answered 401".to_owned()]);
    held.draw(page.draw(held.size()).unwrap().as_bytes());
    let shown = read_until(&emulator, "answered 401");
    assert!(shown.contains("\x1b[?1049h"), "{shown:?}");
    write(&program, "after");
    write(&emulator, "key");
    // The program has the key while the notice is shown.
    assert_eq!(read_until(&program, "key"), "key");
    assert_eq!(held.typed(Duration::from_secs(10)).unwrap().bytes, b"key");
    drop(held);
    let shown = read_until(&emulator, "after");
    let (left, after) = (shown.find("\x1b[?1049l").unwrap(), shown.find("after").unwrap());
    assert!(left < after, "{shown:?}");

    // The end waits for the holder of the screen, and nobody gets it afterwards.
    let held = passage.hold(Keys::ToSandbox).unwrap();
    let ending = Arc::clone(&passage);
    let ending = std::thread::spawn(move || ending.end());
    while !held.is_recalled() {
        std::thread::yield_now();
    }
    assert!(!ending.is_finished());
    drop(held);
    ending.join().unwrap();
    assert!(passage.hold(Keys::ToSandbox).is_none());
    drop(program);
    output.join().unwrap();
}

#[test]
fn a_notice_is_seen_whatever_the_program_asked_of_the_terminal() {
    let (emulator, caller) = terminal();
    let (inside, program) = terminal();
    let passage = Arc::new(Passage::default());
    passage.start(caller.as_fd(), inside.as_fd()).unwrap();
    write(&program, "\x1b]10;#000\x07\x1b]11;#000\x07hidden");
    read_until(&emulator, "hidden");
    let held = passage.hold(Keys::ToSandbox).unwrap();
    held.open();
    let mut page = Page::new(vec!["seen".to_owned()]);
    held.draw(page.draw(held.size()).unwrap().as_bytes());
    let shown = read_until(&emulator, "pinfold: seen");
    assert!(shown.contains("\x1b]110\x1b\\\x1b]111\x1b\\"), "{shown:?}");
    // Text of the program that is protected (ESC V) would stay between pinfold's words.
    let [open, erase] = ["\x1b[0\"q", "\x1b[2J"].map(|it| shown.find(it));
    assert!(open.is_some() && open < erase, "{shown:?}");
}
