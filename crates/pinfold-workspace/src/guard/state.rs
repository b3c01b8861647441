//! What one session protects, as it is known so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_host::file_id::FileId;
use pinfold_host::launcher::Launcher;
use pinfold_host::session_id::SessionId;
use pinfold_names::{HomePart, Protection, Site};
use pinfold_policy::authority::Reason;
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::FileSettings;
use pinfold_protect::built::Built;
use pinfold_protect::commands::Ahead;
use pinfold_protect::directory_hook::Loaded;
use pinfold_protect::misleading::Before;
use pinfold_protect::names_at_start::Names;
use pinfold_protect::own::Own;
use pinfold_protect::protect::Zone;
use pinfold_protect::restrict::Protect;
use pinfold_protect::survey::Walk;
use pinfold_protect::tracked::Tracked;
use pinfold_protect::trusted::Trusted;

use crate::GuardError;
use crate::generated::Generated;
use crate::git::private::Copies;
use crate::protected_dirs::ProtectedDir;
use crate::review::Named;
use crate::shadow::Shadow;

/// What one session protects.
#[derive(Debug)]
pub struct Guard {
    /// The session's directory of private copies, on the host.
    pub(super) private: PathBuf,
    pub(crate) protect: Protect,
    /// Writable roots.
    pub(crate) roots: Vec<Walked>,
    /// All roots that were scanned.
    pub(crate) readable: Vec<PathBuf>,
    /// What was protected at the start, by path: the very file or directory.
    pub(crate) known: HashMap<PathBuf, FileId>,
    pub(super) protection: Protection,
    /// Where the names of the user's homes lay at the start.
    pub(super) parts: Vec<HomePart>,
    /// What the host executes or trusts, by path, whether or not it is there.
    pub(super) executed: Vec<PathBuf>,
    /// The opt-ins that lift some of it.
    pub(super) opt_in: Vec<String>,
    /// The private git directories.
    pub(super) copies: Copies,
    /// Protected directories that may get a private copy.
    pub(super) candidates: BTreeMap<PathBuf, Reason>,
    /// Those that have one.
    pub(super) protected_dirs: Vec<ProtectedDir>,
    /// Tops of the working trees in writable roots, each with the git directory that it has.
    pub(super) tops: Vec<(PathBuf, PathBuf)>,
    /// What is hidden from the session.
    pub(crate) hidden: Vec<PathBuf>,
    /// Files that may not be changed and of which git has this very content.
    pub(super) read_only: Vec<PathBuf>,
    /// What git has of the files that are secret by name.
    pub(super) tracked: Tracked,
    /// What had the name of a secret at the start, hidden or not.
    pub(crate) secret_names: BTreeSet<PathBuf>,
    /// What is not hidden, since it is public certificates of the system.
    pub(super) public: BTreeSet<PathBuf>,
    pub(super) session: String,
    /// The only reference of the host's that the session may move, if nobody watches it.
    pub(super) only: Option<String>,
    /// Whether nothing of the session's repositories comes to the host.
    pub(super) isolated: bool,
    /// The granted root of which the sandbox has a copy-on-write view, if it has one.
    pub(super) over: Option<PathBuf>,
    /// The names in it.
    pub(super) names: Names,
    /// What of it the host would execute because something names it.
    pub(super) named: Vec<Named>,
    pub(super) shadows: Vec<Shadow>,
    /// What is pinfold's own.
    pub(crate) own: Arc<Own>,
    /// What there was before that may mislead.
    pub(crate) before: Before,
    /// By what the caller's programs trust authorities.
    pub(crate) trusted: Vec<Trusted>,
    /// Files that the session has of its own in what is granted.
    pub(super) generated: Generated,
    /// What tools run on a build.
    pub(super) built: Built,
    /// What the shell's directory hook loads.
    pub(super) loaded: Loaded,
    /// Directories of the writable roots in which the user's shell looks for programs.
    pub(crate) ahead: Vec<Ahead>,
    pub(super) launcher: Launcher,
}

/// A granted root as it was walked.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) path: PathBuf,
    pub(crate) site: Site,
    pub(crate) walk: Walk<Zone>,
}

impl Guard {
    /// Makes the state of a session whose private copies lie in this directory.
    pub fn new(
        private: &Path,
        session: &SessionId,
        over: Option<&HostPath>,
        shadows: Vec<Shadow>,
        own: Arc<Own>,
        launcher: Launcher,
    ) -> Self {
        Self {
            private: private.join("git"),
            protect: Protect::default(),
            roots: Vec::new(),
            readable: Vec::new(),
            known: HashMap::new(),
            protection: Protection::default(),
            parts: Vec::new(),
            executed: Vec::new(),
            opt_in: Vec::new(),
            copies: Copies::default(),
            candidates: BTreeMap::new(),
            protected_dirs: Vec::new(),
            tops: Vec::new(),
            hidden: Vec::new(),
            read_only: Vec::new(),
            tracked: Tracked::default(),
            secret_names: BTreeSet::new(),
            public: BTreeSet::new(),
            session: session.to_string(),
            only: None,
            isolated: false,
            over: over.map(|root| root.as_path().to_owned()),
            names: Names::default(),
            named: Vec::new(),
            shadows,
            own,
            before: Before::default(),
            trusted: Vec::new(),
            generated: Generated::default(),
            built: Built::begin(),
            loaded: Loaded::new(),
            ahead: Vec::new(),
            launcher,
        }
    }
}

/// Returns the protections that the settings leave in force.
///
/// # Errors
/// Returns an error for an opt-in that is unknown.
pub(super) fn protection(files: &FileSettings) -> Result<Protection, GuardError> {
    let lifted = files.opt_in.iter().map(|name| name.value.as_str());
    Protection::defaults(lifted).map_err(|error| GuardError::refused(error, None))
}
