//! The first process inside every boundary.
//!
//! A boundary makes the sandbox and drops every privilege; then [`run`] takes over: it opens the
//! terminal, starts the command, forwards signals, reaps orphans, watches limits and reports. It
//! has no async runtime, reads no configuration, and nothing it says is trusted outside.

mod attributes;
mod command;
mod doors;
mod fds;
mod gvisor;
mod heard;
mod moves;
mod panics;
mod proc;
mod relay;
mod returned;
mod run;
mod servant;
mod signals;
mod stdio;
mod surroundings;
mod task;
mod tree;
mod vfork;
mod watch;

pub use attributes::{Attributes, SYS_FCHMODAT2};
pub use command::Command;
pub use doors::{datagrams, listen, listen_at, outlet, unix};
pub use fds::close_all_but;
pub use heard::{Call, Listener};
pub use panics::{PANICKED, end_on_panic};
pub use proc::{HOST_MEMINFO, kernel_text};
pub use run::{Start, now, run};
pub use signals::block_signals;
pub use stdio::Streams;
pub use surroundings::Surroundings;
pub use watch::{Watch, Watched};

use pinfold_wire::{Report, Step};
use rustix::io::Errno;

/// A step that failed, as it is reported.
#[derive(Debug)]
pub struct Failure {
    pub step: Step,
    /// The system's error.
    pub errno: Errno,
    /// The path or value that it was about.
    pub detail: Vec<u8>,
}

impl Failure {
    /// Returns a failure without a path.
    pub fn at(step: Step) -> impl FnOnce(Errno) -> Self {
        move |errno| Self { step, errno, detail: Vec::new() }
    }

    /// Returns a failure about a path or value.
    pub fn about(step: Step, detail: &[u8]) -> impl FnOnce(Errno) -> Self {
        move |errno| Self { step, errno, detail: detail.to_vec() }
    }

    /// Returns the failure of a program that was to run next to the command, as a message.
    pub(crate) fn report_of(self, id: u32) -> Report {
        let Self { step, errno, detail } = self;
        Report::TaskFailed { id, step, errno: errno.raw_os_error(), detail }
    }

    /// Returns the failure as a message.
    pub fn report(self) -> Report {
        Report::Failed { step: self.step, errno: self.errno.raw_os_error(), detail: self.detail }
    }
}
