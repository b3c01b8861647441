//! The engine of this machine: a process for each attempt.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

use pinfold_host::directories::Places;
use pinfold_host::launcher::{Launcher, start_worker};
use pinfold_host::{Host, Refusal};
use pinfold_policy::settings::FlagLimits;
use pinfold_tasks::{
    AttemptQueue, Claimed, Completion, Ending, Engine, Failure, Holder, Stop, TaskId, TaskSpec,
    Usage, code, to_stored,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::admission::Admission;
use crate::inquiries::InquirySocket;
use crate::job::{Job, Line, Output, memory_of};
use crate::repository::{Existing, Published, Repository};
use crate::unpublished::Unpublished;
use crate::work::Branches;

/// The hidden command that carries out an attempt: it reads a [`Job`] and writes [`Line`]s.
pub const COMMAND: &str = "attempt";
/// How long an attempt may take to end after it was asked to. It gives its sandbox 30 s.
const GRACE: Duration = Duration::from_secs(45);
/// The longest line that an attempt says, in bytes.
const LONGEST: usize = 1 << 20;

/// Carries out attempts on this machine.
pub struct LocalEngine {
    places: Places,
    launcher: Launcher,
    hidden: &'static [&'static str],
    /// What tasks may ask for; everything if they are the user's own.
    admission: Option<Admission>,
    /// What the engine has of the machine.
    share: Option<FlagLimits>,
    /// Where results are noted that are not published yet.
    unpublished: Option<Unpublished>,
}

/// Returns the file that an attempt is logged in.
#[must_use]
pub fn log_of(places: &Places, task: TaskId, attempt: u32) -> PathBuf {
    places.state.join("tasks").join("logs").join(format!("{task}-{attempt}.log"))
}

/// Returns the file that landings of a task are logged in.
#[must_use]
pub fn landing_log_of(places: &Places, task: TaskId) -> PathBuf {
    places.state.join("tasks").join("logs").join(format!("{task}-landing.log"))
}

