use super::{cpuinfo, group_files, meminfo, version_1_files};
use crate::plan::{CpuShare, ResourceLimits};

#[test]
fn meminfo_has_the_limit_as_the_machines_memory() {
    let kernels = "MemTotal:       16384000 kB\nMemAvailable:    1000000 kB\nCached:  77 kB\nSwapTotal: 5 kB\n\
                   HugePages_Total:       3\nHugepagesize:       2048 kB\n";
    let shown = meminfo(kernels, 2 << 30);
    let lines: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["MemTotal:", "2097152", "kB"]);
    assert_eq!(lines[1], ["MemAvailable:", "1000000", "kB"]);
    assert_eq!(lines[2], ["Cached:", "0", "kB"]);
    assert_eq!(lines[3], ["SwapTotal:", "0", "kB"]);
    assert_eq!(lines[4], ["HugePages_Total:", "0"]);
    assert_eq!(lines[5], ["Hugepagesize:", "2048", "kB"]);
    let idle = meminfo("MemFree: 16384000 kB\n", 2 << 30);
    assert_eq!(idle.split_whitespace().nth(1), Some("2088960"), "less than all is free");
    assert_eq!(meminfo("MemTotal: 4 kB\n", 1 << 40).split_whitespace().nth(1), Some("4"));
}

#[test]
fn group_files_say_what_is_limited_and_what_is_not() {
    let share = CpuShare { thousandths: 1500, required: true };
    let file = |limits: &ResourceLimits, name: &str| {
        let mut files = group_files(limits).into_iter().chain(version_1_files(limits));
        files.find(|(known, _)| *known == name).map(|(_, content)| content)
    };
    let cpus = ResourceLimits { cpus: Some(share), ..ResourceLimits::default() };
    assert_eq!(file(&cpus, "cpu.max").as_deref(), Some("150000 100000\n"));
    assert_eq!(file(&cpus, "memory.max").as_deref(), Some("max\n"));
    let memory = ResourceLimits { memory: Some(1 << 30), ..ResourceLimits::default() };
    assert_eq!(file(&memory, "cpu.max").as_deref(), Some("max 100000\n"));
    assert_eq!(file(&memory, "memory.max").as_deref(), Some("1073741824\n"));
    assert_eq!(file(&memory, "memory/memory.limit_in_bytes").as_deref(), Some("1073741824\n"));
    assert_eq!(file(&memory, "cpu/cpu.cfs_quota_us").as_deref(), Some("-1\n"));
}

#[test]
fn cpuinfo_has_as_many_cpus_as_asked_for() {
    let kernels = "processor: 0\nflags: a\n\nprocessor: 1\nflags: a\n\n";
    assert_eq!(cpuinfo(kernels, 1), "processor: 0\nflags: a\n\n");
    assert_eq!(cpuinfo(kernels, 9), kernels);
}
