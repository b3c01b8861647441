//! Signals that the caller ignores: nohup(1), and `&` in a script.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use pinfold_testkit::{Stage, executable, installed, people, skip};

/// A shell that ignores signals before it becomes pinfold.
fn ignoring(stage: &Stage, signals: &str, arguments: &[&str]) -> Command {
    let script = format!("trap '' {signals}; exec \"$@\"");
    let mut shell = stage.command("/bin/sh");
    shell.args(["-c", &script, "sh"]).arg(executable()).args(arguments);
    shell
}

/// Which signals a process ignores, by its own `status`.
const SHOW: &str = "sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status";

fn shown(mut run: Command) -> u64 {
    let output = run.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = u64::from_str_radix(String::from_utf8_lossy(&output.stdout).trim(), 16).unwrap();
    // Real-time signals are not looked at: the C library keeps some for itself.
    all & (u64::from(u32::MAX) >> 1)
}

fn bit(signal: rustix::process::Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

#[test]
fn a_command_ignores_what_its_caller_ignores() {
    use rustix::process::Signal;
    for user in people() {
        let stage = Stage::new(user);
        let run = ["run", "--", "sh", "-c", SHOW];
        assert_eq!(shown(ignoring(&stage, "USR1", &run)), bit(Signal::USR1));
        assert_eq!(shown(stage.pinfold(&run)), 0);
        let all = bit(Signal::HUP) | bit(Signal::INT) | bit(Signal::QUIT);
        assert_eq!(shown(ignoring(&stage, "HUP INT QUIT", &run)), all);
    }
}

#[test]
fn a_caller_that_waits_for_nobody_can_run_commands() {
    if !installed("python3") {
        return skip("a caller that waits for nobody", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let script = "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                      os.execv(sys.argv[1], sys.argv[1:])";
        let mut run = stage.command("/usr/bin/python3");
        run.args(["-c", script, executable(), "run", "--", "sh", "-c", SHOW]);
        shown(run);
    }
}

#[test]
fn an_ignored_signal_does_not_end_a_session() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "echo ready; read line; echo \"$line\"";
        let mut run = ignoring(&stage, "HUP INT", &["run", "--", "sh", "-c", script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(run.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let pid = rustix::process::Pid::from_raw(run.id().try_into().unwrap()).unwrap();
        for signal in [rustix::process::Signal::HUP, rustix::process::Signal::INT] {
            rustix::process::kill_process(pid, signal).unwrap();
        }
        drop(std::io::Write::write_all(&mut run.stdin.take().unwrap(), b"alive\n"));
        output.read_to_string(&mut line).unwrap();
        assert_eq!(line, "ready\nalive\n");
        assert!(run.wait().unwrap().success());
    }
}

#[test]
fn program_next_to_the_command_ignores_the_signals_of_its_own_caller() {
    for user in people() {
        let stage = Stage::new(user);
        let detached =
            ignoring(&stage, "INT", &["run", "--detach", "--idle", "--name", "box"]).output();
        assert!(detached.unwrap().status.success());
        let exec = ["exec", "box", "--", "sh", "-c", SHOW];
        assert_eq!(shown(stage.pinfold(&exec)), 0, "ctrl-c reaches it");
        let ignored = shown(ignoring(&stage, "HUP", &exec));
        assert_eq!(ignored, bit(rustix::process::Signal::HUP));
        assert!(stage.pinfold(&["stop", "box"]).status().unwrap().success());
    }
}
