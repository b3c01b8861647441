//! Searches the memory of processes for a secret.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// A Python program that searches the memory of its own sandbox for a [`disguised`] key.
pub const MEMORY_SEARCH: &str = include_str!("memory.py");

/// Encodes a key so that [`MEMORY_SEARCH`] can be given it without the key being in memory.
#[must_use]
pub fn disguised(key: &str) -> String {
    key.bytes().map(|byte| format!("{:02x}", byte ^ 0x5A)).collect()
}

/// Returns all descendants of a process.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

/// Searches the memory, environment and command line of a process for a key.
///
/// Returns how many bytes were searched, and where the key was found.
#[must_use]
pub fn search_memory(pid: u32, key: &str) -> (usize, Vec<String>) {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    // A path in it need not be UTF-8.
    let maps = String::from_utf8_lossy(&maps);
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return (0, Vec::new()) };
    let (mut searched, mut found) = (0, Vec::new());
    for line in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|m| m.starts_with('r')))
    {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        let (mut at, end) = (address(start), address(end));
        let mut buffer = vec![0; 4 << 20];
        while at < end {
            let size = usize::try_from(end - at).unwrap().min(buffer.len());
            // Pages that cannot be read hold nothing.
            let Ok(read) = memory.read_at(&mut buffer[..size], at) else { break };
            if read == 0 {
                break;
            }
            searched += read;
            if holds(&buffer[..read], key) {
                found.push(line.to_owned());
            }
            // The next read overlaps this one, so it finds a key that spans both.
            at += read as u64
                - if read == size && at + (read as u64) < end { key.len() as u64 } else { 0 };
        }
    }
    for name in ["environ", "cmdline"] {
        if holds(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default(), key) {
            found.push(name.to_owned());
        }
    }
    (searched, found)
}

fn holds(data: &[u8], key: &str) -> bool {
    // SAFETY: both areas are valid for the lengths given; memmem only reads.
    !unsafe { libc::memmem(data.as_ptr().cast(), data.len(), key.as_ptr().cast(), key.len()) }
        .is_null()
}
