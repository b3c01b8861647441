//! Keeps what the guest remembers of files below what the host can hold open for it.
//!
//! Each inode that this kernel has cached of a served tree is a descriptor of the file server's. Without descriptors the
//! server opens nothing at all, and every program of the guest fails.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// How many inodes a guest may look up in a second. Emulated, it is a tenth of that.
const FASTEST: u64 = 100_000;
/// How often it looks at least and at most.
const MOST_OFTEN: Duration = Duration::from_millis(10);
const LEAST_OFTEN: Duration = Duration::from_secs(1);
/// Drops dentries and inodes that nothing uses (Documentation/admin-guide/sysctl/vm.rst, `drop_caches`).
const DROP: &[u8] = b"2";

/// Begins to have the kernel forget inodes in time, on a thread of its own, where the host can hold this many.
///
/// # Errors
/// Returns the error of opening the kernel's files or starting the thread.
pub fn keep_inodes_below(most: u64) -> io::Result<()> {
    let count = File::open("/proc/sys/fs/inode-nr")?;
    let drop = File::options().write(true).open("/proc/sys/vm/drop_caches")?;
    std::thread::Builder::new().stack_size(64 << 10).spawn(move || watch(most, &count, &drop))?;
    Ok(())
}

/// Ends only with the guest.
fn watch(most: u64, count: &File, drop: &File) {
    let threshold = most / 10 * 7;
    let mut least = 0;
    loop {
        let known = known(count).unwrap_or(least);
        least = least.min(known);
        // What is left after dropping is in use, or of file systems that are no tree's.
        if known > threshold.max(least + threshold / 2) {
            let _ = drop.write_at(DROP, 0);
            least = self::known(count).unwrap_or(known);
        }
        std::thread::sleep(pause(threshold.saturating_sub(known)));
    }
}

/// Returns how long it takes at least until so many more are known.
fn pause(left: u64) -> Duration {
    Duration::from_millis(left.saturating_mul(1000) / FASTEST).clamp(MOST_OFTEN, LEAST_OFTEN)
}

/// Returns how many inodes the kernel has (`inode-nr`, Documentation/admin-guide/sysctl/fs.rst).
fn known(count: &File) -> Option<u64> {
    let mut text = [0; 64];
    let length = count.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
