//! Kills one of the processes that another program makes, at a chosen system call.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::{SYSTEM_CALL, event_message, kill, trace};

const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD;
/// How long to wait before asking again whether a process has stopped.
const PAUSE: Duration = Duration::from_micros(100);

/// A process that was made while what made it was traced. Threads are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The arguments of what it executed last, separated by spaces.
    pub name: String,
    /// System calls that its first thread began.
    pub calls: u32,
    pid: i32,
}

/// The process to kill, in the order in which they are made, and its system call that does not begin any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Which process, from 0 on.
    pub nth: usize,
    /// Which system call, from 1 on.
    pub call: u32,
}

/// What was traced.
#[derive(Debug)]
pub struct Below {
    /// Every process that was made.
    pub made: Vec<Made>,
    /// Whether the target lived until its system call.
    pub killed: bool,
}

/// Traces what a process of another program makes while some work is done, and kills a target. Without one the calls of
/// all are counted.
///
/// That process itself, which may be systemd, is traced as well, but never stopped at a call and never killed.
pub fn kill_below<T>(process: u32, target: Option<Target>, work: impl FnOnce() -> T) -> (T, Below) {
    let (begun, begins) = mpsc::channel();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            let process = i32::try_from(process).unwrap();
            trace(libc::PTRACE_SEIZE, process, OPTIONS);
            begun.send(()).unwrap();
            let mut run = Run { process, target, made: Vec::new(), killed: false };
            run.follow(&is_done);
            // Whatever is still traced is let go with this thread.
            Below { made: run.made, killed: run.killed }
        });
        begins.recv().unwrap();
        let ends = Ends(&is_done);
        let result = work();
        drop(ends);
        (result, tracer.join().unwrap())
    })
}

/// Ends the tracing when it is dropped, also if the work panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

struct Run {
    process: i32,
    target: Option<Target>,
    made: Vec<Made>,
    killed: bool,
}

impl Run {
    fn follow(&mut self, is_done: &AtomicBool) {
        loop {
            match wait_now() {
                Some((pid, status)) if libc::WIFSTOPPED(status) => self.stopped(pid, status),
                Some(_) => {}
                None if is_done.load(Ordering::Acquire) => return,
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    fn stopped(&mut self, pid: i32, status: i32) {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match event {
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                self.add(event_message(pid));
            }
            libc::PTRACE_EVENT_STOP => self.add(pid),
            _ => {}
        }
        let made = self.made.iter().position(|made| made.pid == pid);
        let is_target = made.is_some_and(|made| self.is_target(made));
        if let Some(made) = made.map(|made| &mut self.made[made]) {
            if event == libc::PTRACE_EVENT_EXEC {
                made.name = arguments(pid);
            }
            made.calls += u32::from(signal == SYSTEM_CALL && begins_a_call(pid));
            let is_there = |target: Target| made.calls >= target.call;
            if is_target && !self.killed && self.target.is_some_and(is_there) {
                self.killed = true;
                return kill(pid);
            }
        }
        // Only real signals are handed on, and a process that was stopped by one stays so.
        let is_stop =
            [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        match event {
            libc::PTRACE_EVENT_STOP if is_stop => trace(libc::PTRACE_LISTEN, pid, 0),
            0 if signal != SYSTEM_CALL => trace(until(is_target), pid, signal),
            _ => trace(until(is_target), pid, 0),
        }
    }

    fn is_target(&self, made: usize) -> bool {
        !self.killed && self.target.is_none_or(|target| target.nth == made)
    }

    /// Notes a process that was made.
    fn add(&mut self, pid: i32) {
        let is_known = pid == self.process || self.made.iter().any(|made| made.pid == pid);
        if !is_known && is_process(pid) {
            self.made.push(Made { name: arguments(pid), calls: 0, pid });
        }
    }
}

/// Stops at system calls take most of the time, and only those of a target count.
fn until(is_target: bool) -> libc::c_uint {
    if is_target { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT }
}

/// Returns whether an id is one of a process, and not of one of its later threads.
fn is_process(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.is_none_or(|group| group.trim().parse() == Ok(pid))
}

fn arguments(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// Returns whether a process has stopped where a system call begins, and not where it ends.
fn begins_a_call(pid: i32) -> bool {
    // As large as `struct ptrace_syscall_info`, whose first byte says which it is.
    let mut info = [0_u8; 88];
    // SAFETY: the kernel writes at most as many bytes as it is given, and `info` outlives the call.
    unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, info.len(), info.as_mut_ptr()) };
    info[0] == libc::PTRACE_SYSCALL_INFO_ENTRY
}

/// Returns a process that has something to say at this moment.
fn wait_now() -> Option<(i32, i32)> {
    let (mut status, how) = (0, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG);
    // SAFETY: `status` outlives the call. Other threads' children are left to them.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, how) };
    (pid > 0).then_some((pid, status))
}
