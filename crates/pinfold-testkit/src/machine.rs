//! The machine that the tests run on: installed programs, processes and the boundary under test.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::executable;

/// The name of gVisor's `runsc` as an engine of pinfold.
const GVISOR: &str = "runsc";

/// The name of the boundary `vm`, also among engines.
pub(crate) const VM: &str = "vm";

/// Prints that a test is skipped, and why.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

/// Returns whether a program is installed in a directory that the sandbox sees, too.
pub fn installed(name: &str) -> bool {
    ["/usr/bin", "/bin"].iter().any(|directory| Path::new(directory).join(name).exists())
}

/// The name, among engines, of the embedded boundary with nested sandboxes.
pub(crate) const NESTED: &str = "nested";

/// Returns the container engine under test (`PINFOLD_TEST_ENGINE`), or `external`, `systemd` or `vm` for these
/// boundaries, or `nested`. Without one, the embedded boundary is tested.
pub fn engine() -> Option<String> {
    std::env::var("PINFOLD_TEST_ENGINE").ok()
}

/// Returns whether a container engine is installed. Engines are also installed outside of the
/// directories that [`installed`] looks in.
pub fn has_engine(name: &str) -> bool {
    let directories = ["/usr/sbin", "/usr/local/bin"];
    installed(name) || directories.iter().any(|directory| Path::new(directory).join(name).exists())
}

/// Returns the settings that say what machines are made of: directories with packages of QEMU (`PINFOLD_TEST_QEMU`) and of
/// a kernel (`PINFOLD_TEST_KERNEL`). Without them, those of the system are used. The processor is emulated unless
/// `PINFOLD_TEST_ACCELERATOR` says something else.
pub fn machine_settings() -> String {
    let line = |key: &str, variable: &str| {
        let directory = std::env::var(variable).ok().filter(|directory| directory != "/")?;
        Some(format!("{key} = \"{directory}\"\n"))
    };
    let lines = [line("qemu", "PINFOLD_TEST_QEMU"), line("kernel", "PINFOLD_TEST_KERNEL")];
    let accelerator = std::env::var("PINFOLD_TEST_ACCELERATOR").unwrap_or("tcg".to_owned());
    let lines = lines.into_iter().flatten();
    lines.chain([format!("accelerator = \"{accelerator}\"\n")]).collect()
}

/// Returns the name by which pinfold reports the boundary under test.
pub fn boundary() -> String {
    match engine().as_deref() {
        None | Some(NESTED) => "namespace".to_owned(),
        Some(boundary @ ("external" | "systemd" | "vm")) => boundary.to_owned(),
        Some(engine) => format!("container ({engine})"),
    }
}

/// Returns the start of a shell line: `pinfold run` with the options for the boundary under test.
pub fn run_line() -> String {
    let options = match engine().as_deref() {
        None => String::new(),
        Some(NESTED) => " --nested".to_owned(),
        Some(boundary @ ("external" | "systemd" | "vm")) => format!(" --boundary {boundary}"),
        Some(engine) => format!(" --engine {engine}"),
    };
    format!("{} run{options}", executable())
}

/// Returns whether the boundary under test is gVisor.
pub fn behind_gvisor() -> bool {
    engine().is_some_and(|engine| engine == GVISOR)
}

/// Returns whether the boundary under test is gVisor, and prints why the test is skipped if so.
pub fn not_behind_gvisor(test: &str, reason: &str) -> bool {
    if behind_gvisor() {
        skip(test, reason);
    }
    behind_gvisor()
}

/// Returns whether the boundary under test is a machine, whose processor is emulated.
pub fn behind_vm() -> bool {
    engine().is_some_and(|engine| engine == VM)
}

/// Returns how long to wait for what usually takes less than this: programs in a machine take many times as long.
pub fn patience(usual: Duration) -> Duration {
    if behind_vm() { usual * 6 } else { usual }
}

/// Why gVisor skips a test that looks for the sandbox's processes on the host.
pub const OWN_PROCESSES: &str = "processes in gVisor are none of the host's";
/// Why gVisor skips a test that uses ls(1).
pub const LS_FAILS: &str = "gVisor of 2022 answers the statx(2) of ls with EINVAL";
/// Why gVisor skips a test that moves directories in a view.
pub const NO_MOVES: &str = "gVisor has no seccomp_unotify(2), by which init moves directories";

/// Returns the host's processes whose command line contains a text. NUL separates arguments.
pub fn processes_with(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes())
    };
    pids.filter(holds).collect()
}
