//! What init does where a manager has started it.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use pinfold_init::Failure;
use pinfold_wire::{Channel, LaunchOrder, Step, Wire as _};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{WaitId, WaitIdOptions};

use super::errand::Errand;
use super::{INIT, SUBCOMMAND, meeting};
use crate::{namespace, sys};

/// Where this program finds its channel when it has executed itself again.
const CHANNEL: RawFd = 3;

/// Makes the sandbox if a manager has started this process in a container, and returns when everything
/// in it has ended; whether it was so. The caller ends then, and the container with it. Call it first of
/// all in `main`.
pub fn run_as_init() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let is_init = fs::read_link("/proc/self/exe").is_ok_and(|exe| exe == Path::new(INIT));
    if !is_init || arguments.next().is_none_or(|word| word != SUBCOMMAND) {
        return false;
    }
    // The engine's, which the sandbox's user could look at as long as a file is open that was opened with
    // it.
    let left = sys::leave_session_keyring();
    let channel = match arguments.next() {
        // The process that had it started waits there, or is gone.
        None => meeting::come(),
        // SAFETY: this program has handed its channel to itself for this alone (`become_user`), and
        // nothing in a process that has just begun owns it.
        Some(_) => kept(unsafe { OwnedFd::from_raw_fd(CHANNEL) }),
    };
    if let Ok(channel) = channel {
        let made = match left {
            Ok(()) => make(channel),
            Err(errno) => Err((Failure::at(Step::Identity)(errno), channel)),
        };
        if let Err((failure, channel)) = made {
            let _ = channel.send(&failure.report(), &[]);
        }
    }
    true
}

/// Returns the channel, which no program inside is to inherit.
fn kept(channel: OwnedFd) -> Result<Channel, Errno> {
    rustix::io::fcntl_setfd(&channel, FdFlags::CLOEXEC)?;
    Ok(Channel::from(channel))
}

/// Returns the user and the group outside, of one who is root by name: of a namespace of somebody
/// else's.
fn named_root() -> Option<(u32, u32)> {
    let outside = |map: &str| {
        let text = pinfold_init::kernel_text(map).ok()?;
        text.lines().find_map(|line| {
            let mut fields = line.split_whitespace().map(str::parse::<u32>);
            match (fields.next()?.ok()?, fields.next()?.ok()?) {
                (0, outside) => Some(outside),
                _ => None,
            }
        })
    };
    let is_root = rustix::process::geteuid().is_root();
    let ids =
        is_root.then(|| Some((outside("/proc/self/uid_map")?, outside("/proc/self/gid_map")?)));
    ids.flatten().filter(|(uid, _)| *uid != 0)
}

/// Becomes that user in a namespace below, and this program again: the kernel shows what it hides of
/// a process to the root of the namespace in which it was executed (`mm->user_ns`, fs/proc/base.c),
/// and that would be the sandbox's own user.
fn become_user(ids: (u32, u32), channel: &Channel) -> Result<Infallible, Errno> {
    sys::unshare(libc::CLONE_NEWUSER)?;
    namespace::map_own_ids(ids, (0, 0))?;
    sys::drop_capabilities()?;
    let program = rustix::fs::open(INIT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let text = |word: &str| CString::new(word).map_err(|_| Errno::INVAL);
    let words = [text(INIT)?, text(SUBCOMMAND)?, text("again")?];
    sys::execute(program.as_fd(), &words, &[], channel.as_fd(), CHANNEL)
}

fn make(channel: Channel) -> Result<(), (Failure, Channel)> {
    // The image's, if there is one.
    sys::wipe_environment();
    if let Some(ids) = named_root() {
        return match become_user(ids, &channel) {
            Ok(never) => match never {},
            Err(errno) => Err((Failure::at(Step::Identity)(errno), channel)),
        };
    }
    let received = receive(&channel);
    let errand = match received.and_then(|it| it.map(|(errand, _)| look(errand)).transpose()) {
        Ok(Some(errand)) => errand,
        Ok(None) => return Ok(()),
        Err(failure) => return Err((failure, channel)),
    };
    let (around, mut handed) = (errand.around(), namespace::Handed::default());
    let child = namespace::below(errand.plan, &mut handed, around, channel)?;
    // Its end is everybody's: as the container's first process this one takes along what is left.
    let _ = rustix::io::retry_on_intr(|| {
        rustix::process::waitid(
            WaitId::PidFd(std::os::fd::AsFd::as_fd(&child)),
            WaitIdOptions::EXITED,
        )
    });
    Ok(())
}

/// Receives the errand, with the descriptors that came with it; none when the process that had this one started is
/// gone.
///
/// # Errors
/// Returns that it is malformed.
pub(crate) fn receive(channel: &Channel) -> Result<Option<(Errand, Vec<OwnedFd>)>, Failure> {
    let failed = Failure::at(Step::Engine);
    let mut part = Vec::new();
    loop {
        let received = match channel.receive::<LaunchOrder>() {
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return Ok(None),
        };
        match received.message {
            LaunchOrder::Part(more) => part.extend(more),
            LaunchOrder::Plan(rest) => {
                part.extend(rest);
                let errand = Errand::decode(&part).map_err(|_| failed(Errno::INVAL))?;
                return Ok(Some((errand, received.descriptors)));
            }
            _ => return Err(failed(Errno::PROTO)),
        }
    }
}

/// Sees that the container is what was asked for.
///
/// # Errors
/// Returns what is not.
pub(crate) fn look(errand: Errand) -> Result<Errand, Failure> {
    let refuse = |what: &str| Err(Failure::about(Step::Container, what.as_bytes())(Errno::PERM));
    let status = pinfold_init::kernel_text("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_default()
    };
    let is_none = |name: &str| u64::from_str_radix(value(name), 16) == Ok(0);
    if !["CapEff", "CapPrm", "CapAmb"].into_iter().all(is_none) {
        return refuse("its first process has capabilities");
    }
    if value("NoNewPrivs") != "1" {
        return refuse("its first process can gain privileges");
    }
    if rustix::process::geteuid().is_root() {
        return refuse("its first process is root");
    }
    let Ok(network) = pinfold_init::kernel_text("/proc/self/net/dev") else {
        return refuse("its network cannot be looked at");
    };
    let mut devices = network.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    if let Some(device) = devices.find(|device| *device != "lo") {
        return refuse(&format!("it has the network {device}"));
    }
    match errand.looks.iter().find(|look| !look.is_true()) {
        Some(look) => {
            refuse(&format!("what lies at {} in it is something else", look.path.display()))
        }
        None => Ok(errand),
    }
}
