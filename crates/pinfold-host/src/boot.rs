//! Which run of the machine this is.

use std::fs;
use std::io;

/// Returns what the kernel calls its present run (random(4), "boot_id").
///
/// # Errors
/// Returns the error of reading it.
pub fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
