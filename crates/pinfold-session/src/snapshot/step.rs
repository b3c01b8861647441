//! One set-up command, in a process of its own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::authority::Subject;
use pinfold_policy::limits::{ByteSize, Limits, MilliCpus, WallTime};
use pinfold_policy::origin::{self, Origin, Valued};
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::{Layers, Settings};
use pinfold_rootfs::system::{Landing, Stack};
use pinfold_rootfs::userland::{HOME, PATH};
use pinfold_worktree::workspace::Workspace;
use serde::{Deserialize, Serialize};

use super::by_name;
use crate::doors;
use crate::doors::certificates;
use crate::outcome::{LimitReached, Outcome, RunError};
use crate::request::Request;
use crate::run::run;
use crate::supervise::disk_watch::Bound;
use crate::supervise::resume::SHELL;
use pinfold_personal::caller_trust::CallerTrust;
use pinfold_rootfs::toolchains::Toolchains;

/// How long a command may take that nobody watches.
const LONGEST: Duration = Duration::from_secs(3600);

/// Where a command's limit is written down.
pub(super) const LIMIT: &str = "limit.json";

/// A command with what it works on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Step {
    pub(super) trees: Vec<PathBuf>,
    /// Whether this machine's programs lie beneath them.
    pub(super) over_host: bool,
    pub(super) landing: PathBuf,
    pub(super) command: String,
    /// Hosts that may be reached.
    pub(super) hosts: Vec<String>,
    /// Hosts that may lead to private addresses, by the user's word.
    pub(super) internal: Vec<String>,
    pub(super) limits: StepLimits,
    /// The process that builds.
    pub(super) parent: u32,
}

/// What a command may use.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StepLimits {
    memory: Option<u64>,
    /// Thousandths of a CPU; and the line of the repository's that asked for it, which is no reason
    /// to refuse where it is not available.
    cpus: Option<(u32, Option<(String, u32)>)>,
    pids: Option<u64>,
    disk: Option<u64>,
    files: Option<u64>,
    time: Duration,
    /// The directory that must not hold more than so many bytes.
    pub(super) build: (PathBuf, u64),
}

/// Returns the limit of which the last command left word. On a full disk it could leave none.
pub(super) fn limit(staging: &Path) -> Option<LimitReached> {
    let text = std::fs::read(staging.join(LIMIT)).ok()?;
    serde_json::from_slice(&text).ok()?
}

impl StepLimits {
    /// Returns the session's, except its time, which a build does not have.
    pub(super) fn of(settings: &Settings, bound: &Bound) -> Self {
        let limits = &settings.limits;
        let bytes = |limit: &Option<Valued<ByteSize>>| Some(limit.as_ref()?.value.bytes());
        let time = settings.ceiling.timeout().map(|limit| limit.value.duration());
        Self {
            memory: bytes(&limits.memory),
            cpus: limits.cpus.as_ref().map(|cpus| {
                let place = match &cpus.origin {
                    Origin::Project(place) => Some((place.file.to_string(), place.line)),
                    _ => None,
                };
                (cpus.value.thousandths(), place)
            }),
            pids: limits.pids.as_ref().map(|pids| pids.value),
            disk: bytes(&limits.disk),
            files: limits.files.as_ref().map(|files| files.value),
            time: time.map_or(LONGEST, |time| time.min(LONGEST)),
            build: (bound.dir.clone(), bound.most.bytes()),
        }
    }

    fn bound(&self) -> Bound {
        let (dir, most) = &self.build;
        Bound { dir: dir.clone(), most: ByteSize::from_bytes(*most) }
    }

