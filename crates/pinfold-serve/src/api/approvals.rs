//! What the sandbox asks for, shown to a client and answered by it.

use std::sync::Arc;

use pinfold_ask::{Answer, Happening, Pending, Subject};
use pinfold_client::Fault;
use pinfold_client::api::{
    Approval, ApprovalAnswer, ApprovalAsked, ApprovalConnection, ApprovalSettled, Approvals,
    ApprovalsAnswer,
};

use pinfold_session::control::{Attendance, no_door};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;

use super::connection::{Connection, start_thread};
use crate::exec::fault;

/// Who answered, in the audit log.
const BY: &str = "local API";

/// Returns what waits in a session.
///
/// # Errors
/// Returns an error if there is no such session, or one in which nothing can be asked.
pub(super) fn list(to: &Connection, session: &str) -> Result<Approvals, Fault> {
    let all = Attendance::list(to.going_on.places(), Some(session))
        .map_err(fault)?
        .ok_or_else(|| fault(no_door()))?;
    Ok(Approvals { approvals: all.into_iter().map(shown).collect() })
}

/// Tells what waits, as long as the client is there; until then requests wait for it.
///
/// # Errors
/// Returns the errors of [`list`].
pub(super) fn watch(to: &Arc<Connection>, session: &str) -> Result<(), Fault> {
    to.going_on.has_room()?;
    let name = to.going_on.session(session)?.name().to_owned();
    let attendance = Attendance::watch(to.going_on.places(), Some(&name))
        .map_err(fault)?
        .ok_or_else(|| fault(no_door()))?;
    let refused = |errno: Errno| Fault::refused(std::io::Error::from(errno).to_string(), None);
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(refused)?);
    let (number, stopped) = (to.going_on.number(), Arc::clone(&stop));
    let take_back = move || {
        // It can only be readable already.
        let _ = rustix::io::write(&*stopped, &1_u64.to_ne_bytes());
    };
    to.going_on.watches(number, Arc::new(take_back));
    let of_thread = Arc::clone(to);
    let started = start_thread(move || {
        let to = of_thread;
        while is_readable(&attendance, &stop) {
            // A session that has ended asks for nothing more.
            let Ok(Some(happening)) = attendance.hear() else { break };
            let session = name.clone();
            let sent = match happening {
                Happening::Asked(pending) => {
                    to.outgoing.report(&ApprovalAsked { session, approval: shown(pending) })
                }
                Happening::Settled(id) => to.outgoing.report(&ApprovalSettled { session, id }),
                Happening::Done | Happening::Failed(_) | Happening::NoDoor => Ok(()),
            };
            if sent.is_err() {
                break;
            }
        }
        to.going_on.forget_watch(number);
    });
    if started.is_err() {
        to.going_on.forget_watch(number);
    }
    started
}

/// Waits until there is something to hear; false if nobody wants to.
fn is_readable(attendance: &Attendance, stop: &rustix::fd::OwnedFd) -> bool {
    let mut ready = [PollFd::new(attendance, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    let polled = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None));
    polled.is_ok() && ready[1].revents().is_empty()
}

/// Answers a request.
///
/// # Errors
/// Returns an error for one that waits no more, or that no rule can allow.
pub(super) fn answer(to: &Connection, call: ApprovalsAnswer) -> Result<(), Fault> {
    let answer = match call.answer {
        ApprovalAnswer::Once => Answer::Once,
        ApprovalAnswer::Session => Answer::Session,
        ApprovalAnswer::Always => Answer::Always,
        ApprovalAnswer::Deny => Answer::Deny { reason: call.reason },
    };
    let places = to.going_on.places();
    Attendance::answer(places, Some(&call.session), call.id, answer, BY).map_err(fault)
}

fn shown(pending: Pending) -> Approval {
    let Pending { id, subject, details, rule } = pending;
    let (executable, command, cwd, connection) = (None, None, None, None);
    let approval = Approval { id, executable, command, cwd, connection, details, rule };
    match subject {
        Subject::Command { executable, command, cwd } => Approval {
            executable: Some(executable),
            command: Some(command),
            cwd: Some(cwd),
            ..approval
        },
        Subject::Connection { host, port, protocol } => {
            Approval { connection: Some(ApprovalConnection { host, port, protocol }), ..approval }
        }
    }
}
