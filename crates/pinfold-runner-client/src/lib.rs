//! What callers of the runner need, and root's program does not: the other direction of its messages, and what in a policy
//! an administrator should change although it gives nobody anything.

mod message;
mod policy;

pub use message::{encode, refusal};
pub use policy::{checked, configuration};
