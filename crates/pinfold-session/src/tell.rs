//! What a person is told: on standard error, beside what a program shows.

use std::fmt;
use std::io::{self, Write as _};

/// Tells a person something, on a line of standard error.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::tell::put(format_args!("{}\n", format_args!($($words)*))) };
}

/// The same without the end of the line. That nobody can hear it (a closed pipe, a full disk) is no
/// failure of what it is about.
pub fn put(words: fmt::Arguments<'_>) {
    // In one write(2), so that nothing of somebody else's comes between.
    let _ = io::stderr().lock().write_all(words.to_string().as_bytes());
}
