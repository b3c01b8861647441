//! Kills one process of a program at a chosen system call (ptrace(2)).
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod below;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

pub use below::{Below, Made, Target, kill_below};

/// How a traced run ended.
#[derive(Debug)]
pub struct Traced {
    /// Every process of the run, in the order in which they were made.
    pub pids: Vec<i32>,
    /// Whether the target lived until the step at which it was killed.
    pub killed: bool,
    /// Processes that did not end by themselves and were killed.
    pub survivors: BTreeSet<i32>,
    /// Exit status of the first process, if it ended by itself.
    pub status: Option<i32>,
}

/// How long the run may take until the kill, and the rest may take to end after it. Tracing slows a run down several
/// times, and a busy machine does so again.
const PATIENCE: Duration = Duration::from_secs(30);
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_EXITKILL;
/// What the stop signal of a system call looks like with `PTRACE_O_TRACESYSGOOD`.
const SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;

/// Starts a command and kills its `nth` process, counted in the order in which they are made.
///
/// The process is killed at its `step`th stop at a system call. Each call stops twice: when it begins
/// and when it ends.
#[expect(clippy::zombie_processes, reason = "it is waited for as a traced process")]
pub fn kill_at(mut command: Command, nth: usize, step: u32) -> Traced {
    // SAFETY: ptrace and raise are async-signal-safe; the child runs nothing else.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn().unwrap();
    let first = i32::try_from(child.id()).unwrap();
    let alive = Arc::new(Mutex::new(BTreeSet::from([first])));
    let mut run = Run { pids: vec![first], alive: Arc::clone(&alive), stops: BTreeMap::new() };
    let mut traced =
        Traced { pids: Vec::new(), killed: false, survivors: BTreeSet::new(), status: None };
    let (progress, late) = mpsc::channel();
    let watchdog = std::thread::spawn(move || watch(&late, &alive));
    while let Some((pid, status)) = wait_any() {
        if libc::WIFSTOPPED(status) {
            let stops = run.count(pid, status);
            let is_target = !traced.killed && run.pids.get(nth) == Some(&pid);
            if is_target && stops >= step {
                traced.killed = true;
                kill(pid);
                // Nobody listens any more if it took too long.
                let _ = progress.send(());
            } else {
                // Stops at system calls take most of the time, and only those of the target count.
                let until = if is_target { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
                go_on(pid, status, stops, until);
            }
        } else {
            run.alive.lock().remove(&pid);
            if pid == first && libc::WIFEXITED(status) {
                traced.status = Some(libc::WEXITSTATUS(status));
            }
        }
    }
    drop(progress);
    traced.survivors = watchdog.join().unwrap();
    // An orphan that has ended is there, and in its control group, until the system's init has
    // reaped it.
    let reaped = |pid: &i32| !Path::new(&format!("/proc/{pid}")).exists();
    while !run.pids.iter().all(reaped) {
        std::thread::sleep(Duration::from_millis(1));
    }
    traced.pids = run.pids;
    traced
}

/// Ends the run when it takes too long to the kill, or from there to its end. Returns who was alive then.
fn watch(late: &mpsc::Receiver<()>, alive: &Mutex<BTreeSet<i32>>) -> BTreeSet<i32> {
    loop {
        match late.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return BTreeSet::new(),
            Err(mpsc::RecvTimeoutError::Timeout) => break,
        }
    }
    let survivors = alive.lock().clone();
    survivors.iter().for_each(|pid| kill(*pid));
    survivors
}

struct Run {
    pids: Vec<i32>,
    alive: Arc<Mutex<BTreeSet<i32>>>,
    stops: BTreeMap<i32, u32>,
}

impl Run {
    /// Notes who has stopped, and who was made; gives the stops at system calls so far, the very
    /// first stop included.
    fn count(&mut self, pid: i32, status: i32) -> u32 {
        self.add(pid);
        if status >> 16 != 0 {
            self.add(event_message(pid));
        }
        let stops = self.stops.entry(pid).or_insert(0);
        *stops += u32::from(*stops == 0 || libc::WSTOPSIG(status) == SYSTEM_CALL);
        *stops
    }

    fn add(&mut self, pid: i32) {
        if !self.pids.contains(&pid) {
            self.pids.push(pid);
            self.alive.lock().insert(pid);
        }
    }
}

/// Lets a stopped process run: to its next system call, or on.
fn go_on(pid: i32, status: i32, stops: u32, until: libc::c_uint) {
    if stops == 1 {
        trace(libc::PTRACE_SETOPTIONS, pid, OPTIONS);
    }
    // Only real signals are handed on: not the stops that tracing makes.
    let signal = libc::WSTOPSIG(status);
    let ours = [SYSTEM_CALL, libc::SIGTRAP, libc::SIGSTOP].contains(&signal);
    trace(until, pid, if ours { 0 } else { signal });
}

/// Returns the process that was made, at the stop of the one that made it.
fn event_message(pid: i32) -> i32 {
    let mut message: libc::c_ulong = 0;
    // SAFETY: PTRACE_GETEVENTMSG writes one word, and `message` outlives the call.
    unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, &raw mut message) };
    i32::try_from(message).unwrap()
}

/// Returns a process of this thread's that has something to say; none when all have ended.
fn wait_any() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call. Other threads' children are left to them.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    (pid > 0).then_some((pid, status))
}

fn trace(request: libc::c_uint, pid: i32, data: i32) {
    // SAFETY: the requests used here take integers; a process that is gone gives ESRCH.
    unsafe { libc::ptrace(request, pid, 0, libc::c_long::from(data)) };
}

fn kill(pid: i32) {
    // SAFETY: kill(2) has no preconditions; the process is traced, so its id is its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
