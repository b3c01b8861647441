//! Slurm by its own commands (sbatch(1), squeue(1), scancel(1)).
//!
//! No word of a job is secret: Slurm keeps scripts and environments in its state directory and in the nodes' spool directories,
//! and shows names and comments to every user of the cluster. Jobs of other users are never looked at, whatever their names are.

mod script;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_host::Refusal;
use pinfold_host::directories::Places;
use pinfold_host::launcher::{Bounds, HostProgram, Launcher};

use crate::plain;
use crate::scheduler::{Job, JobId, JobName, JobRequest, JobState, Scheduler, SchedulerError};

use script::script;

/// How long a command of Slurm's may take. Its clients give up after 10 s (`MessageTimeout`, slurm.conf(5)).
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that a command may print, in bytes: tens of thousands of jobs.
const MOST: usize = 16 << 20;
/// How much of what a job printed is shown, in bytes.
const SHOWN: u64 = 2_000;
/// The time after its longest that a job gets to end its sandbox and report.
const SPARE: Duration = Duration::from_secs(120);
/// What sbatch says of a job that no repetition helps.
const REFUSALS: [&str; 12] = [
    "not available",
    "can not be satisfied",
    "invalid partition",
    "invalid account",
    "invalid qos",
    "invalid time limit",
    "time limit is invalid",
    "invalid generic resource",
    "invalid feature",
    "more processors requested",
    "job violates",
    "unrecognized option",
];
/// What commands say if the controller does not take their credentials.
const OTHER_KEY: [&str; 3] = ["zero bytes were transmitted", "authentication", "munge"];
/// Reasons for which a job never begins by itself.
const STUCK: [&str; 4] =
    ["BadConstraints", "DependencyNeverSatisfied", "launch failed requeued held", "JobHeldAdmin"];

/// Slurm.
#[derive(Debug, Clone)]
pub struct Slurm {
    submit: HostProgram,
    list: HostProgram,
    cancel: HostProgram,
    /// The user's own options.
    options: Vec<String>,
    /// Where jobs print to.
    outputs: PathBuf,
    user: String,
}

impl Slurm {
    /// Finds Slurm's commands. Jobs print to files below `directory`.
    ///
    /// # Errors
    /// Returns a refusal if a command is missing, or if the directory cannot be made.
    pub fn find(
        options: &[String],
        directory: &Path,
        launcher: &Launcher,
    ) -> Result<Self, Refusal> {
        let program = |name: &str| {
            launcher.find(name, &[]).map_err(|missing| {
                let hint =
                    "install Slurm's client (package slurm-client), or work on a node that has it";
                Refusal::new(format!("no {name} can be used"))
                    .because(missing)
                    .with_hint(hint.to_owned())
            })
        };
        let outputs = directory.join("jobs");
        Places::make_private(&outputs)
            .map_err(|error| Refusal::new("the directory of the cluster").because(error))?;
        Ok(Self {
            submit: program("sbatch")?,
            list: program("squeue")?,
            cancel: program("scancel")?,
            options: options.to_vec(),
            outputs,
            user: rustix::process::getuid().as_raw().to_string(),
        })
    }

    fn output_of(&self, job: &JobName) -> PathBuf {
        self.outputs.join(format!("{job}-{}.out", job.run))
    }

    /// Runs one of the commands, and returns what it printed.
    fn run(
        &self,
        program: &HostProgram,
        arguments: Vec<OsString>,
        input: Option<&[u8]>,
    ) -> Result<String, SchedulerError> {
        let path = program.path().as_os_str().to_owned();
        let what = program.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let argv = [vec![path], arguments].concat();
        let bounds = Bounds { patience: PATIENCE, most: MOST };
        let ran = program.launcher().run_bounded(
            argv,
            &[("LC_ALL", "C")],
            &["SLURM_CONF"],
            input,
            bounds,
        );
        let output =
            ran.map_err(|error| SchedulerError::Unavailable(format!("{what}: {error}")))?;
        // scancel fails without a word if there is nothing to cancel.
        if output.code == Some(0) || output.code.is_some() && output.stderr.is_empty() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = plain(&String::from_utf8_lossy(&output.stderr));
        let mut message = format!("{what}: {said}");
        let said = said.to_lowercase();
        if OTHER_KEY.iter().any(|words| said.contains(words)) {
            message += "; munge may have another key than the controller";
        }
        if REFUSALS.iter().any(|refusal| said.contains(refusal)) {
            return Err(SchedulerError::Refused(message));
        }
        Err(SchedulerError::Unavailable(message))
    }

    /// Lists this user's jobs with these columns (`--format`, squeue(1)). The last column may hold anything.
    fn listed(&self, columns: &str, more: Vec<OsString>) -> Result<Vec<String>, SchedulerError> {
        let user = format!("--user={}", self.user);
        let mut arguments: Vec<OsString> =
            ["--noheader", "--states=all", &user, columns].map(Into::into).into();
        arguments.extend(more);
        let printed = self.run(&self.list, arguments, None)?;
        Ok(printed.lines().map(str::to_owned).collect())
    }
}

