//! What a program wrote to a pipe.

use std::os::fd::OwnedFd;

/// The most that is kept, which is the end of it. A guest may write for ever.
const KEPT: usize = 4096;

/// The reading end of a pipe to which somebody hostile writes text.
#[derive(Debug)]
pub(crate) struct Said(OwnedFd);

impl From<OwnedFd> for Said {
    fn from(pipe: OwnedFd) -> Self {
        Self(pipe)
    }
}

impl Said {
    /// Waits until everybody has closed the other end, and returns the end of what was written there, as text that
    /// drives no terminal.
    pub(crate) fn until_end(&self) -> String {
        let mut kept = Vec::new();
        let mut buffer = [0; KEPT];
        loop {
            let read = || rustix::io::read(&self.0, &mut buffer[..]);
            let Ok(count) = rustix::io::retry_on_intr(read) else { break };
            if count == 0 {
                break;
            }
            kept.extend_from_slice(&buffer[..count]);
            let extra = kept.len().saturating_sub(KEPT);
            kept.drain(..extra);
        }
        printable(&String::from_utf8_lossy(&kept))
    }
}

/// Leaves out what is not text, and ends the last line.
pub(crate) fn printable(text: &str) -> String {
    let is_text = |character: &char| *character == '\n' || !character.is_control();
    let mut text: String = text.chars().filter(is_text).collect();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns lines as one.
pub(crate) fn one_line(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
