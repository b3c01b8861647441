//! What the processes of the sandbox use, as proc(5) shows it.

use std::fs;
use std::io;

use crate::kernel_text;

/// The key of what a process holds for itself.
const OWN_MEMORY: &str = "RssAnon:";

/// What processes use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Bytes that each holds for itself, in memory and swapped out.
    pub(super) memory: u64,
    /// Tasks, as the kernel counts them.
    pub(super) tasks: u64,
    /// Descriptors of the process that has most.
    pub(super) files: u64,
    pub(super) pids: Vec<u32>,
}

impl Usage {
    /// Looks at every process but init, which counts as a task. `status` and `files` say what is wanted;
    /// the rest stays at nothing.
    ///
    /// # Errors
    /// Returns the error of reading /proc.
    pub(super) fn of_all(status: bool, files: bool) -> io::Result<Self> {
        let entries = fs::read_dir("/proc")?.flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut usage = Self::of(pids.filter(|pid| *pid != 1), status, files)?;
        usage.tasks += 1;
        Ok(usage)
    }

    /// Returns the same of these processes alone.
    ///
    /// # Errors
    /// Returns the error of reading one of them if none of them can be read. If others can, one that cannot
    /// counts for nothing.
    pub(super) fn of(
        pids: impl IntoIterator<Item = u32>,
        status: bool,
        files: bool,
    ) -> io::Result<Self> {
        let mut usage = Self::default();
        let mut unreadable = None;
        for pid in pids {
            match usage.add(pid, status, files) {
                Ok(()) => usage.pids.push(pid),
                // A process that has just gone uses nothing.
                Err(error) if is_gone(&error) => {}
                Err(error) => unreadable = Some(error),
            }
        }
        match unreadable {
            Some(error) if usage.pids.is_empty() => Err(error),
            _ => Ok(usage),
        }
    }

    /// Adds what one process uses.
    ///
    /// # Errors
    /// Returns the error of reading its status.
    fn add(&mut self, pid: u32, status: bool, files: bool) -> io::Result<()> {
        if status {
            let text = kernel_text(format!("/proc/{pid}/status"))?;
            let kilobytes = number(&text, OWN_MEMORY) + number(&text, "VmSwap:");
            self.memory = self.memory.saturating_add(kilobytes.saturating_mul(1024));
            self.tasks += number(&text, "Threads:").max(1);
        }
        if files {
            self.files = self.files.max(open_files(pid));
        }
        Ok(())
    }
}

/// Returns whether the kernel shows of each process what it holds for itself: Linux does since 4.5,
/// gVisor's kernel does not.
pub(super) fn shows_memory_per_process() -> bool {
    kernel_text("/proc/1/status").is_ok_and(|status| status.contains(OWN_MEMORY))
}

/// Returns whether a process has gone, or goes just now (proc(5)).
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Returns the number behind a key, 0 where the key is missing (a process that is ending has no memory).
fn number(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns how many descriptors a process has open: the directory's size since Linux 6.2 (proc(5)),
/// counted one by one before.
fn open_files(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/fd");
    match rustix::fs::stat(&path).map(|stat| stat.st_size) {
        Ok(size @ 1..) => size as u64,
        _ => fs::read_dir(path).map_or(0, |entries| entries.count() as u64),
    }
}
