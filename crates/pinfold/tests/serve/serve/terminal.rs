//! Programs in a terminal that a client of the local API looks at.

use std::time::{Duration, Instant};

use pinfold_client::ExecEvent;
use pinfold_client::api::{Ended, ExecResize, ExecStart, ExecWrite, Stream, TerminalSize};
use pinfold_testkit::{Stage, people, processes_with};

use super::{Served, shell, until};

/// Reads until the terminal shows this; everything that it has shown.
fn read_until(exec: &mut pinfold_client::Exec<'_>, shown: &mut String, wanted: &str) {
    while !shown.contains(wanted) {
        match exec.event() {
            Some(ExecEvent::Output(Stream::Stdout, data)) => {
                shown.push_str(&String::from_utf8_lossy(&data));
            }
            other => panic!("{other:?} before {wanted:?}: {shown}"),
        }
    }
}

/// Its end, with what was shown before.
fn end(mut exec: pinfold_client::Exec<'_>, shown: &mut String) -> Ended {
    loop {
        match exec.event() {
            Some(ExecEvent::Output(_, data)) => shown.push_str(&String::from_utf8_lossy(&data)),
            Some(ExecEvent::Exit(ended)) => return ended,
            other => panic!("{other:?}: {shown}"),
        }
    }
}

fn in_terminal(session: &str, script: &str) -> ExecStart {
    let terminal = Some(TerminalSize { columns: 100, rows: 30 });
    let (session, program) = (session.to_owned(), shell(script));
    ExecStart { session, program, terminal, ..ExecStart::default() }
}

#[test]
fn a_terminal_has_its_size_takes_keys_and_tells_all_in_one_stream() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let script = "tty -s && stty size; echo error >&2; read line; echo \"<$line>\"; cat; \
                      trap 'stty size; exit 3' WINCH; echo trapped; while :; do sleep 0.02; done";
        let mut exec = served.client.exec(&in_terminal(&session, script)).unwrap();
        let mut shown = String::new();
        read_until(&mut exec, &mut shown, "error");
        assert!(shown.starts_with("30 100\r\nerror"), "{shown:?}");
        exec.write(b"typed\n").unwrap();
        read_until(&mut exec, &mut shown, "<typed>");
        // The end of the input is typed, also where a line is not complete.
        exec.write(b"more").unwrap();
        exec.end_input().unwrap();
        read_until(&mut exec, &mut shown, "trapped");
        assert!(shown.contains("moremore"), "{shown:?}");
        assert!(exec.write(b"x").unwrap_err().to_string().contains("its input has ended"));
        exec.resize(TerminalSize { columns: 90, rows: 20 }).unwrap();
        let ended = end(exec, &mut shown);
        assert!(shown.ends_with("20 90\r\n"), "{shown:?}");
        assert_eq!(ended, Ended { status: 3, timed_out: false, limit: None });
        served.end();
    }
}

#[test]
fn keys_that_mean_signals_and_what_stops_itself_work_as_in_a_terminal() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let session = served.start(&[]);
    let script = "trap 'hit=1' INT; echo ready; while [ -z \"$hit\" ]; do sleep 0.02; done; \
                  echo interrupted; kill -STOP $$; echo goes on; exit 5";
    let mut exec = served.client.exec(&in_terminal(&session, script)).unwrap();
    let mut shown = String::new();
    read_until(&mut exec, &mut shown, "ready");
    exec.write(b"\x03").unwrap();
    let ended = end(exec, &mut shown);
    assert!(shown.contains("interrupted") && shown.contains("goes on"), "{shown:?}");
    assert_eq!(ended.status, 5);
    served.end();
}

