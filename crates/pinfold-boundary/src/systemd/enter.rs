//! What init does in a unit.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_init::Failure;
use pinfold_runner::request::{HELLO, MOST_DESCRIPTORS};
use pinfold_runner::unit::{HANDED, READY, SUBCOMMAND};
use pinfold_wire::{Channel, LaunchOrder, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::fsconfig_reconfigure;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, Shutdown,
    SocketType, recvmsg, send, shutdown, sockopt,
};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::home;
use crate::managed::enter::{look, receive};
use crate::managed::errand::Errand;
use crate::namespace::{self, Around, Handed, keeper};
use crate::sys;

/// How long the sandbox has to end by itself when its channel has ended.
const GRACE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Makes the sandbox if the runner has started this process in a unit, and returns when everything in it has ended;
/// whether it was so. The caller ends then, and the unit with it. Call it first of all in `main`.
pub fn run_as_init() -> bool {
    let word = std::env::args_os().nth(1);
    let is_init = word.is_some_and(|word| word == SUBCOMMAND)
        && sockopt::socket_type(rustix::stdio::stdin()) == Ok(SocketType::SEQPACKET);
    if !is_init {
        return false;
    }
    let left = sys::leave_session_keyring();
    sys::wipe_environment();
    // Without the mounts there is nobody to notify.
    if let Ok((channel, given)) = take_over() {
        let made = match left {
            Ok(()) => make(channel, given),
            Err(errno) => Err((Failure::at(Step::Identity)(errno), channel)),
        };
        if let Err((failure, channel)) = made {
            let _ = channel.send(&failure.report(), &[]);
        }
    }
    true
}

/// What the runner gives.
struct Given {
    /// The service user's directory for the host user.
    directory: OwnedFd,
    /// Files with variables.
    files: Vec<OwnedFd>,
    /// The mounts that a plan has by their numbers: caches of tools, and the grants of the request.
    mounts: Vec<OwnedFd>,
}

/// Takes the channel, and what the runner gives. Nothing else stays open.
fn take_over() -> Result<(Channel, Given), Errno> {
    let channel = Channel::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let runner = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut message = [0; 2];
    let mut slices = [IoSliceMut::new(&mut message)];
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(&runner, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let [HANDED, files] = message else { return Err(Errno::PROTO) };
    if got.bytes != message.len() || got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::PIPE);
    }
    let handed: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mounts) => Some(mounts),
            _ => None,
        })
        .flatten()
        .collect();
    send(&runner, READY, SendFlags::NOSIGNAL)?;
    drop(runner);
    let keep: Vec<_> = handed.iter().map(OwnedFd::as_fd).collect();
    namespace::close_all_others(&keep, &channel)?;
    send(&channel, HELLO, SendFlags::NOSIGNAL)?;
    let mut handed = handed.into_iter();
    let (directory, caches) = handed.next().zip(handed.next()).ok_or(Errno::PROTO)?;
    let files: Vec<OwnedFd> = handed.by_ref().take(files.into()).collect();
    let mounts = [caches].into_iter().chain(handed).collect();
    Ok((channel, Given { directory, files, mounts }))
}

fn make(channel: Channel, given: Given) -> Result<(), (Failure, Channel)> {
    let received = receive(&channel);
    let checked = received.and_then(|received| {
        let check =
            |(errand, with): (_, Vec<_>)| Ok((look(hold(errand)?)?, with.into_iter().next()));
        received.map(check).transpose()
    });
    let (mut errand, orders) = match checked {
        Ok(Some((errand, Some(orders)))) => (errand, Channel::from(orders)),
        Ok(Some((_, None))) => return Err((Failure::at(Step::Identity)(Errno::BADF), channel)),
        Ok(None) => return Ok(()),
        Err(failure) => return Err((failure, channel)),
    };
    let watched = match channel.as_fd().try_clone_to_owned() {
        Ok(watched) => watched,
        Err(_) => return Err((Failure::at(Step::Identity)(Errno::MFILE), channel)),
    };
    // The unit has systemd's.
    errand.take_open_files();
    let Given { directory, files, mounts } = given;
    let sent = errand.configuration.take();
    let variables = match home::furnish(&mut errand.plan, &directory, files, sent) {
        Ok(variables) => variables,
        Err(failure) => return Err((failure, channel)),
    };
    drop(directory);
    let around = Around { variables, ..errand.around() };
    let mut handed = Handed::new(mounts);
    let child = namespace::below(errand.plan, &mut handed, around, channel)?;
    // They are the child's now.
    drop(handed);
    // Another session is the same user.
    let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);
    attend(&child, &watched, &orders);
    Ok(())
}

/// Checks what of an errand, which anybody may have written, decides on the filter of the sandbox: a set-id file of the
/// service user's that got to the host would run any program as it, outside a unit.
fn hold(mut errand: Errand) -> Result<Errand, Failure> {
    if errand.plan.identity.uid == 0 {
        return Err(Failure::about(Step::Container, b"the sandbox would be root by name")(
            Errno::PERM,
        ));
    }
    errand.owner_is_other = true;
    Ok(errand)
}

/// Does for the sandbox what only its user may do, until it has ended: starts what keeps masks in place, refreshes
/// views, and ends it when the supervisor has gone.
fn attend(child: &OwnedFd, channel: &OwnedFd, orders: &Channel) {
    let mut keeper = None;
    let _ = orders.send(&LaunchOrder::Init, &[child.as_fd()]);
    loop {
        let mut all = [
            PollFd::new(child, PollFlags::IN),
            PollFd::new(channel, PollFlags::empty()),
            PollFd::new(orders, PollFlags::IN),
        ];
        let polled = rustix::io::retry_on_intr(|| poll(&mut all, None));
        let has_ended = all[..2].iter().any(|one| !one.revents().is_empty());
        if polled.is_err() || has_ended || !obey(orders, &mut keeper) {
            break;
        }
    }
    let mut ended = [PollFd::new(child, PollFlags::IN)];
    let _ = rustix::io::retry_on_intr(|| poll(&mut ended, Some(&GRACE)));
    let _ = pidfd_send_signal(child, Signal::KILL);
    // The supervisor may still wait for a word of init's, while the keeper waits for the supervisor. Closing it is not
    // enough: systemd holds a unit's standard input as long as the unit.
    let _ = shutdown(channel, Shutdown::Both);
    // The keeper looks for a last time and reports. It ends with the supervisor's end of its channel.
    for process in [Some(child), keeper.as_ref()].into_iter().flatten() {
        let wait = || waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
        let _ = rustix::io::retry_on_intr(wait);
    }
}

/// Obeys one order; false when there is nobody who gives any more.
fn obey(orders: &Channel, keeper: &mut Option<OwnedFd>) -> bool {
    let Ok(Some(received)) = orders.receive::<LaunchOrder>() else { return false };
    let mut descriptors = received.descriptors.into_iter();
    match (received.message, descriptors.next(), descriptors.next()) {
        (LaunchOrder::KeepMasks, Some(channel), Some(out)) if keeper.is_none() => {
            // Where it cannot be started its channel closes here, and the supervisor hears that.
            *keeper = keeper::start_here(Channel::from(channel), out).ok();
            true
        }
        (LaunchOrder::Refresh(_), Some(context), None) => {
            let errno = fsconfig_reconfigure(&context).err().map_or(0, Errno::raw_os_error);
            orders.send(&LaunchOrder::Refresh(errno), &[]).is_ok()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
