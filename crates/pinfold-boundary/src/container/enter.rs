//! What init does where an engine has started it.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use pinfold_init::Failure;
use pinfold_wire::{Channel, LastSteps, LaunchOrder, Program, Report, Step, Wire as _};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{INIT, SUBCOMMAND};
use crate::namespace::{self, Asked};
use crate::sys;

/// The first number that is no standard stream's.
const ABOVE: RawFd = 3;

/// Runs the sandbox if an engine has started this process as its init; whether it has. The caller
/// ends afterwards, and everything inside with it. Call it first of all in `main`.
///
/// The engine starts it as root of a namespace whose id 0 is the sandbox's owner. It makes a namespace
/// below, in which it is the sandbox's user and id 0 is nobody, and executes itself once more: the
/// kernel lets an owner look into a process that forbids it if it was executed where he is root
/// (`mm->user_ns`, fs/proc/base.c and kernel/ptrace.c).
pub fn run_as_init() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|word| word != SUBCOMMAND) {
        return false;
    }
    // A path at which only this file can lie shows that an engine started it.
    let is_init = std::fs::read_link("/proc/self/exe").is_ok_and(|exe| exe == Path::new(INIT));
    let numbers = arguments.map(|word| word.to_str()?.parse().ok()).collect::<Option<Vec<u32>>>();
    let (channel, ids) = match numbers.as_deref() {
        Some([channel, uid, gid]) if is_init => (*channel, Some((*uid, *gid))),
        Some([channel]) if is_init => (*channel, None),
        _ => return false,
    };
    // SAFETY: the engine, or this program before, has handed this descriptor over for this alone, and
    // nothing in a process that has just begun owns it; one that is not open fails its first use.
    let channel = unsafe { OwnedFd::from_raw_fd(channel as RawFd) };
    // At the place of a standard stream it would be taken for one. That place stays taken: of a program
    // that lacks one, what it opens next would be one.
    let Ok(above) = rustix::io::fcntl_dupfd_cloexec(&channel, ABOVE) else { return true };
    std::mem::forget(channel);
    let channel = Channel::from(above);
    let done = match ids {
        Some(ids) => become_user(ids, &channel).map(|never| match never {}),
        None => become_inside(&channel),
    };
    if let Err(failure) = done {
        // A supervisor that is gone needs no report.
        let _ = channel.send(&failure.report(), &[]);
    }
    true
}

/// Becomes the sandbox's user in a namespace of its own, and this program again.
fn become_user(ids: (u32, u32), channel: &Channel) -> Result<Infallible, Failure> {
    let number = channel.as_fd().as_raw_fd();
    let steps = || -> Result<Infallible, Errno> {
        sys::unshare(libc::CLONE_NEWUSER)?;
        namespace::map_own_ids(ids, (0, 0))?;
        sys::drop_capabilities()?;
        let program = rustix::fs::open(INIT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let text = |word: &str| CString::new(word).map_err(|_| Errno::INVAL);
        let words = [text(INIT)?, text(SUBCOMMAND)?, text(&number.to_string())?];
        sys::execute(program.as_fd(), &words, &[], channel.as_fd(), number)
    };
    steps().map_err(Failure::at(Step::Identity))
}

fn become_inside(channel: &Channel) -> Result<(), Failure> {
    let failed = |errno| Failure::at(Step::Engine)(errno);
    // They name no file of the host, and gVisor's kernel does not show where they lie.
    let _ = sys::wipe_arguments(crate::namespace::INIT_NAME);
    namespace::close_standard_streams(channel).map_err(failed)?;
    // gVisor's kernel has none that could leave it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mounts = rustix::fs::open("/proc/self/ns/mnt", flags, Mode::empty()).ok();
    let descriptors: Vec<_> = mounts.iter().map(|mounts| mounts.as_fd()).collect();
    let sent = channel.send(&Report::Born, &descriptors);
    sent.or_else(|_| channel.send(&Report::Born, &[])).map_err(|_| failed(Errno::PIPE))?;
    let Some((mut steps, asked)) = receive(channel)? else { return Ok(()) };
    steps.landlock = namespace::abi_here(steps.landlock).map_err(Failure::at(Step::Landlock))?;
    namespace::last_steps(steps, asked, channel)
}

/// Returns what is left to do, and what to run then; none when the supervisor is gone.
fn receive(channel: &Channel) -> Result<Option<(LastSteps, Asked)>, Failure> {
    let failed = |errno| Failure::at(Step::Engine)(errno);
    let (mut steps, mut part) = (None, Vec::new());
    loop {
        let received = match channel.receive::<LaunchOrder>() {
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return Ok(None),
        };
        match received.message {
            LaunchOrder::Part(more) => part.extend(more),
            LaunchOrder::LastSteps(rest) => {
                part.extend(rest);
                let all = LastSteps::decode(&std::mem::take(&mut part));
                steps = Some(all.map_err(|_| failed(Errno::INVAL))?);
            }
            LaunchOrder::Command { rest, streams } => {
                part.extend(rest);
                let program = Program::decode(&part).map_err(|_| failed(Errno::INVAL))?;
                let streams = pinfold_init::Streams::new(streams, received.descriptors);
                let asked = (program.into(), streams.map_err(failed)?);
                return Ok(Some((steps.ok_or(Errno::PROTO).map_err(failed)?, Some(asked))));
            }
            _ => return Err(failed(Errno::PROTO)),
        }
    }
}
