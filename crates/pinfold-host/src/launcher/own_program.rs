//! The program that runs.

use std::io;
use std::path::PathBuf;

/// Returns this program's file. It is static, so it runs wherever it is mounted.
///
/// # Errors
/// Returns an error if the file was replaced since this process started.
pub fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    if path.exists() {
        return Ok(path);
    }
    let what = format!("{} was replaced while it runs; start pinfold again", path.display());
    Err(io::Error::other(what))
}