#[test]
fn a_program_that_is_not_there_says_so_and_one_of_no_duration_loses_nothing() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let session = served.start(&[]);
    let mut missing = in_terminal(&session, "");
    missing.program.argv = vec!["no-such-program".to_owned()];
    let mut exec = served.client.exec(&missing).unwrap();
    let Some(ExecEvent::Failed(why)) = exec.event() else { panic!("it ran") };
    assert!(why.contains("no-such-program"), "{why}");
    drop(exec);
    for round in 0..50 {
        let exec = served.client.exec(&in_terminal(&session, "printf whole")).unwrap();
        let mut shown = String::new();
        assert_eq!(end(exec, &mut shown).status, 0);
        assert_eq!(shown, "whole", "round {round}");
    }
    let script = "seq 200000";
    let exec = served.client.exec(&in_terminal(&session, script)).unwrap();
    let mut shown = String::new();
    end(exec, &mut shown);
    let expected: String = (1..=200_000).map(|number| format!("{number}\r\n")).collect();
    assert!(shown == expected, "{} bytes of {}", shown.len(), expected.len());
    served.end();
}

#[test]
fn client_that_leaves_ends_its_program_and_endless_resizes_block_nobody() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let mark = format!("2{:07}", std::process::id());
        let sleeping = || processes_with(&format!("sleep\0{mark}\0")).len();
        let script = format!("(trap '' HUP TERM; setsid sleep {mark}) & echo up; cat >/dev/null");
        let mut exec = served.client.exec(&in_terminal(&session, &script)).unwrap();
        let mut shown = String::new();
        read_until(&mut exec, &mut shown, "up");
        let began = Instant::now();
        for round in 0..20_000_u16 {
            exec.resize(TerminalSize { columns: round, rows: u16::MAX - round }).unwrap();
        }
        eprintln!("20 000 resizes in {:?}", began.elapsed());
        assert_eq!(served.shell(&session, "echo there").1, "there\n");
        until("one sleeps", || sleeping() == 1);
        drop(exec);
        until("none sleeps", || sleeping() == 0);
        // A session that ends under a terminal full of keys that nobody reads.
        let script = format!("stty raw -echo; echo up; sleep {mark}");
        let mut exec = served.client.exec(&in_terminal(&session, &script)).unwrap();
        let mut shown = String::new();
        read_until(&mut exec, &mut shown, "up");
        std::thread::scope(|scope| {
            // The second program of this connection.
            let keys = ExecWrite { exec: 2, data: vec![b'x'; 1 << 20].into(), end: false };
            let client = &served.client;
            let writing = scope.spawn(move || client.call(&keys));
            until("it sleeps", || sleeping() == 1);
            served
                .client
                .call(&super::SessionStop { session: session.clone(), grace_ms: Some(0) })
                .unwrap();
            assert!(writing.join().unwrap().is_err());
        });
        drop(exec);
        until("none sleeps", || sleeping() == 0);
        // A client that goes without a word; the server waits for nothing.
        let session = served.start(&[]);
        let script = format!("echo up; sleep {mark}");
        let mut exec = served.client.exec(&in_terminal(&session, &script)).unwrap();
        read_until(&mut exec, &mut String::new(), "up");
        until("it sleeps", || sleeping() == 1);
        std::mem::forget(exec);
        served.end();
        until("none sleeps", || sleeping() == 0);
    }
}

#[test]
fn program_without_a_terminal_cannot_be_resized() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let session = served.start(&[]);
    let start = ExecStart { terminal: None, input: true, ..in_terminal(&session, "tty; cat") };
    let mut exec = served.client.exec(&start).unwrap();
    let mut shown = String::new();
    read_until(&mut exec, &mut shown, "not a tty");
    let refused = exec.resize(TerminalSize::default()).unwrap_err();
    assert!(refused.to_string().contains("it has no terminal"), "{refused}");
    for exec in [0, u64::MAX] {
        let terminal = TerminalSize { columns: 1, rows: 1 };
        let resize = served.client.call(&ExecResize { exec, terminal }).unwrap_err();
        let write = served.client.call(&ExecWrite { exec, ..ExecWrite::default() }).unwrap_err();
        assert!(resize.to_string().contains("no such program"), "{resize}");
        assert!(write.to_string().contains("no such program"), "{write}");
    }
    let began = Instant::now();
    drop(exec);
    served.end();
    assert!(began.elapsed() < Duration::from_secs(10));
}
