//! Which system calls exist in a sandbox.
//!
//! `data/syscalls.txt` is the reviewed list. The filter first settles the architecture, then
//! searches the number by bisection over ranges of equal verdict: the kernel emulates the
//! filter once for each call to fill its cache of calls that always pass, so the length of the
//! longest path is what loading costs (0.1 ms, against 1 ms for a flat list).

mod bpf;
pub mod code;
mod profile;
mod sys;
mod table;

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use bpf::Assembler;
pub use profile::profile;
pub use sys::listen;
use table::{TABLE, Verdict};

/// What a sandbox is to the filter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Character {
    /// It may make namespaces of its own.
    pub nested: bool,
    /// It may, and nobody outside gets what it writes: files may have set-user-ID bits, and device nodes that are whiteouts may
    /// be made, as images have both.
    pub leaves_nothing: bool,
    /// It is root by name only: what only root can do to owners and ids succeeds without effect,
    /// as package managers want it.
    pub root_by_name: bool,
    /// What it makes belongs to another user and group on the host than its processes do: it may then not
    /// set group ids either. (For others it may: a shared directory has that bit.)
    pub owner_is_other: bool,
    /// It has views, and init moves directories in them that the kernel does not.
    pub moves: bool,
    /// An engine's own kernel answers its calls.
    pub own_kernel: bool,
    /// The user and the group that it is, where there is no other.
    pub ids: Option<(u32, u32)>,
}

impl Character {
    /// Returns whether a program with capabilities could be left that count for the owner of the sandbox's files.
    fn leaves_capabilities(self) -> bool {
        self.nested && self.owner_is_other && !self.leaves_nothing
    }
}

/// Returns the filter as a program.
fn program(character: Character) -> Vec<libc::sock_filter> {
    let mut assembler = Assembler::new(character);
    assembler.check_architecture();
    assembler.search(&ranges(character));
    assembler.finish()
}

/// Loads the filter into this process and all that it will start. Returns where init hears of calls,
/// if it is to.
///
/// # Errors
/// Returns the error of `seccomp(2)`; `EINVAL` where the kernel lacks filters.
pub fn load(character: Character) -> Result<Option<OwnedFd>, Errno> {
    if character.moves {
        match sys::listen(&program(character)) {
            // A kernel before 5.19, where a signal would have a call made twice; or somebody around
            // this boundary hears of calls, and there can be only one.
            Err(Errno::INVAL | Errno::BUSY) => {}
            listening => return listening.map(Some),
        }
    }
    sys::load(&program(Character { moves: false, ..character }))?;
    Ok(None)
}

/// Consecutive numbers with one verdict, from `first` up to the next range.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u32,
    verdict: Verdict,
}

/// Returns the table as ranges that cover every number; holes are absent calls.
fn ranges(character: Character) -> Vec<Range> {
    let mut ranges = vec![Range { first: 0, verdict: Verdict::Absent }];
    let mut push = |first: u32, verdict: Verdict| match ranges.last_mut() {
        Some(last) if last.verdict == verdict => {}
        Some(last) if last.first == first => last.verdict = verdict,
        _ => ranges.push(Range { first, verdict }),
    };
    let mut next = 0;
    for row in TABLE {
        if row.number > next {
            push(next, Verdict::Absent);
        }
        push(row.number, effective(row.verdict, character));
        next = row.number + 1;
    }
    push(next, Verdict::Absent);
    // A replaced verdict may equal the one before it.
    ranges.dedup_by(|later, earlier| later.verdict == earlier.verdict);
    ranges
}

/// Returns what a verdict comes to for a sandbox of this character.
fn effective(verdict: Verdict, character: Character) -> Verdict {
    match verdict {
        Verdict::Nested if character.nested => Verdict::Allow,
        Verdict::Nested => Verdict::Refuse,
        Verdict::Owner if character.root_by_name => Verdict::Pretend,
        Verdict::Owner if character.ids.is_none() => Verdict::Allow,
        // Every mount is nosuid, and nothing of it is kept with such a bit.
        Verdict::Setuid | Verdict::Queues if character.root_by_name || character.leaves_nothing => {
            Verdict::Allow
        }
        Verdict::Queues if !character.nested => Verdict::Allow,
        Verdict::Attributes if !character.leaves_capabilities() => Verdict::Allow,
        Verdict::Moves if !character.moves => Verdict::Allow,
        Verdict::Empty if !character.own_kernel => Verdict::Allow,
        other => other,
    }
}

#[cfg(test)]
mod tests;
