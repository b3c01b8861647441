//! The script of a job.

use std::os::unix::ffi::OsStrExt as _;

use super::quoted;
use crate::scheduler::{JobRequest, SchedulerError};

/// What Slurm says of the node and its part of it (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"), as options of the command.
const ALLOCATION: &str =
    r#" --job="$SLURM_JOB_ID" ${SLURM_MEM_PER_NODE:+--memory="${SLURM_MEM_PER_NODE}M"}"#;

/// Returns the script of a job. It starts the command with no variables but those of the request, whatever sbatch, the node's
/// login or a prolog has set. Each node has a state directory of its own: it may lie in a home that all of them share.
///
/// # Errors
/// Returns an error for a null byte, which sbatch does not take.
pub(crate) fn script(request: &JobRequest) -> Result<String, SchedulerError> {
    let mut script = format!("#!/bin/sh\n# {}\nexec /usr/bin/env -i", request.name).into_bytes();
    for (name, value) in &request.environment {
        script.push(b' ');
        script.extend(name.as_bytes());
        script.push(b'=');
        script.extend(quoted(value.as_bytes()));
    }
    script.extend(b" XDG_STATE_HOME=");
    script.extend(quoted(request.state.as_os_str().as_bytes()));
    script.extend(b"/\"$(uname -n)\"");
    for word in &request.command {
        script.push(b' ');
        script.extend(quoted(word.as_bytes()));
    }
    script.extend(ALLOCATION.as_bytes());
    script.push(b'\n');
    match String::from_utf8(script) {
        Ok(script) if !script.contains('\0') => Ok(script),
        _ => Err(SchedulerError::Refused("a path of the job is not UTF-8".to_owned())),
    }
}