impl Scheduler for Slurm {
    fn name(&self) -> &'static str {
        "Slurm"
    }

    fn submit(&self, request: &JobRequest) -> Result<JobId, SchedulerError> {
        let text = script(request)?;
        let mut output = OsString::from("--output=");
        output.push(self.output_of(&request.name));
        let minutes = (request.longest + SPARE).as_secs().div_ceil(60);
        let mut arguments: Vec<OsString> = self.options.iter().map(Into::into).collect();
        arguments.extend(
            [
                "--parsable".to_owned(),
                "--no-requeue".to_owned(),
                "--chdir=/".to_owned(),
                format!("--job-name={}", request.name),
                format!("--comment={}", request.name.run),
                format!("--time={minutes}"),
            ]
            .map(OsString::from),
        );
        let cpus = request.cpus.map(|cpus| cpus.thousandths().div_ceil(1000));
        arguments.extend(cpus.map(|cpus| format!("--cpus-per-task={cpus}").into()));
        let memory = request.memory.map(|memory| memory.bytes().div_ceil(1 << 20));
        arguments.extend(memory.map(|memory| format!("--mem={memory}M").into()));
        arguments.push(output);
        let printed = self.run(&self.submit, arguments, Some(text.as_bytes()))?;
        // `--parsable`: the id, and the cluster's name after a semicolon if there are several.
        let id = printed.trim().split(';').next().unwrap_or_default();
        if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(JobId(id.to_owned()));
        }
        Err(SchedulerError::Unavailable(format!("sbatch answered {:?}", plain(&printed))))
    }

    fn find(&self, job: &JobName) -> Result<Vec<JobId>, SchedulerError> {
        let name = format!("--name={job}");
        let lines = self.listed("--format=%i|%k", vec![name.into()])?;
        let run = job.run.to_string();
        let of_run = lines.iter().filter_map(|line| line.split_once('|'));
        let of_run = of_run.filter(|(_, comment)| *comment == run);
        Ok(of_run.map(|(id, _)| JobId(id.to_owned())).collect())
    }

    fn observe(&self, jobs: &[Job]) -> Result<Vec<JobState>, SchedulerError> {
        let lines = self.listed("--format=%i|%T|%k|%r", Vec::new())?;
        Ok(states_of(&lines, jobs))
    }

    fn cancel(&self, job: &Job) -> Result<(), SchedulerError> {
        let Job { name, id } = job;
        // The id may have been written by others.
        if !id.0.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SchedulerError::Unavailable(format!("{:?} is no job", plain(&id.0))));
        }
        let (user, name) = (format!("--user={}", self.user), format!("--name={name}"));
        let arguments = ["--quiet", &user, &name, &id.0].map(OsString::from).into();
        self.run(&self.cancel, arguments, None).map(drop)
    }

    fn output(&self, job: &JobName) -> String {
        let end = end_of(&self.output_of(job)).unwrap_or_default();
        plain(&String::from_utf8_lossy(&end))
    }

    fn no_output(&self) -> &'static str {
        "nodes have to see the `directory` of cluster.toml, by default pinfold's cache"
    }

    fn clean_up(&self, job: &JobName) {
        // One that is not there has been removed.
        let _ = fs::remove_file(self.output_of(job));
    }
}

/// Returns the last bytes of a file, however long it is.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
    let mut end = Vec::new();
    file.take(SHOWN).read_to_end(&mut end)?;
    Ok(end)
}

/// Returns the states of jobs by lines of squeue(1): id, state, comment and reason.
fn states_of(lines: &[String], jobs: &[Job]) -> Vec<JobState> {
    let mut states = HashMap::new();
    for line in lines {
        let columns: Vec<&str> = line.splitn(4, '|').collect();
        if let [id, state, run, reason] = columns[..] {
            states.insert((id, run), state_of(state, reason));
        }
    }
    let of = |job: &Job| {
        let run = job.name.run.to_string();
        states.get(&(job.id.0.as_str(), run.as_str())).cloned().unwrap_or(JobState::Unknown)
    };
    jobs.iter().map(of).collect()
}

/// Returns the state of a job by Slurm's word for it (squeue(1), "JOB STATE CODES"). A word that is not known here is that of a
/// job that may run: its lease decides.
fn state_of(state: &str, reason: &str) -> JobState {
    match state {
        "PENDING" if STUCK.contains(&reason) => JobState::Ended(format!("{state}, {reason}")),
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED"
        | "RESV_DEL_HOLD" => JobState::Waiting,
        "COMPLETED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY"
        | "PREEMPTED" | "BOOT_FAIL" | "DEADLINE" | "REVOKED" | "SPECIAL_EXIT" => match reason {
            "" | "None" => JobState::Ended(state.to_owned()),
            reason => JobState::Ended(format!("{state}, {}", plain(reason))),
        },
        _ => JobState::Running,
    }
}

/// Quotes a word for a shell (POSIX.1-2017, Shell Command Language, 2.2.2).
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests;
