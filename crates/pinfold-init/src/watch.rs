//! Limits that no control group enforces here, watched from inside.
//!
//! Without a delegated control group (an ordinary user on many machines) the kernel bounds one
//! process at a time, not the tree. Init sees every process of the inside in its own /proc, so
//! it looks there a few times a second. This is a guard against run-aways, not a wall: what is
//! allocated and freed between two looks is not seen.

use std::time::Duration;

use pinfold_wire::Limit;

/// One of the private directories.
const PRIVATE: &str = "/tmp";
/// How often init looks when there is something to watch.
const INTERVAL: Duration = Duration::from_millis(200);

/// What to watch; `None` is not watched.
#[derive(Debug, Default)]
pub struct Watch {
    /// Bytes that the tree may hold in memory.
    pub memory: Option<u64>,
    /// Tasks: the kernel refuses the next one by itself, this only reports it.
    pub pids: Option<u64>,
    /// A private directory whose file system is bounded; full is reported.
    pub disk: Option<&'static str>,
    reported: [bool; 3],
}

impl Watch {
    /// Watches these.
    pub fn new(memory: Option<u64>, pids: Option<u64>, disk: Option<&'static str>) -> Self {
        Self { memory, pids, disk, reported: [false; 3] }
    }

    /// How long to wait at most before the next look.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let watching = self.memory.is_some() || self.pids.is_some() || self.disk.is_some();
        watching.then_some(INTERVAL)
    }

    /// A limit that is reached and was not reported before.
    pub(crate) fn look(&mut self) -> Option<Limit> {
        let (memory, tasks) = match (self.memory, self.pids) {
            (None, None) => (0, 0),
            // Who cannot look must assume the worst.
            _ => usage().unwrap_or((u64::MAX, 0)),
        };
        let reached = [
            (Limit::Memory, self.memory.is_some_and(|most| memory > most)),
            (Limit::Pids, self.pids.is_some_and(|most| tasks >= most)),
            (Limit::Disk, self.disk.is_some_and(full)),
        ];
        for (limit, reached) in reached {
            let reported = &mut self.reported[limit as usize - 1];
            if reached && !*reported {
                *reported = true;
                return Some(limit);
            }
        }
        None
    }

    /// Whether reaching this limit ends the run: only memory cannot be refused piecemeal.
    pub(crate) fn ends(&self, limit: Limit) -> bool {
        limit == Limit::Memory
    }
}

/// Tasks, of which init is one as the kernel counts them, and bytes: what every process but init
/// holds for itself, and what lies in the private directories, which are memory too.
fn usage() -> std::io::Result<(u64, u64)> {
    let page = rustix::param::page_size() as u64;
    let (mut memory, mut tasks) = (stored(), 1);
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == 1 {
            continue;
        }
        // resident minus shared, in pages (proc(5), statm)
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let mut words = statm.split(' ').skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
        let (resident, shared) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        memory += resident.saturating_sub(shared) * page;
        // num_threads is field 20 of stat, the 18th after the parenthesised name
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let threads = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(17));
        tasks += threads.and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
    }
    Ok((memory, tasks))
}

/// Bytes in the private directories: they share one file system.
fn stored() -> u64 {
    let used = |stat: rustix::fs::StatVfs| (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
    // A boundary without private directories stores nothing in them.
    rustix::fs::statvfs(PRIVATE).map_or(0, used)
}

/// Whether less than a page's worth is left.
fn full(directory: &'static str) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|stat| stat.f_bfree == 0 || stat.f_ffree == 0)
}
