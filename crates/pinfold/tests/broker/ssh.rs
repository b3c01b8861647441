//! A key that is never inside signs commits and logs in to git hosts, and does nothing else.

mod attacks;
mod hosts;
mod identity;
mod signing;
pub(crate) mod world;
