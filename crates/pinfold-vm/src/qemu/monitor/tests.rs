use std::io::{BufRead as _, BufReader};
use std::thread::JoinHandle;

use super::*;

const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;
const YES: &str = r#"{"return": {}}"#;

/// A QEMU that says these lines, one before each command and the last when it has ended, and what it was asked.
fn qemu(lines: &[&str]) -> (OwnedFd, JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    let qemu = std::thread::spawn(move || {
        let mut asked = Vec::new();
        let mut input = BufReader::new(theirs);
        for line in lines {
            if input.get_mut().write_all(line.as_bytes()).is_err() {
                break;
            }
            let mut command = String::new();
            if input.read_line(&mut command).unwrap_or(0) == 0 {
                break;
            }
            asked.push(command);
        }
        asked
    });
    (ours.into(), qemu)
}

fn why<T>(result: Result<T, QemuError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn events_are_found_whenever_they_come() {
    let early = r#"{"event": "VSERPORT_CHANGE", "data": {"id": "port", "open": true}}"#;
    let other = r#"{"event": "VSERPORT_CHANGE", "data": {"id": "port", "open": false}}"#;
    let both = format!("{other}\n{early}\n{YES}");
    let (connection, qemu) = qemu(&[GREETING, YES, YES, &both]);
    let mut monitor = Monitor::open(connection).unwrap();
    monitor.run_until_open(None).unwrap();
    drop(monitor);
    let asked = qemu.join().unwrap().concat();
    for word in ["qmp_capabilities", "x-ignore-shared", r#""execute":"cont""#] {
        assert!(asked.contains(word), "{asked}");
    }
}

#[test]
fn what_qemu_refuses_is_said() {
    let no = r#"{"error": {"class": "GenericError", "desc": "no such capability"}}"#;
    let (connection, _) = qemu(&[GREETING, YES, no]);
    assert_eq!(why(Monitor::open(connection)), "QEMU's monitor: no such capability");
    let failed = r#"{"event": "MIGRATION", "data": {"status": "failed"}}"#;
    let (connection, _) = qemu(&[GREETING, YES, YES, YES, &format!("{YES}\n{failed}")]);
    let mut monitor = Monitor::open(connection).unwrap();
    let said = why(monitor.give_devices(b"x"));
    assert_eq!(said, "QEMU's monitor: the machine cannot be moved");
}

#[test]
fn qemu_that_ends_or_says_what_is_no_message_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    assert!(why(Monitor::open(ours.into())).contains("it has ended"));
    let (connection, _) = qemu(&["greetings"]);
    assert!(why(Monitor::open(connection)).contains("no message"));
    let (connection, _) = qemu(&[&"[".repeat(1 << 20)]);
    assert!(why(Monitor::open(connection)).contains("no message"));
    let endless = format!("{GREETING}\n").repeat(MOST + 2);
    let (connection, _) = qemu(&[&endless]);
    assert!(why(Monitor::open(connection)).contains("messages"));
}

/// What KVM cannot execute stops the guest, or has it run in a circle.
#[test]
fn guest_that_does_not_come_up_is_noticed_in_time() {
    let stop = r#"{"event": "STOP"}"#;
    let (connection, _) = qemu(&[GREETING, YES, YES, &format!("{YES}\n{stop}")]);
    let mut monitor = Monitor::open(connection).unwrap();
    assert_eq!(why(monitor.run_until_open(None)), "QEMU's monitor: the guest has stopped");
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(format!("{GREETING}\n{YES}\n{YES}\n{YES}\n").as_bytes()).unwrap();
    let mut monitor = Monitor::open(near.into()).unwrap();
    let start = Instant::now();
    let said = why(monitor.run_until_open(Some(Duration::from_millis(50))));
    assert_eq!(said, "QEMU's monitor: it says nothing in time");
    assert!(start.elapsed() < Duration::from_secs(30));
}
