//! The list for a container around the sandbox, as OCI engines read it.

use std::fmt::Write as _;

use super::table::{Row, TABLE, Verdict};

/// What init needs beyond what anything inside may ever do: what has its flags behind a pointer, where the
/// filter cannot see them, and to leave its keyring.
const OF_INIT: [&str; 3] = ["clone3", "keyctl", "openat2"];

/// Returns the system calls that a container has in which init makes the sandbox (config-linux.md of the
/// OCI runtime specification, as Docker and Podman read it too). The filter that init loads comes on
/// top.
pub fn profile() -> String {
    let is_needed = |row: &&Row| {
        !matches!(row.verdict, Verdict::Refuse | Verdict::Absent) || OF_INIT.contains(&row.name)
    };
    let mut names = String::new();
    for row in TABLE.iter().filter(is_needed) {
        let comma = if names.is_empty() { "" } else { "," };
        let _ = write!(names, "{comma}\"{}\"", row.name);
    }
    let architecture = if cfg!(target_arch = "aarch64") { "AARCH64" } else { "X86_64" };
    format!(
        "{{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"SCMP_ARCH_{architecture}\"],\
         \"syscalls\":[{{\"names\":[{names}],\"action\":\"SCMP_ACT_ALLOW\"}}]}}"
    )
}
