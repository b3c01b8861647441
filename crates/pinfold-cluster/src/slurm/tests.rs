use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pinfold_tasks::TaskId;

use super::{SHOWN, end_of, script, state_of, states_of};
use crate::scheduler::{Job, JobId, JobName, JobRequest, JobState, RunId};

fn request(command: &[&str], state: &Path) -> JobRequest {
    let run = "0011223344556677".parse::<RunId>().unwrap();
    JobRequest {
        name: JobName { task: TaskId::from_random([7; 16]), attempt: 2, run },
        command: command.iter().map(OsString::from).collect(),
        environment: vec![("HOME", "/home/o'neill $(id)".into())],
        state: state.to_owned(),
        cpus: None,
        memory: None,
        longest: Duration::from_secs(60),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test")]
fn script_passes_on_its_own_words_and_variables_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    let command = ["/bin/sh", "-c", "env; printf '%s\\n' \"$@\"", "sh", "a b", "$(touch x)", "'"];
    std::fs::write(&file, script(&request(&command, directory.path())).unwrap()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.arg(&file).current_dir(directory.path()).env("SECRET", "c4n4ry");
    shell.env("SLURM_JOB_ID", "17").env("SLURM_MEM_PER_NODE", "500");
    let output = shell.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("HOME=/home/o'neill $(id)\n"), "{printed}");
    assert!(printed.ends_with("a b\n$(touch x)\n'\n--job=17\n--memory=500M\n"), "{printed}");
    assert!(!printed.contains("c4n4ry") && !directory.path().join("x").exists(), "{printed}");
    assert!(printed.contains(&format!("XDG_STATE_HOME={}/", directory.path().display())));
}

#[test]
fn word_with_a_null_byte_is_refused() {
    assert!(script(&request(&["a\0b"], &PathBuf::from("/state"))).is_err());
}

#[test]
fn state_that_is_not_known_is_that_of_a_job_that_may_run() {
    assert_eq!(state_of("SOMETHING_NEW", ""), JobState::Running);
    assert_eq!(state_of("PENDING", "Priority"), JobState::Waiting);
    assert_eq!(state_of("NODE_FAIL", "None"), JobState::Ended("NODE_FAIL".to_owned()));
    assert!(matches!(state_of("PENDING", "BadConstraints"), JobState::Ended(_)));
}

/// A controller that lost its state gives ids again.
#[test]
fn job_with_the_id_of_another_run_is_another_job() {
    let name = request(&[], Path::new("/")).name;
    let job = Job { name, id: JobId("7".to_owned()) };
    let state = |line: &str| states_of(&[line.to_owned()], std::slice::from_ref(&job)).remove(0);
    assert_eq!(state("7|RUNNING|0011223344556677|None"), JobState::Running);
    for other in
        ["7|RUNNING|7766554433221100|None", "7|COMPLETED|(null)|None", "8|RUNNING|x|a|b", ""]
    {
        assert_eq!(state(other), JobState::Unknown, "{other}");
    }
}

/// Comments and reasons are free text: a column or a line of it is never taken for another job's.
#[test]
fn hostile_line_of_squeue_says_nothing_of_another_job() {
    let name = request(&[], Path::new("/")).name;
    let job = Job { name, id: JobId("7".to_owned()) };
    let run = "0011223344556677";
    for hostile in [
        format!("8|COMPLETED|x|7|COMPLETED|{run}|None"),
        format!("8|RUNNING|\u{1b}[2J7|FAILED|{run}|None"),
        format!("|7|COMPLETED|{run}"),
        format!("7|COMPLETED| {run}|None"),
        format!("7|COMPLETED|{run}x|None"),
        "|".repeat(100_000),
    ] {
        let lines = [hostile.clone(), format!("7|RUNNING|{run}|None")];
        assert_eq!(
            states_of(&lines, std::slice::from_ref(&job)),
            [JobState::Running],
            "{hostile:.60}"
        );
    }
    let lines = [format!("7|NODE_FAIL|{run}|\u{1b}]0;x\u{7}\u{9b}2J")];
    let JobState::Ended(why) = states_of(&lines, &[job]).remove(0) else { panic!() };
    assert!(!why.contains(char::is_control), "{why:?}");
}

#[test]
fn only_the_end_of_what_a_job_printed_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let file = std::fs::File::create(&path).unwrap();
    // Of such a length that it could not be read into memory.
    file.set_len(1 << 42).unwrap();
    assert_eq!(end_of(&path).unwrap().len() as u64, SHOWN);
    std::fs::write(&path, "short").unwrap();
    assert_eq!(end_of(&path).unwrap(), b"short");
}