impl LocalEngine {
    /// Returns the engine of a user. Attempts do not get the variables in `hidden`, which log in at the queue: the user's
    /// settings may pass variables on to sandboxes.
    #[must_use]
    pub fn new(places: Places, launcher: Launcher, hidden: &'static [&'static str]) -> Self {
        Self { places, launcher, hidden, admission: None, share: None, unpublished: None }
    }

    /// Returns the engine for tasks that others may have written and that these rules admit; none for the user's own.
    #[must_use]
    pub fn admitting(self, admission: Option<Admission>) -> Self {
        Self { admission, ..self }
    }

    /// Returns the engine with a part of the machine. No attempt gets more.
    #[must_use]
    pub fn with_share(self, share: FlagLimits) -> Self {
        Self { share: Some(share), ..self }
    }

    /// Returns the engine for a queue whose results it also publishes after a worker has died ([`Self::publish_left`]).
    #[must_use]
    pub fn noting_results(self) -> Self {
        Self { unpublished: Some(Unpublished::of(&self.places)), ..self }
    }

    /// Returns what a task asks for, if it may.
    fn admit(&self, spec: &TaskSpec) -> Result<TaskSpec, Refusal> {
        let mut admitted = match &self.admission {
            Some(admission) => admission.admit(spec)?,
            None => spec.clone(),
        };
        if let Some(share) = &self.share {
            admitted.policy.get_or_insert_default().cap(*share);
        }
        Ok(admitted)
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    fn host(&self) -> Host<'_> {
        Host { places: &self.places, launcher: &self.launcher }
    }

    /// Starts the process of an attempt with these variables, and gives it its job.
    fn start(
        &self,
        claimed: &Claimed,
        spec: &TaskSpec,
        variables: &[(&str, &str)],
        socket: Option<&Path>,
    ) -> io::Result<(Child, ChildStdout)> {
        let log = log_of(&self.places, claimed.holder.task, claimed.holder.attempt);
        log.parent().map_or(Ok(()), Places::make_private)?;
        let job = Job {
            task: claimed.holder.task.to_string(),
            attempt: claimed.holder.attempt,
            spec: to_stored(spec),
            log,
            memory: memory_of(claimed, socket),
        };
        let directory = spec.repository.as_deref().unwrap_or(Path::new("/"));
        let mut child = start_worker(&[COMMAND.into()], directory, self.hidden, variables)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(&[serde_json::to_vec(&job)?, b"\n".to_vec()].concat())?;
        Ok((child, output))
    }

    /// Moves the branch of a task to the accepted result of an attempt, if that changed something. Repeating it changes
    /// nothing.
    ///
    /// # Errors
    /// Returns why the branch stays where it is.
    pub fn publish(
        &self,
        task: TaskId,
        attempt: u32,
        spec: &TaskSpec,
        completion: &Completion,
    ) -> Result<(), Refusal> {
        self.try_to_publish(task, attempt, spec, completion)?.moved()
    }

    /// Does the same, and distinguishes a branch that stays from an error, which can be repeated. The result may be a row
    /// that others have written: no branch moves or goes but those of the attempt.
    pub(crate) fn try_to_publish(
        &self,
        task: TaskId,
        attempt: u32,
        spec: &TaskSpec,
        completion: &Completion,
    ) -> Result<Published, Refusal> {
        let output: Output = serde_json::from_str(&completion.output).map_err(Refusal::of)?;
        if !output.is_changed() {
            return Ok(Published::Moved);
        }
        let spec = self.admit(spec)?;
        let branches = Branches::of(&task.to_string(), attempt, &spec);
        let branches = branches.map_err(Refusal::of)?;
        let (result, work) = (branches.result.as_str(), branches.work.as_str());
        if output.branch != result || output.attempt_branch != work {
            let what = format!("branch {result} stays where it is, as the result names others");
            return Ok(Published::Kept(format!("{what}; the result is on branch {work}")));
        }
        let directory = spec.repository.as_deref().ok_or("the task has no repository")?;
        let repository = Repository::of(directory, self.host())?;
        let existing = if spec.branch.is_some() { Existing::Advances } else { Existing::Stays };
        repository.publish(&branches, &output.commit, existing)
    }

    /// Carries out an attempt as [`Engine::carry_out`] does, with these variables in its process.
    pub fn carry_out_with(
        &self,
        claimed: &Claimed,
        stop: &Stop,
        queue: &dyn AttemptQueue,
        variables: &[(&str, &str)],
    ) -> Ending {
        let opened = InquirySocket::open(&self.places, &claimed.holder)
            .and_then(|socket| Ok((socket, Stop::new()?)));
        let (socket, done) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                queue.progress(&format!("the agent has no tools for its task: {error}"));
                return self.supervise(claimed, stop, queue, variables, None);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| socket.serve(queue, &done));
            let ending = self.supervise(claimed, stop, queue, variables, Some(socket.path()));
            done.set();
            ending
        })
    }

    /// Starts the process of an attempt and listens to it to its end.
    fn supervise(
        &self,
        claimed: &Claimed,
        stop: &Stop,
        queue: &dyn AttemptQueue,
        variables: &[(&str, &str)],
        socket: Option<&Path>,
    ) -> Ending {
        let failed = |error: io::Error| {
            let failure =
                Failure::new("executor_threw", format!("cannot start the attempt: {error}"));
            Ending::Failed(Failure { retryable: Some(false), ..failure })
        };
        let spec = match self.admit(&claimed.spec) {
            Ok(spec) => spec,
            Err(refusal) => return Ending::Failed(not_allowed(&refusal)),
        };
        let (mut child, output) = match self.start(claimed, &spec, variables, socket) {
            Ok(started) => started,
            Err(error) => return failed(error),
        };
        let last = Self::listen(&output, &child, stop, queue);
        // One that said something wrong may still run.
        if last.is_err() {
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        }
        let status = child.wait();
        match (last, status) {
            (Ok(Some(Line::Completed { output, usage })), _) => completed(&output, usage),
            (Ok(Some(Line::Failed(failure))), _) => Ending::Failed(failure),
            (Ok(Some(Line::Stopped)), _) => Ending::Stopped,
            _ if stop.is_set() => Ending::Stopped,
            (Ok(_), Ok(status)) => {
                let message =
                    format!("the process of the attempt ended without a result ({status})");
                Ending::Failed(Failure {
                    retryable: Some(true),
                    ..Failure::new("attempt_lost", message)
                })
            }
            (Err(error), _) | (_, Err(error)) => failed(error),
        }
    }

    /// Listens to the process to its end. Returns its last line, if it said one.
    fn listen(
        output: &ChildStdout,
        child: &Child,
        stop: &Stop,
        queue: &dyn AttemptQueue,
    ) -> io::Result<Option<Line>> {
        let mut lines = Lines::default();
        let mut deadline: Option<Instant> = None;
        loop {
            let mut wanted = vec![PollFd::new(output, PollFlags::IN)];
            if deadline.is_none() {
                wanted.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
            }
            let left = deadline
                .map(|deadline| deadline.saturating_duration_since(Instant::now()))
                .and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut wanted, left.as_ref()) {
                Ok(0) => {
                    let _ = kill_process(Pid::from_child(child), Signal::KILL);
                    deadline = Some(Instant::now() + GRACE);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if wanted.get(1).is_some_and(|stop| !stop.revents().is_empty()) {
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
                deadline = Some(Instant::now() + GRACE);
            }
            if !wanted[0].revents().is_empty() && !lines.read(output, queue)? {
                return Ok(lines.last);
            }
        }
    }
}

