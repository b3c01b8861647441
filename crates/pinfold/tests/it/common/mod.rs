//! What the tests share: who runs, where, and the program itself.

mod person;
mod podman;
mod stage;
pub(crate) mod tmux;
pub(crate) mod tracer;

pub(crate) use person::{Person, people};
pub(crate) use podman::end_podman;
pub(crate) use stage::Stage;

use std::fs;
use std::path::Path;

use pinfold_boundary::container::Engine;

/// Says why a test does nothing.
pub(crate) fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

/// Whether a program of the system is there, where the inside has it too.
pub(crate) fn installed(name: &str) -> bool {
    ["/usr/bin", "/bin"].iter().any(|directory| Path::new(directory).join(name).exists())
}

/// The container engine behind which runs of pinfold are tried, if they are; one that is not is
/// tried behind the embedded boundary.
pub(crate) fn engine() -> Option<String> {
    std::env::var("PINFOLD_TEST_ENGINE").ok()
}

/// Whether a container engine is there; administrators' directories are looked at as well, and their own.
pub(crate) fn has_engine(name: &str) -> bool {
    let directories = ["/usr/sbin", "/usr/local/bin"];
    installed(name) || directories.iter().any(|directory| Path::new(directory).join(name).exists())
}

/// How the boundary of such runs is called.
pub(crate) fn boundary() -> String {
    match engine().as_deref() {
        None => "namespace".to_owned(),
        Some("external") => "external".to_owned(),
        Some(engine) => format!("container ({engine})"),
    }
}

/// `pinfold run` of such runs, as a line of shell begins.
pub(crate) fn run_line() -> String {
    let options = match engine().as_deref() {
        None => String::new(),
        Some("external") => " --boundary external".to_owned(),
        Some(engine) => format!(" --engine {engine}"),
    };
    format!("{} run{options}", env!("CARGO_BIN_EXE_pinfold"))
}

/// Whether such runs are behind gVisor.
pub(crate) fn behind_gvisor() -> bool {
    engine().is_some_and(|engine| engine == Engine::Runsc.name())
}

/// The same, where a test cannot be made for this reason; says so.
pub(crate) fn not_behind_gvisor(test: &str, reason: &str) -> bool {
    if behind_gvisor() {
        skip(test, reason);
    }
    behind_gvisor()
}

/// Why a test that looks for processes of the inside's on the host cannot be made behind gVisor.
pub(crate) const OWN_PROCESSES: &str = "processes in gVisor are none of the host's";
/// The same of a test with ls(1).
pub(crate) const LS_FAILS: &str = "gVisor of 2022 answers the statx(2) of ls with EINVAL";
/// The same of a test that moves directories of a view.
pub(crate) const NO_MOVES: &str =
    "gVisor has no seccomp_unotify(2), by which init moves directories";

/// Processes of the host whose command line holds this; arguments are parted by NUL.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes())
    };
    pids.filter(holds).collect()
}
