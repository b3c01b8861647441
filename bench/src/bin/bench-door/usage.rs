//! What a process uses, as proc(5) says.

use std::fs;

use super::Failed;

/// Seconds of processor time, of all threads that live.
pub(super) fn processor(pid: u32) -> Result<f64, Failed> {
    let mut sum = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let nanoseconds: f64 = text.split(' ').next().unwrap_or_default().parse()?;
        sum += nanoseconds / 1e9;
    }
    Ok(sum)
}

/// Returns kibibytes of memory that are its own, file pages left out.
pub(super) fn memory(pid: u32) -> Result<u64, Failed> {
    field(&fs::read_to_string(format!("/proc/{pid}/status"))?, "RssAnon:")
}

/// Returns the number of open descriptors.
pub(super) fn descriptors(pid: u32) -> Result<usize, Failed> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Returns, for the whole machine, kibibytes of the kernel's own objects, and TCP sockets.
pub(super) fn kernel() -> Result<(u64, u64), Failed> {
    let slab = field(&fs::read_to_string("/proc/meminfo")?, "Slab:")?;
    let sockets = fs::read_to_string("/proc/net/sockstat")?;
    let line = sockets.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    Ok((slab, field(&line.replace("alloc ", "\nalloc: "), "alloc:")?))
}

fn field(text: &str, name: &str) -> Result<u64, Failed> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or(name.to_owned())?;
    Ok(value.parse()?)
}