    pub(super) fn limits(self) -> Limits {
        let bytes = |bytes: u64| Valued::default_of(ByteSize::from_bytes(bytes));
        let cpus = |(thousandths, place): (u32, Option<(String, u32)>)| {
            let project = |(file, line): (String, u32)| {
                Origin::Project(origin::Place { file: file.into(), line })
            };
            Valued::new(MilliCpus::new(thousandths), place.map_or(Origin::Default, project))
        };
        Limits {
            cpus: self.cpus.map(cpus),
            memory: self.memory.map(bytes),
            pids: self.pids.map(Valued::default_of),
            disk: self.disk.map(bytes),
            files: self.files.map(Valued::default_of),
            timeout: Some(Valued::default_of(WallTime::new(self.time))),
            build: None,
        }
    }
}

impl Step {
    /// Reads what the build has written down.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Writes down the limit that ended or hindered a command, for the builder, next to the
    /// description that it was read from.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn report(path: &Path, limit: Option<LimitReached>) -> io::Result<()> {
        std::fs::write(path.with_file_name(LIMIT), serde_json::to_vec(&limit)?)
    }

    /// Runs the command as root by name, with its hosts in reach and nothing of
    /// the user's in sight. It ends with the build that started it.
    ///
    /// # Errors
    /// Returns the errors of [`run`].
    pub fn run(self, places: Places, launcher: Launcher) -> Result<Outcome, RunError> {
        let parent = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(parent)
            .map_err(|errno| RunError::System(errno.into()))?;
        if std::os::unix::process::parent_id() != self.parent {
            // It had gone before that was said.
            return Err(RunError::System(io::ErrorKind::BrokenPipe.into()));
        }
        let mut settings = Settings::resolve(Layers::default()).map_err(RunError::settings)?;
        let rules = |texts: &[String]| -> Result<Vec<_>, RunError> {
            let read = |text: &String| {
                let rule = text.parse().map_err(|error| RunError::refused(error, None))?;
                Ok(Valued::new(rule, Origin::Default))
            };
            texts.iter().map(read).collect()
        };
        settings.network.allow = rules(&self.hosts)?;
        settings.network.internal = rules(&self.internal)?;
        let bound = self.limits.bound();
        settings.limits = self.limits.limits();
        let root = HostPath::new("/tmp").map_err(RunError::path)?;
        let mut files = certificates::of_host(&CallerTrust::default()).map_err(RunError::path)?;
        files.extend(by_name::entries(self.over_host).map_err(RunError::path)?);
        files.push(by_name::devices().map_err(RunError::path)?);
        let toolchains =
            Toolchains::for_build(&places.home, self.over_host).map_err(RunError::path)?;
        let subject = Subject::AgentSession { agent: "snapshot".into() };
        let argv = ["/bin/sh", "-c", SHELL, "sh", &self.command].map(OsString::from).to_vec();
        let env = environment(toolchains.path, toolchains.variables);
        let workspace = Workspace::scratch(root);
        let plain = Request::plain(subject, argv, env, settings, workspace, places, launcher);
        let stack = Stack {
            trees: self.trees,
            over_host: self.over_host,
            landing: Landing::Kept(self.landing),
            is_root: true,
            held: Arc::default(),
        };
        run(Request {
            stack: Some(stack),
            extra: toolchains.extra,
            files,
            bound: Some(bound),
            ..plain
        })
    }
}

fn environment(
    mut path: Vec<String>,
    variables: Vec<(&'static str, String)>,
) -> Vec<(OsString, OsString)> {
    path.push(PATH.to_owned());
    [
        ("PATH", path.join(":").as_str()),
        ("HOME", HOME),
        ("SHELL", "/bin/sh"),
        ("TERM", "dumb"),
        ("LANG", "C.UTF-8"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("HTTP_PROXY", doors::PROXY_URL),
        ("HTTPS_PROXY", doors::PROXY_URL),
        ("NO_PROXY", doors::NO_PROXY),
        ("http_proxy", doors::PROXY_URL),
        ("https_proxy", doors::PROXY_URL),
        ("no_proxy", doors::NO_PROXY),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into_iter()
    .chain(by_name::VARIABLES.map(|(name, value)| (name, value.to_owned())))
    .chain(variables)
    .chain(certificates::environment())
    .map(|(name, value)| (name.into(), value.into()))
    .collect()
}
