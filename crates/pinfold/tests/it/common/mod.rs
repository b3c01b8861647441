//! What the tests share: who runs, where, and the program itself.

mod person;
mod stage;
pub(crate) mod tmux;
pub(crate) mod tracer;

pub(crate) use person::{Person, people};
pub(crate) use stage::Stage;

use std::fs;
use std::path::Path;

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

/// Whether a container engine is there; administrators' directories are looked at as well.
pub(crate) fn has_engine(name: &str) -> bool {
    installed(name) || installed(&format!("/usr/sbin/{name}"))
}

/// How the boundary of such runs is called.
pub(crate) fn boundary() -> String {
    match engine().as_deref() {
        None => "namespace".to_owned(),
        Some("external") => "external".to_owned(),
        Some(engine) => format!("container ({engine})"),
    }
}

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
