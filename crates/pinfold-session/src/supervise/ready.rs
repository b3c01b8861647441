//! Waiting for whatever happens next.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use pinfold_hostexec::Broker;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::Supervision;
use super::disk_watch::DiskWatch;
use crate::RunError;
use crate::doors::publish::Sockets;

/// How often a control group that cannot end the tree by itself is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What there is to be dealt with.
pub(super) struct Ready {
    pub(super) report: bool,
    pub(super) ended: bool,
    pub(super) signal: bool,
    pub(super) control: bool,
    pub(super) sockets: bool,
    pub(super) output: bool,
    pub(super) door: bool,
    pub(super) full: bool,
    pub(super) broker: bool,
}

impl Supervision {
    /// Waits until there is something to be dealt with, or it is time to look.
    ///
    /// # Errors
    /// Returns the error of `poll(2)`.
    pub(super) fn wait(&self) -> Result<Ready, RunError> {
        let mut watched = vec![
            PollFd::new(&self.inside.channel, PollFlags::IN),
            PollFd::from_borrowed_fd(self.inside.ended(), PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let control = self.control.waiting();
        watched.extend(control.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let first_socket = watched.len();
        let sockets = self.sockets.iter().map(Sockets::waiting);
        watched.extend(sockets.map(|wish| PollFd::from_borrowed_fd(wish, PollFlags::IN)));
        let first_output = watched.len();
        let outputs = self.outputs_of_tasks();
        watched
            .extend(outputs.map(|output| PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)));
        let first_door = watched.len();
        let doors = self.serving.waiting().into_iter();
        watched.extend(doors.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let first_disk_watch = watched.len();
        let disk_watch = self.disk_watch.iter().map(DiskWatch::waiting);
        watched.extend(disk_watch.map(|full| PollFd::from_borrowed_fd(full, PollFlags::IN)));
        let first_broker = watched.len();
        let broker = self.broker.iter().filter_map(Broker::waiting);
        watched.extend(broker.map(|door| PollFd::from_borrowed_fd(door, PollFlags::IN)));
        let timeout = self.patience().map(|patience| Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        match rustix::event::poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(RunError::thread(errno.into())),
        }
        let is = |index: usize| !watched[index].revents().is_empty();
        Ok(Ready {
            report: is(0),
            ended: is(1),
            signal: is(2),
            control: (3..first_socket).any(is),
            sockets: (first_socket..first_output).any(is),
            output: (first_output..first_door).any(is),
            door: (first_door..first_disk_watch).any(is),
            full: (first_disk_watch..first_broker).any(is),
            broker: (first_broker..watched.len()).any(is),
        })
    }

    /// Returns how long to wait at most.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let looks = self.inside.group().is_some_and(|group| group.needs_a_look());
        let times = [self.deadline, self.state.killing, self.state.waking, self.control.due()];
        let waits = times.map(|at| at.map(until)).into_iter().chain([looks.then_some(LOOK)]);
        waits.flatten().min()
    }
}
