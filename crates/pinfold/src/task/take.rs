//! `pinfold task take`: tasks that a group's agents ask for.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use pinfold_attempt::first_prompt;
use pinfold_groups::{Found, Mailbox, MailboxError, Request, Schedule};
use pinfold_host::digest::name_of;
use pinfold_host::directories::Places;
use pinfold_host::sys;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{Attendance, FlagScalars, Flags, Trust};
use pinfold_repository::Repository;
use pinfold_session::prepare::SettingsFiles;
use pinfold_tasks::{Draft, Listing, QueueError, Status, StoreError, TaskId, TaskSpec, load_task};
use pinfold_terminal::notify;

use super::add::add_once;
use super::find::{all, short, spec_of};
use super::options::settle;
use crate::exit::Failure;
use crate::print::say;
use crate::spec_loop::is_asked_to_end;
use crate::task_queue::TaskQueue;

/// How often a mailbox is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How many errors are reported: a sandbox chooses the names in them.
const MOST_TROUBLES: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct TakeArgs {
    /// A task file that says all but what is to be done: agent, verify, limits; its brief comes before each request's
    #[arg(value_name = "TEMPLATE")]
    template: PathBuf,
    /// The group whose agents ask, by files in /workspace/ipc/tasks
    #[arg(long, value_name = "NAME")]
    group: String,
    /// Wait for further requests, until this is ended
    #[arg(long)]
    poll: bool,
    /// The most tasks of the group that have not ended; further requests wait
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    most: u16,
    /// The most schedules that its agents may have: tasks at a time, again and again, or as cron has it
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1_000))]
    schedules: u16,
}

/// A request, and the name of its file.
struct Asked<'a> {
    name: &'a OsStr,
    request: &'a Request,
}

/// What becomes of the file of a request.
#[derive(Clone, Copy)]
enum Afterwards {
    Remove,
    /// It is a schedule, which comes again.
    Leave,
}

/// Where requests become tasks.
struct Intake<'a> {
    args: &'a TakeArgs,
    queue: &'a TaskQueue,
    template: TaskSpec,
    root: PathBuf,
    folder: String,
    /// What of the directory could not be used, each once: a sandbox may do anything to it, and ends nobody's intake.
    troubles: RefCell<BTreeSet<String>>,
    /// The time up to which each schedule was looked at, by its digest.
    looked_at: RefCell<HashMap<String, u64>>,
}

pub(super) fn take(
    args: &TakeArgs,
    queue: &TaskQueue,
    places: &Places,
) -> Result<ExitCode, Failure> {
    let signals = sys::stop_events().map_err(Failure::new)?;
    let mut template = load_task(&args.template).map_err(Failure::from)?;
    template.group = Some(args.group.clone());
    settle(&mut template, places)?;
    let (root, folder) = place_of(&args.group, places)?;
    let (troubles, looked_at) = (RefCell::default(), RefCell::default());
    let intake = Intake { args, queue, template, root, folder, troubles, looked_at };
    loop {
        intake.sweep()?;
        if !args.poll || is_asked_to_end(&signals, LOOK) {
            return Ok(ExitCode::from(u8::from(!intake.troubles.borrow().is_empty())));
        }
    }
}

/// Returns the root of groups' directories, and what those of this one are called.
fn place_of(group: &str, places: &Places) -> Result<(PathBuf, String), Failure> {
    let scalars = FlagScalars { group: Some(group.to_owned()), ..FlagScalars::default() };
    let flags = Flags { scalars, ..Flags::default() };
    let (repository, trust) = (Repository::default(), Trust::default());
    let files = SettingsFiles::read(places).map_err(|error| Failure::from(error).plain())?;
    let settings = files
        .settings(flags, Attendance::Attended, &repository, trust)
        .map_err(|error| Failure::from(error).plain())?;
    match (settings.group_home, settings.group_files) {
        (Some(home), Some(files)) => Ok((home.root.value.as_path().to_owned(), files.folder)),
        _ => Err(Failure::new("groups have no directories")
            .hint(Some("name one as `root` of `[group_home]` in config.toml".to_owned()))),
    }
}

