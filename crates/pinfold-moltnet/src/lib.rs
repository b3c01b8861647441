//! MoltNet's task API: what a task asks for and what an attempt returns are known by [content addresses](Cid) over the
//! bytes that `JSON.stringify` writes, so values are read and written as JavaScript does ([`Value`]).
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod cid;
mod json;

pub use cid::{Cid, InvalidCid};
pub use json::{InvalidJson, MOST_DEPTH, Object, Text, Value, read};
