use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use super::*;
use crate::{Local, Multiplexer, MuxError, Notice};

/// Both ferries, each in a thread, between the sockets that are returned.
fn carried() -> (OwnedFd, OwnedFd, [JoinHandle<MuxError>; 2]) {
    let (left, right) = UnixStream::pair().unwrap();
    let ((supervisor, theirs), (init, ours)) = (messages().unwrap(), messages().unwrap());
    let mut host = HostFerry::new(Multiplexer::host(left.into()).unwrap(), theirs);
    let mut guest = GuestFerry::new(Multiplexer::guest(right.into()).unwrap(), ours);
    let host = std::thread::spawn(move || {
        loop {
            if let Err(error) = host.turn(&[], None) {
                return error;
            }
        }
    });
    let guest = std::thread::spawn(move || {
        loop {
            if let Err(error) = guest.turn(&[], None) {
                return error;
            }
        }
    });
    (supervisor, init, [host, guest])
}

/// Waits for a message.
fn next(socket: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience));
    assert_eq!(ready, Ok(1), "nothing came");
    receive(socket).unwrap()
}

#[test]
fn messages_cross_in_order_with_descriptors_that_work() {
    let (supervisor, init, _threads) = carried();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let (mine, theirs) = UnixStream::pair().unwrap();
    let (near, far) = messages().unwrap();
    send(&supervisor, b"plain", &[]).unwrap();
    let sent = [read.as_fd(), theirs.as_fd(), far.as_fd()];
    send(&supervisor, b"with three", &sent).unwrap();
    drop((read, theirs, far));
    assert_eq!(next(&init).0, b"plain");
    let (message, descriptors) = next(&init);
    assert_eq!(message, b"with three");
    let [input, socket, line] = <[OwnedFd; 3]>::try_from(descriptors).unwrap();

    std::fs::File::from(write).write_all(b"input").unwrap();
    let mut text = String::new();
    std::fs::File::from(input).read_to_string(&mut text).unwrap();
    assert_eq!(text, "input");

    let (mut mine, mut socket) = (mine, UnixStream::from(socket));
    mine.write_all(b"question").unwrap();
    mine.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    socket.write_all(b"answer").unwrap();
    drop(socket);
    let mut back = String::new();
    mine.read_to_string(&mut back).unwrap();
    assert_eq!((text.as_str(), back.as_str()), ("question", "answer"));

    send(&line, b"one", &[]).unwrap();
    send(&line, b"two", &[]).unwrap();
    assert_eq!((next(&near).0, next(&near).0), (b"one".to_vec(), b"two".to_vec()));
}

#[test]
fn output_of_a_process_arrives_whole_and_ends() {
    let (supervisor, init, _threads) = carried();
    let (read, write) = rustix::pipe::pipe().unwrap();
    send(&supervisor, b"run", &[write.as_fd()]).unwrap();
    drop(write);
    let output = next(&init).1.pop().unwrap();
    let bytes = vec![7; 3 << 20];
    let writer = std::thread::spawn(move || std::fs::File::from(output).write_all(&bytes));
    let mut got = Vec::new();
    std::fs::File::from(read).read_to_end(&mut got).unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!((got.len(), got.iter().all(|byte| *byte == 7)), (3 << 20, true));
}

#[test]
fn report_comes_after_the_output_that_was_written_before_it() {
    let (supervisor, init, _threads) = carried();
    for _ in 0..100 {
        let (read, write) = rustix::pipe::pipe().unwrap();
        send(&supervisor, b"run", &[write.as_fd()]).unwrap();
        drop(write);
        let output = next(&init).1.pop().unwrap();
        std::fs::File::from(output).write_all(&[7; 60_000]).unwrap();
        send(&init, b"ended", &[]).unwrap();
        assert_eq!(next(&supervisor).0, b"ended");
        assert_eq!(rustix::io::ioctl_fionread(&read), Ok(60_000));
    }
}

#[test]
fn output_without_end_stops_no_report() {
    let (supervisor, init, _threads) = carried();
    let (read, write) = rustix::pipe::pipe().unwrap();
    send(&supervisor, b"run", &[write.as_fd()]).unwrap();
    drop(write);
    let mut output = std::fs::File::from(next(&init).1.pop().unwrap());
    let writer = std::thread::spawn(move || while output.write_all(&[7; 4096]).is_ok() {});
    let mut read = std::fs::File::from(read);
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        for _ in 0..200 {
            read.read_exact(&mut buffer).unwrap();
        }
    });
    send(&init, b"stopped", &[]).unwrap();
    assert_eq!(next(&supervisor).0, b"stopped");
    reader.join().unwrap();
    writer.join().unwrap();
}

#[test]
fn reports_come_back_without_what_the_guest_hands_over() {
    let (supervisor, init, _threads) = carried();
    let (_read, write) = rustix::pipe::pipe().unwrap();
    send(&init, b"listening", &[write.as_fd()]).unwrap();
    let (message, descriptors) = next(&supervisor);
    assert_eq!((message.as_slice(), descriptors.len()), (b"listening".as_slice(), 0));
}

