//! The caller's side of the runner's messages: root's program reads a request and writes a refusal, and needs no code for
//! the other way.

use std::os::unix::ffi::OsStrExt as _;

use pinfold_runner::Refusal;
use pinfold_runner::request::{LONGEST, MOST_GRANTS, REFUSED, Request, VERSION};

/// Returns a request as a message.
///
/// # Errors
/// Returns that it is too long.
pub fn encode(request: &Request) -> Result<Vec<u8>, Refusal> {
    let mut message = VERSION.to_vec();
    put(&mut message, request.session.as_bytes())?;
    for limit in [request.memory, request.cpus.map(u64::from), request.tasks] {
        // No limit is 0, which would let nothing run.
        message.extend(limit.unwrap_or(0).to_le_bytes());
    }
    message.extend((request.grants.len() as u32).to_le_bytes());
    for wanted in &request.grants {
        message.push(wanted.is_writable.into());
        put(&mut message, wanted.path.as_os_str().as_bytes())?;
    }
    if message.len() > LONGEST || request.grants.len() > MOST_GRANTS {
        return Err(Refusal::new(
            format!(
                "{} files and directories are more than the runner takes",
                request.grants.len()
            ),
            "grant directories that contain them",
        ));
    }
    Ok(message)
}

fn put(message: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Refusal> {
    let length = u16::try_from(bytes.len()).map_err(|_| Refusal::plain("a path is too long"))?;
    message.extend(length.to_le_bytes());
    message.extend(bytes);
    Ok(())
}

/// Reads a message of the runner's; nothing if it is no refusal.
#[must_use]
pub fn refusal(message: &[u8]) -> Option<Refusal> {
    let text = String::from_utf8_lossy(message.strip_prefix(&[REFUSED])?);
    let (what, hint) = text.split_once('\0')?;
    Some(if hint.is_empty() { Refusal::plain(what) } else { Refusal::new(what, hint) })
}

#[cfg(test)]
mod tests;
