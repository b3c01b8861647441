//! The first process: it starts init, and ends everything.
//!
//! There are no process numbers of the sandbox's own, so nothing ends with a first process. In their place stand two Landlock
//! domains that keep signals in. The reaper is in the outer one, alone with its watcher; init, and in a domain of its
//! own everything that it starts, are below. So nothing in the sandbox can signal or trace the reaper, and
//! `kill(-1, SIGKILL)` of the reaper reaches the whole sandbox and nothing else. The kernel makes that call and each
//! fork exclude each other (`tasklist_lock`), so nothing escapes by forking.
//!
//! The supervisor ends the sandbox by its channel, whose end the reaper sees also when the supervisor was killed. If the reaper
//! itself is killed, its watcher ends everything.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use pinfold_init::{Attributes, Failure, Listener, close_all_but};
use pinfold_wire::{Channel, LaunchOrder, Report, Step};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    PidfdFlags, WaitOptions, getpid, getppid, pidfd_open, set_child_subreaper, setsid,
    test_kill_process,
};

use super::changes;
use super::copy::{self, Copied};
use super::enter::{self, Init};
use super::layout::Layout;
use crate::namespace::{Asked, close_all_others, null, receive_masks, scope_all};
use crate::plan::LaunchPlan;
use crate::sys::{self, Side};
use crate::{Capabilities, group};

/// What the reaper is called in lists of processes, and its watcher.
const NAMES: [&std::ffi::CStr; 2] = [c"pinfold reaper", c"pinfold watcher"];

/// What the reaper gets from its parent, by being its copy.
pub(super) struct Birth {
    pub(super) plan: LaunchPlan,
    pub(super) layout: Layout,
    pub(super) channel: Channel,
    /// Control groups to join.
    pub(super) groups: Vec<PathBuf>,
    pub(super) enforced: Capabilities,
}

/// Runs the sandbox to its end, and ends this process with status 0 if all changes to a view were collected.
pub(super) fn run(birth: Birth) -> ! {
    let Birth { plan, mut layout, channel, groups, enforced } = birth;
    let status = match prepare(&plan, &mut layout, &channel, &groups, enforced) {
        Err(failure) => report(&channel, failure),
        // The supervisor is gone.
        Ok(None) => 0,
        Ok(Some((asked, copied))) => {
            let init = Init { plan: &plan, layout: &layout, enforced, asked };
            if let Err(failure) = reign(init, &channel) {
                report(&channel, failure);
            }
            end_all();
            i32::from(changes::collect(layout.view.as_ref().zip(copied.as_ref())).is_err())
        }
    };
    sys::exit(status)
}

/// Reports a failure, and returns the status of this process. A supervisor that is gone needs no report.
fn report(channel: &Channel, failure: Failure) -> i32 {
    let _ = channel.send(&failure.report(), &[]);
    0
}

/// Makes the places of the sandbox, and waits until the supervisor has said everything.
fn prepare(
    plan: &LaunchPlan,
    layout: &mut Layout,
    channel: &Channel,
    groups: &[PathBuf],
    enforced: Capabilities,
) -> Result<Option<(Asked, Option<Copied>)>, Failure> {
    group::join(groups).map_err(|(_, errno)| Failure::at(Step::Identity)(errno))?;
    become_reaper(channel, enforced.landlock).map_err(Failure::at(Step::Identity))?;
    say_closed(channel)?;
    layout.make(&plan.tree)?;
    let mut masks = Vec::new();
    let keep = |mask| {
        masks.push(mask);
        Ok(())
    };
    let Some(asked) = receive_masks(channel, keep)? else { return Ok(None) };
    let of_view = layout.sort(masks, &plan.tree)?;
    let layout = &*layout;
    let copy = |view| copy::copy(view, &of_view, layout);
    Ok(Some((asked, layout.view.as_ref().map(copy).transpose()?)))
}

