//! The program, started by hand.

use std::process::{Command, Stdio};

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs, pinfold does not")]
fn program_without_a_callers_socket_says_how_it_is_started() {
    let mut runner = Command::new(env!("CARGO_BIN_EXE_pinfold-runner"));
    let output = runner.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "pinfold-runner: refused: standard input is no socket of a caller's\n");
}