impl Engine for LocalEngine {
    fn carry_out(&self, claimed: &Claimed, stop: &Stop, queue: &dyn AttemptQueue) -> Ending {
        let ending = self.carry_out_with(claimed, stop, queue, &[]);
        if matches!(ending, Ending::Completed(_))
            && let Some(Err(error)) = self.unpublished.as_ref().map(|notes| notes.note(claimed))
        {
            // The result is there, and only a kill in the next moment would miss the note.
            queue.progress(&format!("a note that the result is not published: {error}"));
        }
        ending
    }

    fn accepted(&self, claimed: &Claimed, completion: &Completion) -> Result<(), Refusal> {
        let Holder { task, attempt, .. } = claimed.holder;
        let published = self.try_to_publish(task, attempt, &claimed.spec, completion)?;
        if let Some(notes) = &self.unpublished {
            notes.forget(task, attempt);
        }
        published.moved()
    }
}

/// Returns the failure of a task that asks for what it may not have here.
fn not_allowed(refusal: &Refusal) -> Failure {
    let hint = refusal.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let failure = Failure::new(code::NOT_ALLOWED, format!("{refusal}{hint}"));
    Failure { retryable: Some(false), ..failure }
}

fn completed(output: &Output, usage: Usage) -> Ending {
    match serde_json::to_string(output) {
        Ok(output) => Ending::Completed(Completion { output, usage }),
        Err(error) => Ending::Failed(Failure::new("executor_threw", error.to_string())),
    }
}

/// What a process says, line by line.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    last: Option<Line>,
}

impl Lines {
    /// Reads what is there. Returns whether more may come.
    fn read(&mut self, output: &ChildStdout, queue: &dyn AttemptQueue) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let count = match rustix::io::read(output, &mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        };
        self.bytes.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            match serde_json::from_slice(&line)? {
                Line::Progress(text) => queue.progress(&text),
                last => self.last = Some(last),
            }
        }
        if self.bytes.len() > LONGEST {
            return Err(io::Error::other("a line of the attempt is too long"));
        }
        Ok(true)
    }
}
