//! One set-up command, in a process of its own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pinfold_boundary::{Entry, Place};
use pinfold_policy::authority::Subject;
use pinfold_policy::limits::WallTime;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{HostPath, InsidePath, PathError};
use pinfold_policy::settings::{Layers, Settings};
use serde::{Deserialize, Serialize};

use crate::door;
use crate::outcome::{Outcome, RunError};
use crate::places::Places;
use crate::resume::SHELL;
use crate::run::{Request, run};
use crate::system::{Landing, Stack};
use crate::timeline::Timeline;
use crate::trust;
use crate::userland::{HOME, PATH};
use crate::workspace::Workspace;

/// How long a command may take that nobody watches.
const LONGEST: Duration = Duration::from_secs(3600);

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
    /// The process that builds.
    pub(super) parent: u32,
}

impl Step {
    /// Reads what the build has written down.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Runs the command as root by name, with its hosts in reach and nothing of
    /// the user's in sight. It ends with the build that started it.
    ///
    /// # Errors
    /// As [`run`].
    pub fn run(self, places: Places) -> Result<Outcome, RunError> {
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
        settings.limits.timeout = Some(Valued::default_of(WallTime::new(LONGEST)));
        let root = HostPath::new("/tmp").map_err(RunError::path)?;
        let mut files = trust::of_host().map_err(RunError::path)?;
        files.extend(entries(self.over_host).map_err(RunError::path)?);
        run(Request {
            subject: Subject::AgentSession { agent: "snapshot".into() },
            argv: ["/bin/sh", "-c", SHELL, "sh", &self.command].map(OsString::from).to_vec(),
            env: environment(),
            settings,
            workspace: Workspace::scratch(root),
            stack: Some(Stack {
                trees: self.trees,
                over_host: self.over_host,
                landing: Landing::Kept(self.landing),
                held: Arc::default(),
            }),
            extra: Vec::new(),
            files,
            provider: None,
            ssh: None,
            nested: false,
            places,
            name: None,
            background: None,
            timeline: Timeline::default(),
        })
    }
}

fn environment() -> Vec<(OsString, OsString)> {
    [
        ("PATH", PATH),
        ("HOME", HOME),
        ("USER", "root"),
        ("LOGNAME", "root"),
        ("SHELL", "/bin/sh"),
        ("TERM", "dumb"),
        ("LANG", "C.UTF-8"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        // apt drops its rights for downloads, which it cannot where there is only one user.
        ("APT_CONFIG", APT_CONFIG),
        ("HTTP_PROXY", door::PROXY_URL),
        ("HTTPS_PROXY", door::PROXY_URL),
        ("NO_PROXY", door::NO_PROXY),
        ("http_proxy", door::PROXY_URL),
        ("https_proxy", door::PROXY_URL),
        ("no_proxy", door::NO_PROXY),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into_iter()
    .chain(trust::environment())
    .map(|(name, value)| (name.into(), value.into()))
    .collect()
}

/// A file of apt's for the build alone.
const APT_CONFIG: &str = "/run/pinfold/apt.conf";

/// For apt on this machine's own system, of whose /etc a build has parts: a file of configuration that
/// is not there gets the new package's content, unasked (dpkg(1)).
const ON_HOST: &str = "DPkg::Options { \"--force-confdef\"; \"--force-confold\"; \
                       \"--force-confmiss\"; };\n";

/// What apt calls before it replaces a package of this machine's own system.
const OWN_INSTALLED: &str = "/run/pinfold/own-installed";

/// What a build has beside its trees: where scripts of packages take locks, and files for apt.
fn entries(over_host: bool) -> Result<Vec<Entry>, PathError> {
    let mut config = String::from("APT::Sandbox::User \"root\";\n");
    let mut files = Vec::new();
    if over_host {
        config += ON_HOST;
        config += &format!("DPkg::Pre-Install-Pkgs {{ \"{OWN_INSTALLED}\"; }};\n");
        let script = include_str!("../../data/own-installed.sh");
        files.push((OWN_INSTALLED, script.to_owned(), 0o755));
    }
    files.push((APT_CONFIG, config, 0o644));
    let entry = |(path, content, mode): (&str, String, u32)| {
        let place = Place::File { content: content.into_bytes(), mode, keep: false };
        Ok(Entry { path: InsidePath::new(path)?, place })
    };
    let locks = Entry { path: InsidePath::new("/run/lock")?, place: Place::Private };
    files.into_iter().map(entry).chain([Ok(locks)]).collect()
}