#[test]
fn message_whose_descriptors_cannot_be_carried_goes_without_any() {
    let (supervisor, init, _threads) = carried();
    let (read, _write) = rustix::pipe::pipe().unwrap();
    let listener = std::os::unix::net::UnixDatagram::unbound().unwrap();
    send(&supervisor, b"both", &[read.as_fd(), listener.as_fd()]).unwrap();
    let (message, descriptors) = next(&init);
    assert_eq!((message.as_slice(), descriptors.len()), (b"both".as_slice(), 0));
}

#[test]
fn each_end_hears_that_the_other_is_gone() {
    let (supervisor, init, _threads) = carried();
    send(&supervisor, b"last", &[]).unwrap();
    drop(supervisor);
    assert_eq!((next(&init).0, next(&init).0), (b"last".to_vec(), Vec::new()));
    let (supervisor, init, _threads) = carried();
    send(&init, b"last", &[]).unwrap();
    drop(init);
    assert_eq!((next(&supervisor).0, next(&supervisor).0), (b"last".to_vec(), Vec::new()));
}

#[test]
fn peer_that_takes_nothing_stops_nothing_else() {
    let (supervisor, init, _threads) = carried();
    let (read, write) = rustix::pipe::pipe().unwrap();
    send(&supervisor, b"run", &[write.as_fd()]).unwrap();
    drop(write);
    let output = next(&init).1.pop().unwrap();
    // More than every buffer on the way has room for.
    let mut count = 0;
    while count < 2000 && send(&supervisor, &[1; 1024], &[]).is_ok() {
        count += 1;
    }
    rustix::io::write(&output, b"x").unwrap();
    let mut byte = [0];
    assert_eq!(rustix::io::read(&read, &mut byte), Ok(1));
    (0..count).for_each(|_| assert_eq!(next(&init).0.len(), 1024));
}

#[test]
fn guest_opens_what_the_host_attaches() {
    let (left, right) = UnixStream::pair().unwrap();
    let ((_supervisor, theirs), (_init, ours)) = (messages().unwrap(), messages().unwrap());
    let mut host = HostFerry::new(Multiplexer::host(left.into()).unwrap(), theirs);
    let mut guest = GuestFerry::new(Multiplexer::guest(right.into()).unwrap(), ours);
    let host = std::thread::spawn(move || {
        while host.turn(&[], None).is_ok() {
            for (id, label) in host.take_opened() {
                // Each says what it is for, and hears it.
                let (mut mine, theirs) = UnixStream::pair().unwrap();
                mine.write_all(&label).unwrap();
                host.attach_stream(id, Local::socket(theirs.into()).unwrap());
            }
        }
    });
    let mut heard = Vec::new();
    for _ in 0..3 * crate::STREAMS {
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        while guest.opens_left() == 0 {
            guest.turn(&[], Some(std::time::Duration::from_millis(1))).unwrap();
        }
        guest.open_stream(b"door", Local::socket(theirs.into()).unwrap()).unwrap();
        mine.shutdown(std::net::Shutdown::Write).unwrap();
        while guest.turn(&[mine.as_fd()], None).unwrap() != [true] {}
        let mut label = String::new();
        mine.set_nonblocking(true).unwrap();
        while mine.read_to_string(&mut label).is_err() {
            guest.turn(&[], None).unwrap();
        }
        heard.push(label);
    }
    assert!(heard.iter().all(|label| label == "door"));
    drop(guest);
    host.join().unwrap();
}

#[test]
fn hostile_guest_opens_nothing_on_the_host() {
    let (left, right) = UnixStream::pair().unwrap();
    let (supervisor, theirs) = messages().unwrap();
    let mut host = HostFerry::new(Multiplexer::host(left.into()).unwrap(), theirs);
    let host = std::thread::spawn(move || {
        while host.turn(&[], None).is_ok() {
            host.take_opened().into_iter().for_each(|(id, _)| host.refuse_stream(id));
        }
    });
    let mut guest = Multiplexer::guest(right.into()).unwrap();
    let mut open = std::collections::BTreeSet::new();
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut labels = [ORDERS, REPORTS, b"ds\x01\0\0\0", b"dx", b""].into_iter().cycle().take(1000);
    let (mut next, mut is_ready) = (labels.next(), false);
    while next.is_some() || !open.is_empty() {
        if let Some(label) = next.filter(|_| is_ready) {
            let (mine, _) = UnixStream::pair().unwrap();
            if let Ok(id) = guest.open(label, Local::socket(mine.into()).unwrap()) {
                open.insert(id);
                next = labels.next();
            }
        }
        for notice in guest.turn(&[], Some(std::time::Duration::from_millis(1))).unwrap().1 {
            match notice {
                Notice::Closed(id) => {
                    open.remove(&id);
                }
                Notice::Opened { id, .. } => guest.refuse(id),
                Notice::Ready => is_ready = true,
            }
        }
    }
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after <= before + 8, "{before} {after} {}", supervisor.as_raw_fd());
    drop(guest);
    host.join().unwrap();
}
