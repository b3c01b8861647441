//! The few things that need `unsafe`, behind safe functions.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;

/// Signals that the supervisor reads as events instead of dying of them.
const EVENTS: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGWINCH,
];

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Ignores, from here on, the signals that the keyboard sends to the whole foreground group.
pub fn leave_keys_to_others() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code in a handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// What this process was started to ignore.
static IGNORED: OnceLock<u64> = OnceLock::new();

/// Remembers which signals this process was started to ignore, and heeds SIGCHLD again, which is
/// ignored where a caller never waits for anybody: nobody could be waited for (wait(2)).
pub fn remember_ignored_signals() {
    ignored_signals();
    // SAFETY: the default disposition is valid and runs no code in a handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Returns the signals that this process was started to ignore (nohup(1), `&` in a script): bit n - 1
/// for signal n. SIGPIPE is left out, which the Rust runtime has changed, and so are real-time signals.
pub fn ignored_signals() -> u64 {
    let is_ignored = |signal: &i32| {
        // SAFETY: a null new action changes nothing; the old one is written before it is read.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(*signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        }
    };
    *IGNORED.get_or_init(|| {
        let signals = (1..32).filter(|signal| *signal != libc::SIGPIPE).filter(is_ignored);
        signals.fold(0, |ignored, signal| ignored | 1 << (signal - 1))
    })
}

/// Blocks the supervisor's signals and returns a descriptor to read them from (signalfd(2)). One that
/// ends or stops a process, and that this one was started to ignore, stays ignored: a blocked one
/// would be read.
///
/// # Errors
/// Returns the error of `signalfd(2)`.
pub fn signal_events() -> Result<OwnedFd, Errno> {
    let is_event = |signal: &i32| matches!(*signal, libc::SIGCONT | libc::SIGWINCH) || acts(signal);
    let events: Vec<i32> = EVENTS.into_iter().filter(is_event).collect();
    read_as_events(&events)
}

/// What ends a process that a user, a service manager or a closed terminal wants to end.
const INTERRUPTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Returns a descriptor that can be read once a signal that asks to end waits because it is blocked, for whatever waits
/// until then. It is not to be read: who reads [`signal_events`] gets the signal.
///
/// # Errors
/// Returns the error of `signalfd(2)`.
pub fn interrupts() -> Result<OwnedFd, Errno> {
    descriptor_of(&set_of(&INTERRUPTS.into_iter().filter(acts).collect::<Vec<_>>()))
}

/// Returns whether a signal is not one of those that this process was started to ignore.
fn acts(signal: &i32) -> bool {
    ignored_signals() >> (signal - 1) & 1 == 0
}

/// Returns the signal that asks to end and waits because it is blocked.
pub fn waiting_interrupt() -> Option<i32> {
    // SAFETY: sigpending initialises the set, which outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut set);
        let waits = |signal: &i32| libc::sigismember(&raw const set, *signal) == 1;
        INTERRUPTS.into_iter().filter(acts).find(waits)
    }
}

/// Blocks what asks to end, and returns a descriptor to read it from. What this process was started to ignore stays ignored.
///
/// # Errors
/// Returns the error of `signalfd(2)`.
pub fn stop_events() -> Result<OwnedFd, Errno> {
    let stops = [libc::SIGINT, libc::SIGTERM];
    read_as_events(&stops.into_iter().filter(acts).collect::<Vec<_>>())
}

fn read_as_events(signals: &[i32]) -> Result<OwnedFd, Errno> {
    let set = set_of(signals);
    // SAFETY: the set outlives the call.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    descriptor_of(&set)
}

