//! Standard streams of a run, as programs that start it have them.

use std::io::{BufRead as _, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use pinfold_testkit::{Stage, people};

/// An editor gives the agents that it starts sockets for streams, and waits for each answer.
#[test]
fn bytes_pass_at_once_from_every_kind_of_stream() {
    let socket = || std::os::unix::net::UnixStream::pair().unwrap();
    for user in people() {
        let stage = Stage::new(user);
        for with_socket in [false, true] {
            let mut run = stage.pinfold(&["run", "--", "cat"]);
            let (ours, theirs) = socket();
            run.stdin(if with_socket {
                std::os::fd::OwnedFd::from(theirs).into()
            } else {
                Stdio::piped()
            });
            let (answers, out) = socket();
            answers.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            run.stdout(std::os::fd::OwnedFd::from(out));
            let mut child = run.spawn().unwrap();
            // The command has copies of what belongs to the child.
            drop(run);
            let mut input: Box<dyn Write> = match child.stdin.take() {
                Some(pipe) => Box::new(pipe),
                None => Box::new(ours),
            };
            let mut answers = BufReader::new(answers);
            for line in ["one\n", "two\n"] {
                input.write_all(line.as_bytes()).unwrap();
                let mut said = String::new();
                answers.read_line(&mut said).unwrap();
                assert_eq!(said, line, "socket: {with_socket}");
            }
            drop(input);
            assert!(child.wait().unwrap().success());
        }
    }
}
