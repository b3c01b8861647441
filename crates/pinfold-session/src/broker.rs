//! The host-exec broker: a command inside asks the host to run an executable of the person's list
//! (requirement 8.5).
//!
//! The inside has a socket and a program that speaks at it. Nothing is handed over but bytes: no
//! descriptor of the inside's reaches a program on the host, and none of the host's the inside. What
//! is asked for is looked at (`request`), decided on by the settings' rules, by those that a
//! person has kept, or by a person (`approvals`), recorded, and only then run.

mod approvals;
mod attend;
mod carry;
mod client;
mod conversation;
mod entries;
mod gh;
mod git;
mod ground;
mod kept;
mod minder;
mod question;
mod request;
mod result;
mod serve;
mod shown;

pub(crate) use approvals::Approvals;
pub use approvals::{Answer, AnswerError, Pending};
pub(crate) use attend::attend;
pub use attend::{Attendance, Happening, no_door};
pub use entries::{DIRECTORY, PROGRAM, SOCKET};
pub(crate) use entries::{door, entries};
pub use git::Stage;
pub(crate) use ground::Ground;
pub use kept::{KeptRule, KeptRules};
pub use minder::{end_as, end_with, mind};
pub(crate) use question::Question;
pub use result::HostExecResult;
pub(crate) use serve::{Broker, Setting, SoFar};