impl Intake<'_> {
    /// Takes what is there.
    fn sweep(&self) -> Result<(), Failure> {
        let mailbox = self.usable(Mailbox::open(&self.root, &self.folder)).flatten();
        let Some(mailbox) = mailbox else { return Ok(()) };
        // Schedules stay where they are, and must not hide what comes after them.
        let looked_at = usize::from(self.args.most) + usize::from(self.args.schedules);
        let names = self.usable(mailbox.names(looked_at + 1));
        let Some(names) = names.filter(|names| !names.is_empty()) else { return Ok(()) };
        let mut left = usize::from(self.args.most).saturating_sub(self.active()?);
        let mut schedules = Vec::new();
        for name in names {
            let Found { request, digest, written } = match mailbox.read(&name) {
                Ok(None) => continue,
                Ok(Some(found)) => found,
                Err(reason) => {
                    self.refuse(&mailbox, &name, &reason.to_string());
                    continue;
                }
            };
            let asked = Asked { name: &name, request: &request };
            let is_new = match &request.schedule {
                _ if left == 0 && request.schedule.is_none() => false,
                None => self.add(&mailbox, &asked, &digest, Afterwards::Remove)?,
                Some(_) if schedules.len() == usize::from(self.args.schedules) => {
                    let most = self.args.schedules;
                    self.refuse(&mailbox, &name, &format!("the group may have {most} schedules"));
                    false
                }
                Some(schedule) => {
                    schedules.push(digest.clone());
                    left > 0 && self.add_if_due(&mailbox, &asked, &digest, schedule, written)?
                }
            };
            left -= usize::from(is_new);
        }
        self.looked_at.borrow_mut().retain(|digest, _| schedules.contains(digest));
        Ok(())
    }

    /// Returns what a mailbox gave. An error is reported once.
    fn usable<T>(&self, result: Result<T, MailboxError>) -> Option<T> {
        let error = match result {
            Ok(given) => return Some(given),
            Err(error) => error.to_string(),
        };
        let mut troubles = self.troubles.borrow_mut();
        if troubles.len() < MOST_TROUBLES && troubles.insert(error.clone()) {
            notify!("pinfold: {}", super::list::shown(&error));
        }
        None
    }

    fn refuse(&self, mailbox: &Mailbox, name: &OsStr, reason: &str) {
        if self.usable(mailbox.set_aside(name, reason)).is_some() {
            let reason = super::list::shown(reason);
            notify!("pinfold: {} is no request: {reason}", Escaped(name.as_ref()));
        }
    }

    /// Adds a task for a request whose time has come. Each time has its own id, so that it is added once, whatever is
    /// killed; and none is added again that the user has removed while this runs.
    fn add_if_due(
        &self,
        mailbox: &Mailbox,
        asked: &Asked<'_>,
        digest: &str,
        schedule: &Schedule,
        written: u64,
    ) -> Result<bool, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_err(Failure::new)?.as_secs();
        let before = self.looked_at.borrow().get(digest).copied().unwrap_or(0);
        let Some(due) = schedule.due(written, before, now) else { return Ok(false) };
        let after = if schedule.is_over() { Afterwards::Remove } else { Afterwards::Leave };
        let is_new = self.add(mailbox, asked, &format!("{digest}@{due}"), after)?;
        self.looked_at.borrow_mut().insert(digest.to_owned(), due);
        Ok(is_new)
    }

    /// Adds a task for a request, and removes the request. Returns whether there is one more. A request that was added
    /// before and could not be removed is not added twice: its task has an id that follows from it.
    fn add(
        &self,
        mailbox: &Mailbox,
        Asked { name, request }: &Asked<'_>,
        digest: &str,
        afterwards: Afterwards,
    ) -> Result<bool, Failure> {
        let spec = self.spec(request);
        if let Err(reason) = first_prompt(&spec) {
            self.refuse(mailbox, name, &reason.to_string());
            return Ok(false);
        }
        // Another group that asks for the same does not take its id.
        let digest = name_of(format!("{}/{digest}", self.args.group).as_bytes());
        let id = u128::from_str_radix(&digest[..32], 16).map_err(Failure::new)?;
        let id = TaskId::from_random(id.to_be_bytes());
        let is_new = match add_once(self.queue, &Draft { id, spec, expires_after: None }) {
            Ok(task) => {
                say!("{id}");
                let name = Escaped(name.as_ref());
                notify!("pinfold: {}: asked for by {name}: {}", short(id), task.title);
                true
            }
            Err(QueueError::Store(StoreError::Exists)) => false,
            Err(QueueError::Spec(error)) => {
                self.refuse(mailbox, name, &error.to_string());
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        match afterwards {
            // One that stays is found to have been added, and not added again.
            Afterwards::Remove => {
                let _ = self.usable(mailbox.remove(name));
            }
            Afterwards::Leave => {}
        }
        Ok(is_new)
    }

    /// Returns the task of a request: the template's, apart from what is to be done.
    fn spec(&self, request: &Request) -> TaskSpec {
        let mut spec = self.template.clone();
        spec.title = request.title();
        let before = spec.brief.trim();
        spec.brief = if before.is_empty() {
            request.brief.clone()
        } else {
            format!("{before}\n\n{}", request.brief)
        };
        let most = spec.priority;
        spec.priority = request.priority.unwrap_or(most).clamp(most.min(0), most);
        spec
    }

    /// Returns how many tasks of the group have not ended.
    fn active(&self) -> Result<usize, Failure> {
        let statuses = vec![Status::Waiting, Status::Queued, Status::Dispatched, Status::Running];
        let mut ids = Vec::new();
        all(self.queue, Listing { statuses, limit: 200, ..Listing::default() }, |task| {
            ids.push(task.id);
            true
        })?;
        let mut count = 0;
        for id in ids {
            // One that cannot be read, or that somebody has removed, is of no group.
            if let Ok(spec) = spec_of(self.queue, id)? {
                count += usize::from(spec.group == self.template.group);
            }
        }
        Ok(count)
    }
}