/// Reports that no door is open. In the place of a mount namespace, which is the last descriptor elsewhere, comes one that leads nowhere
/// ([`crate::Backing::take_mounts`]).
fn say_closed(channel: &Channel) -> Result<(), Failure> {
    let failed = Failure::at(Step::Listeners);
    let null = null().map_err(Failure::at(Step::Listeners))?;
    let closed = Report::Listening { handed_over: false, has_view: false };
    channel.send(&closed, &[null.as_fd()]).map_err(|_| failed(Errno::PIPE))
}

fn become_reaper(channel: &Channel, abi: u32) -> Result<(), Errno> {
    sys::wipe_environment();
    sys::wipe_arguments(NAMES[0])?;
    close_all_others(&[], channel)?;
    // No key at the terminal is for this process, and no directory is kept in use.
    setsid()?;
    rustix::process::chdir("/")?;
    sys::leave_session_keyring()?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
    set_child_subreaper(Some(getpid()))?;
    scope_all(abi)?;
    // What ends the sandbox must reach nothing else.
    match getppid().map(test_kill_process) {
        Some(Err(Errno::PERM)) => Ok(()),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Starts the watcher and init, and waits until init or the supervisor is gone.
fn reign(init: Init<'_>, channel: &Channel) -> Result<(), Failure> {
    let failed = Failure::at(Step::Identity);
    // Before anything runs that could put links there.
    let attributes = Attributes::new(&init.layout.changed);
    start_watcher().map_err(failed)?;
    let (ours, theirs) = Channel::pair().map_err(|_| Failure::at(Step::Identity)(Errno::MFILE))?;
    let child = match sys::clone_into(0, None).map_err(Failure::at(Step::Identity))? {
        Side::Parent { child, .. } => child,
        Side::Child => {
            drop(ours);
            enter::enter(init, channel, theirs)
        }
    };
    drop(theirs);
    // Its end means that init has failed, which init itself reports.
    let listener = ours.receive::<LaunchOrder>().ok().flatten();
    if let Some(listener) = listener.and_then(|received| received.descriptors.into_iter().next()) {
        serve(Listener::new(listener), attributes).map_err(Failure::at(Step::Seccomp))?;
    }
    let mut ready = [
        PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty()),
        PollFd::new(&child, PollFlags::IN),
    ];
    while poll(&mut ready, None) == Err(Errno::INTR) {}
    Ok(())
}

/// Begins to answer calls, on a thread of its own: a path may lead to a file system that does not answer.
fn serve(listener: Listener, attributes: Attributes) -> Result<(), Errno> {
    let answer = move || {
        while is_used(&listener) {
            // A caller that was killed has nothing to be answered.
            let Ok(call) = listener.next() else { continue };
            listener.answer(&call, attributes.change(&listener, &call));
        }
    };
    let builder = std::thread::Builder::new().name("attributes".to_owned());
    let started = builder.spawn(answer).map(drop);
    started.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

/// Waits for a call, and returns whether there is one; else nobody is left who could make one.
fn is_used(listener: &Listener) -> bool {
    let mut ready = [PollFd::new(listener, PollFlags::IN)];
    while poll(&mut ready, None) == Err(Errno::INTR) {}
    ready[0].revents().contains(PollFlags::IN)
}

/// Starts the process that ends everything if this one is killed.
fn start_watcher() -> Result<(), Errno> {
    let reaper = pidfd_open(getpid(), PidfdFlags::empty())?;
    match sys::clone_into(0, None)? {
        Side::Parent { .. } => Ok(()),
        Side::Child => sys::exit(i32::from(watch(&reaper).is_err())),
    }
}

fn watch(reaper: &OwnedFd) -> Result<(), Errno> {
    sys::wipe_arguments(NAMES[1])?;
    close_all_but(&[reaper.as_fd()])?;
    let mut ended = [PollFd::new(reaper, PollFlags::IN)];
    while poll(&mut ended, None) == Err(Errno::INTR) {}
    sys::kill_all_in_reach();
    Ok(())
}

/// Ends all processes of the sandbox, and waits until none is left.
fn end_all() {
    sys::kill_all_in_reach();
    while !matches!(rustix::process::wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
}
