//! Values that are known by what is in them.
//!
//! What tasks, diaries and packs hold is known by [content addresses](Cid) over the bytes that `JSON.stringify` writes,
//! so values are read and written as JavaScript does ([`Value`]). Times are written as JavaScript writes them, too.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod canonical;
mod cid;
mod dag;
mod json;
mod time;
pub mod times;
mod uuid;

pub use canonical::canonical;
pub use cid::{Cid, InvalidCid, InvalidLink};
pub use dag::{Dag, NotDag};
pub use json::{InvalidJson, MOST_DEPTH, Object, Text, Value, read};
pub use time::{Clock, SystemClock, Timestamp};
pub use uuid::{InvalidUuid, Uuid};
