//! What the tests share: who runs, where, and the program itself.

mod person;
mod stage;

pub(crate) use person::{Person, people};
pub(crate) use stage::Stage;

use std::path::Path;

/// Says why a test does nothing.
pub(crate) fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

/// Whether a program of the system is there, where the inside has it too.
pub(crate) fn installed(name: &str) -> bool {
    ["/usr/bin", "/bin"].iter().any(|directory| Path::new(directory).join(name).exists())
}