fn descriptor_of(set: &libc::sigset_t) -> Result<OwnedFd, Errno> {
    // SAFETY: the set outlives the call; a successful signalfd returns a new descriptor.
    unsafe {
        let fd = libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(Errno::MFILE) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Lets the supervisor's signals act as they do by default again.
pub fn release_signals() {
    let set = set_of(&EVENTS);
    // SAFETY: the set outlives the call.
    unsafe {
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Returns the next signal from a descriptor of [`signal_events`], `None` when no signal waits.
pub fn next_signal(events: &OwnedFd) -> Option<i32> {
    let mut buffer = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let count = rustix::io::read(events, &mut buffer).ok()?;
    let number = buffer.first_chunk::<4>().filter(|_| count == buffer.len())?;
    Some(u32::from_ne_bytes(*number) as i32)
}

/// Blocks every signal that can be blocked.
pub fn block_all_signals() {
    // SAFETY: sigfillset initialises the set, which outlives the call.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Lets this process open as many files as it may: the doors hold two for each connection, and no
/// more descriptors can be handed over than this process may open, by whomever of its user (unix(7)).
/// What runs inside was cloned before and has limits of its own.
pub fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // With fewer files there are fewer connections, and the rest wait.
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

/// Blocks signals that report on children or ask to end, and returns a descriptor to read both from.
///
/// # Errors
/// Returns the error of `signalfd(2)`.
pub fn child_events() -> Result<OwnedFd, Errno> {
    read_as_events(&[libc::SIGCHLD, libc::SIGTERM])
}

/// Has a program start with no signal blocked, whatever this process reads as events.
pub fn unblock_signals_of(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    let unblock = || {
        let set = set_of(&[]);
        // SAFETY: sigprocmask(2) is async-signal-safe, and the set outlives the call.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one call that is async-signal-safe.
    unsafe {
        command.pre_exec(unblock);
    }
}

/// Has a program be killed when the thread ends that starts it (`PR_SET_PDEATHSIG`, prctl(2)).
pub fn end_with_this_thread(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    let end = || {
        Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
    };
    // SAFETY: between fork and exec the closure makes one system call.
    unsafe {
        command.pre_exec(end);
    }
}

/// Has a program hold a file open as long as it runs, and hand it on to what it starts.
pub(crate) fn leave_open(command: &mut std::process::Command, file: std::sync::Arc<std::fs::File>) {
    use std::os::unix::process::CommandExt as _;
    let leave = move || Ok(rustix::io::fcntl_setfd(&*file, rustix::io::FdFlags::empty())?);
    // SAFETY: between fork and exec the closure makes one system call.
    unsafe {
        command.pre_exec(leave);
    }
}

/// Ends this process by SIGINT, as the command inside was ended.
pub fn die_of_interrupt() {
    die_of(libc::SIGINT);
}

/// Ends this process by SIGPIPE, as one that writes to nobody.
pub fn die_of_broken_pipe() {
    die_of(libc::SIGPIPE);
}

/// Ends this process by a signal, as another was ended, and without a core of its own.
pub fn die_of(signal: i32) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let set = set_of(&[signal]);
    // SAFETY: the default disposition is valid, the set outlives the call, and nothing of this
    // process is left to be done.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Returns whether this is the controlling side of a terminal, as init says.
pub fn is_terminal(descriptor: &OwnedFd) -> bool {
    // TIOCGPTN, which nothing else answers (ioctl_tty(2)).
    rustix::pty::ptsname(descriptor, Vec::new()).is_ok()
}

/// Stops this process until somebody continues it.
pub fn stop_self() {
    // SIGTSTP is blocked, to be read as an event. A process may always signal itself.
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
}

/// Sends a signal on to a child that has not been waited for.
pub fn pass_signal(child: &std::process::Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, rustix::process::Signal::from_named_raw(signal)) {
        // One that has just ended needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_was_started_to_ignore_stops_nothing() {
        // SAFETY: ignoring a signal runs no code in a handler, and both calls are about this thread alone.
        let raise = |signal| unsafe { libc::raise(signal) };
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        remember_ignored_signals();
        let stops = stop_events().unwrap();
        raise(libc::SIGINT);
        assert_eq!((next_signal(&stops), waiting_interrupt()), (None, None));
        raise(libc::SIGTERM);
        assert_eq!(waiting_interrupt(), Some(libc::SIGTERM));
        assert_eq!(next_signal(&stops), Some(libc::SIGTERM));
    }
}
