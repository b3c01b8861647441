//! What init reports, which nobody believes without a look.

use std::os::fd::OwnedFd;

use pinfold_host::sys;
use pinfold_wire::{Ended, Received, Report, Step};

use crate::RunError;
use crate::control::News;
use crate::detach::Background;

use super::{Supervision, limits, unexpected};

/// The status of a resume command's shell that cannot be executed.
const NOT_FOUND: u8 = 127;

impl Supervision {
    /// Deals with one report; false when the command has ended.
    pub(super) fn report(&mut self) -> Result<bool, RunError> {
        let (report, descriptor) = match self.inside.channel.receive::<Report>() {
            Ok(Some(Received { message, descriptors })) => match expected(&message, descriptors) {
                Ok(descriptor) => (message, descriptor),
                Err(strange) => return Ok(self.end_with(&strange)),
            },
            // Init is gone, or talks nonsense: everything inside ends.
            Ok(None) | Err(_) => return Ok(false),
        };
        match report {
            // The clock of a machine is another one.
            Report::Times(_) if self.inside.delivers_late() => {}
            Report::Times(times) => self.state.timeline.add(&times),
            Report::TaskEnded { id, ended } => {
                self.task_ended(id, ended);
                self.control.report(&self.inside, id, News::Ended(ended));
            }
            Report::TaskFailed { id, step, errno, detail } => {
                self.task_ended(id, Ended::Code(NOT_FOUND));
                self.control.report(&self.inside, id, News::Failed(step, errno, detail));
            }
            Report::Finished => self.runs()?,
            Report::TaskLimit { id, limit } => {
                self.control.report(&self.inside, id, News::Limit(limits::reached(limit)));
            }
            Report::TaskStopped(id) => self.control.report(&self.inside, id, News::Stopped),
            Report::TaskTerminal(id) => {
                let news = descriptor.map_or(News::NoTerminal, News::Terminal);
                self.control.report(&self.inside, id, news);
            }
            Report::Stopped(_) => self.stopped(),
            Report::Limit(limit) => self.state.reach(limits::reached(limit)),
            Report::Socket => {
                if let (Some(sockets), Some(socket)) = (&self.sockets, descriptor) {
                    sockets.supply.put(socket);
                }
            }
            Report::Part(part) if self.state.spec.add(&part) => {}
            Report::Returned(why) if self.state.spec.end(why) => {}
            Report::Part(_) | Report::Returned(_) => return Ok(self.end_with(&[])),
            Report::Ended(ended) => {
                self.runs()?;
                self.state.ended = Some(ended);
                self.await_delivery();
                return Ok(false);
            }
            Report::Failed { step: step @ (Step::Execute | Step::Directory), errno, detail } => {
                return Err(RunError::not_begun(step, errno, &detail));
            }
            report @ (Report::Failed { .. }
            | Report::Listening { .. }
            | Report::Born
            | Report::Terminal) => {
                return Err(unexpected(report).into());
            }
        }
        Ok(true)
    }

    /// Ends everything inside because of descriptors that no init of ours sends. To close a socket can
    /// take as long as its maker likes (`SO_LINGER`, socket(7)).
    fn end_with(&mut self, strange: &[OwnedFd]) -> bool {
        self.state.killed = true;
        self.inside.kill();
        for descriptor in strange {
            // What is no socket does not linger.
            let _ = rustix::net::sockopt::set_socket_linger(descriptor, None);
        }
        false
    }

    /// Reports that the command was executed, which the process that started a detached session waits for.
    fn runs(&mut self) -> Result<(), RunError> {
        let background = self.background.take();
        background.map_or(Ok(()), Background::started).map_err(RunError::System)
    }

    /// Stops as the command's job would, and goes on with it.
    fn stopped(&mut self) {
        if let Some(terminal) = &self.terminal {
            let stop = || terminal.stop(self.inner.as_ref());
            match &self.passage {
                Some(passage) => passage.without_notices(stop),
                None => stop(),
            }
            self.order(libc::SIGCONT);
        } else if self.control.has_screen() {
            // Behind it there is no shell in which somebody could go on with it.
            self.order(libc::SIGCONT);
        }
    }
}

/// Returns the descriptor that comes with a report, if it has one and there was room for it.
///
/// # Errors
/// Returns an error for descriptors that it does not have, or that are something else.
fn expected(
    report: &Report,
    mut descriptors: Vec<OwnedFd>,
) -> Result<Option<OwnedFd>, Vec<OwnedFd>> {
    let is_expected = match (report, descriptors.as_slice()) {
        (_, []) => true,
        (Report::TaskTerminal(_), [terminal]) => sys::is_terminal(terminal),
        // What it is, is looked at where it is handed in.
        (Report::Socket, [_]) => true,
        _ => false,
    };
    if is_expected { Ok(descriptors.pop()) } else { Err(descriptors) }
}
