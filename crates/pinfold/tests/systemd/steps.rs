//! Nothing is left, at whichever system call a process of a session is killed.
//!
//! These processes are what systemd makes (the runner with its helpers, and the unit: init's parent, init, the keeper of
//! masks, the command), and the caller's own.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::systemd::Systemd;
use pinfold_testkit::tracer::{Target, kill_below};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{nothing_is_left, run, system, text};

/// Calls of each process at which it is killed, from its first to its last. `PINFOLD_STEPS` is another number, and 0 is
/// for every call.
const STEPS: u32 = 5;
/// How long a session may take that ends by itself.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
/// How long something may be left.
const LONGEST: Duration = Duration::from_secs(10);
/// Where nothing may be left: files, control groups and mounts. systemd makes directories in /tmp to build a unit's /dev,
/// and its own process that was killed leaves one. Its journal has a file for each service.
const TRACES: &str = "find /home/alice /tmp /run /var/lib/pi-agent -not -path '/tmp/namespace-dev-*' -not -path \
                      '/run/systemd/journal/*'; \
                      find /sys/fs/cgroup -name 'pinfold-????????????.service'; \
                      cut -d' ' -f3- /proc/1/mountinfo";

/// A shell of alice's that starts one session after another.
struct Shell {
    nsenter: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its id on this machine.
    process: u32,
}

impl Shell {
    fn start(system: &Systemd) -> Self {
        let mut shell = system.as_user("alice");
        let mut nsenter =
            shell.arg("sh").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = nsenter.stdin.take().unwrap();
        let output = BufReader::new(nsenter.stdout.take().unwrap());
        let mut shell = Self { nsenter, input, output, process: 0 };
        // It has executed what it is once a session has run.
        assert_eq!(shell.session().0, 3);
        let children = format!("/proc/{0}/task/{0}/children", shell.nsenter.id());
        shell.process = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        shell
    }

    /// Runs a session whose command ends with status 3. Returns its status, and what it said.
    fn session(&mut self) -> (u32, String) {
        let line = format!("({}) 2>&1; s=$?; echo; echo status $s\n", run("", "exit 3"));
        self.input.write_all(line.as_bytes()).unwrap();
        let mut said = String::new();
        loop {
            let line = self.line();
            if let Some(status) = line.strip_prefix("status ") {
                return (status.trim().parse().unwrap(), said.trim().to_owned());
            }
            said.push_str(&line);
        }
    }

    fn line(&mut self) -> String {
        if self.output.buffer().is_empty() {
            let mut more = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            assert_eq!(poll(&mut more, Some(&PATIENCE)), Ok(1), "a session does not end");
        }
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the shell has ended");
        line
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.nsenter.kill();
        let _ = self.nsenter.wait();
    }
}

fn traces(system: &Systemd) -> BTreeSet<String> {
    text(&system.shell("root", TRACES).stdout).lines().map(str::to_owned).collect()
}

/// Returns at which of so many calls a process is killed.
fn steps(calls: u32) -> Vec<u32> {
    let number = std::env::var("PINFOLD_STEPS").map_or(STEPS, |number| number.parse().unwrap());
    if number == 0 || number >= calls {
        return (1..=calls).collect();
    }
    (0..number).map(|step| 1 + step * (calls - 1) / (number - 1).max(1)).collect()
}

/// Has systemd start the runner as often as it is killed here, which is more often than 20 times in 2 seconds.
fn start_without_limit(system: &Systemd) {
    let line = "d=/etc/systemd/system/pinfold-runner.socket.d; mkdir -p $d && \
                printf '[Socket]\nTriggerLimitIntervalSec=0\n' >$d/steps.conf && systemctl daemon-reload && \
                systemctl restart pinfold-runner.socket";
    let output = system.shell("root", line);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Has systemd start the runner once more, so that all of it is among the processes of a session.
fn stop_the_runner(system: &Systemd) {
    assert!(system.shell("root", "systemctl stop pinfold-runner.service").status.success());
}

/// Kills one process after the other that this process of the system makes for a session; returns how many there are.
fn killed_at_every_step(system: &Systemd, process: u32, shell: &mut Shell) -> usize {
    start_without_limit(system);
    stop_the_runner(system);
    let (first, counted) = kill_below(process, None, || shell.session());
    assert_eq!(first.0, 3, "{}", first.1);
    nothing_is_left(system);
    let before = traces(system);
    for (nth, made) in counted.made.iter().enumerate() {
        for call in steps(made.calls) {
            stop_the_runner(system);
            let name = made.name.split(" --property").next().unwrap();
            let at = format!("process {nth} ({name}) killed at call {call} of {}", made.calls);
            let target = Target { nth, call };
            let ((status, said), _) = kill_below(process, Some(target), || shell.session());
            // What was killed was the caller's, or the command, or it is said.
            let is_heard = [3, 137].contains(&status) || said.contains("error: ");
            assert!(is_heard, "{at}: {status}: {said}");
            nothing_is_left(system);
            let (status, said) = shell.session();
            assert_eq!(status, 3, "after {at}: {said}");
            nothing_is_left(system);
            // systemd may still take down what a unit had of its own.
            let left = || traces(system).difference(&before).cloned().collect::<Vec<_>>();
            let begun = Instant::now();
            while !left().is_empty() {
                assert!(begun.elapsed() < LONGEST, "{at} leaves {:?}", left());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    counted.made.len()
}

#[test]
fn process_of_a_unit_killed_at_any_step_leaves_nothing() {
    let Some(system) = system("process_of_a_unit_killed_at_any_step") else { return };
    let mut shell = Shell::start(&system);
    let processes = killed_at_every_step(&system, system.process, &mut shell);
    assert!(processes >= 8, "only {processes} processes");
}

#[test]
fn process_of_a_caller_killed_at_any_step_leaves_nothing() {
    let Some(system) = system("process_of_a_caller_killed_at_any_step") else { return };
    let mut shell = Shell::start(&system);
    let process = shell.process;
    let processes = killed_at_every_step(&system, process, &mut shell);
    assert!(processes >= 1, "only {processes} processes");
}
