//! What the fuzz targets share.

use std::fmt::Display;

/// A message that quotes what somebody else wrote must not drive the reader's terminal or forge
/// lines of its own.
///
/// # Panics
/// When it could.
pub fn assert_printable(message: impl Display) {
    let message = message.to_string();
    let is_odd = |character: char| character.is_control() && character != '\n';
    assert!(!message.contains(is_odd), "control characters in {message:?}");
    assert!(message.len() < 64 * 1024, "a message of {} bytes", message.len());
}
