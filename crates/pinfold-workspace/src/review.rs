//! What a session changed in a copy-on-write view, from its end until a user has decided.
//!
//! `<state>/review/<id>` holds the changes as the kernel wrote them (overlayfs, `layers`), the
//! private copies of git directories (`git`), and what is needed to judge both: what the session
//! was (`record`), which names the workspace had when it started (`names`), and, from the first
//! look after its end on, the state of everything that it changed in the workspace itself
//! (`seen`). What differs from that was changed in the meantime, by somebody else.
//!
//! Nothing that lies in the layers is believed: it is read by descriptors that follow no link, and
//! shown with every control character escaped.

mod apply;
mod automatic;
mod changes;
mod conclude;
mod ended;
mod error;
mod journal;
mod layer;
mod record;
mod renames;
mod scan;
mod seen;
mod stage;
mod undecided;
mod whole;

pub use apply::{Applied, Selection};
pub use changes::Conflict;
pub use changes::{Change, Changes, Left, What};
pub use ended::{Content, Review, Summary};
pub use error::ReviewError;
pub use journal::Skipped;
pub use record::Protected;

pub use conclude::conclude;
pub use layer::{Layer, reviews};
pub(crate) use record::AnyPath;
pub(crate) use record::Part;
pub(crate) use record::Record;
pub(crate) use record::Top;
pub use record::{Named, Repository};
