//! Shared memory of the sandbox that no process holds for itself: memfds, whether mapped or only
//! written, anonymous shared mappings, and segments of System V.
//!
//! A look at every descriptor and mapping is dear. It is not taken while all shared memory of the
//! machine would fit into what is left of the limit, and it never takes more than a twentieth of
//! the time.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use crate::{HOST_MEMINFO, kernel_text};

/// Names that the kernel gives to files of its own shared memory (mm/shmem.c, ipc/shm.c,
/// mm/memfd.c). The root inside is read-only, so no other file has one.
const NAMES: [&[u8]; 3] = [b"/memfd:", b"/dev/zero (deleted)", b"/SYSV"];
/// Time between two looks, as a multiple of what the last one took.
const PAUSE: u32 = 20;
/// How long one look may take. A tree that is made to be slow to look at is seen in part.
const LONGEST: Duration = Duration::from_millis(100);

/// What was seen last, and when to look again.
#[derive(Debug)]
pub(super) struct Shared {
    /// Whether segments count that nobody has mapped: nothing shows whose they are.
    with_left: bool,
    seen: u64,
    next: Option<Instant>,
}

/// Bytes of one file of shared memory.
#[derive(Debug, Default)]
struct File {
    /// As the file system has it.
    stored: u64,
    /// As its mappings have it, each process with its part.
    mapped: u64,
}

impl Shared {
    /// Returns what all processes of the sandbox hold.
    pub(super) fn of_all() -> Self {
        Self { with_left: true, seen: 0, next: None }
    }

    /// Returns what some of them hold.
    pub(super) fn of_part() -> Self {
        Self { with_left: false, ..Self::of_all() }
    }

    /// Returns bytes of shared memory that these processes hold, or 0 when it is less than `room`
    /// whatever they hold.
    pub(super) fn held(&mut self, pids: &[u32], room: u64) -> u64 {
        if of_machine().is_ok_and(|all| all <= room) {
            return 0;
        }
        let before = Instant::now();
        if self.next.is_none_or(|next| before >= next) {
            self.seen = self.look(pids, before + LONGEST);
            self.next = Some(Instant::now() + before.elapsed() * PAUSE);
        }
        self.seen
    }

    fn look(&self, pids: &[u32], until: Instant) -> u64 {
        let mut files = HashMap::new();
        // What cannot be read, of a process that has gone or hides, is not seen.
        if self.with_left {
            let _ = segments(&mut files);
        }
        for pid in pids.iter().take_while(|_| Instant::now() < until) {
            let _ = descriptors(*pid, &mut files);
            let _ = mappings(*pid, &mut files);
        }
        files.values().map(|file: &File| file.stored.max(file.mapped)).sum()
    }
}

/// Returns bytes of shared memory on the whole machine, swapped out ones included.
fn of_machine() -> io::Result<u64> {
    let swapped = in_meminfo("SwapTotal:")?.saturating_sub(in_meminfo("SwapFree:")?);
    Ok(in_meminfo("Shmem:")?.saturating_add(swapped))
}

/// Returns a number of bytes that the kernel reports for the whole machine (proc_meminfo(5)).
pub(super) fn in_meminfo(key: &str) -> io::Result<u64> {
    // A session that sees its limit as the machine's memory has the machine's own numbers elsewhere.
    let text = kernel_text(HOST_MEMINFO).or_else(|_| kernel_text("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let kilobytes = number.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(kilobytes.saturating_mul(1024))
}

/// Segments of System V, each under its number, which is its inode number too (ipc/shm.c). One
/// lives on when nobody has it mapped.
fn segments(files: &mut HashMap<u64, File>) -> io::Result<()> {
    for line in kernel_text("/proc/sysvipc/shm")?.lines().skip(1) {
        // Fields 2, 15 and 16 are the number, resident and swapped bytes (proc_sysvipc_shm(5)).
        let fields: Vec<u64> =
            line.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
        if let (Some(id), Some([resident, swapped])) = (fields.get(1), fields.get(14..16)) {
            files.entry(*id).or_default().stored = resident.saturating_add(*swapped);
        }
    }
    Ok(())
}

/// Counts shared memory that a process holds by a descriptor.
fn descriptors(pid: u32, files: &mut HashMap<u64, File>) -> io::Result<()> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        // By its name first: stat(2) of a file on a network may take for ever.
        let is_shared = |target: OsString| is_shared(target.as_bytes());
        if !fs::read_link(entry.path()).is_ok_and(|target| is_shared(target.into_os_string())) {
            continue;
        }
        if let Ok(stat) = rustix::fs::stat(entry.path()) {
            // Blocks are of 512 bytes, whatever the file system (stat(3type)).
            files.entry(stat.st_ino).or_default().stored = (stat.st_blocks as u64) * 512;
        }
    }
    Ok(())
}

/// Counts shared memory that a process has mapped, whose descriptor may be closed.
fn mappings(pid: u32, files: &mut HashMap<u64, File>) -> io::Result<()> {
    let mut smaps = BufReader::new(fs::File::open(format!("/proc/{pid}/smaps"))?);
    let (mut line, mut inode) = (Vec::new(), None);
    while smaps.read_until(b'\n', &mut line)? > 0 {
        if line.first().is_some_and(u8::is_ascii_uppercase) {
            if let (Some(inode), Some(kilobytes)) = (inode, part(&line)) {
                files.entry(inode).or_default().mapped += kilobytes * 1024;
            }
        } else {
            inode = shared_inode(&line);
        }
        line.clear();
    }
    Ok(())
}

/// Returns the inode of a mapping of shared memory, from the first line about it: addresses, rights,
/// offset, device, inode, name (proc_pid_maps(5)).
fn shared_inode(line: &[u8]) -> Option<u64> {
    let name = line.iter().position(|byte| *byte == b'/')?;
    let inode = std::str::from_utf8(&line[..name]).ok()?.split_whitespace().nth(4)?;
    is_shared(line[name..].trim_ascii_end()).then(|| inode.parse().ok())?
}

/// Kilobytes of a line with a process's part of a mapping.
fn part(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?;
    let rest = text.strip_prefix("Pss:").or_else(|| text.strip_prefix("SwapPss:"))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn is_shared(name: &[u8]) -> bool {
    NAMES.iter().any(|known| name.starts_with(known))
}
