//! Copies of git directories that are kept because not everything in them came out at the end of a session.
//!
//! A sandbox wrote them: no git of the host's reads one. `pinfold adopt` has scratch sandboxes read and check it as at the
//! end of a session, with higher limits, and puts what passes below `refs/pinfold/<session>`. The copy goes once all of it
//! has come.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pinfold_git::host_git::HostGit;
use pinfold_git::settled::Settled;
use pinfold_git::state::State;
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_bounded};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::SessionState;
use pinfold_names::Protection;
use pinfold_policy::path::Escaped;
use pinfold_protect::commands::Commands;
use pinfold_trees::remove_tree;
use serde::{Deserialize, Serialize};

use super::collect::{Collect, MayMove, Phase, Recorded};
use super::private::Copied;
use super::record::{Bytes, Copy, bytes, path};

/// The copy, in the directory that is kept.
const COPY: &str = "git";
/// What is known of it, next to it.
const RECORD: &str = "record.json";
/// What a scratch sandbox leaves there while the copy is adopted.
const OUT: &str = "out";
/// Bytes of a record. References are in it, up to 256 MiB of them.
const LONGEST_RECORD: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Record {
    copy: Copy,
    /// What the session could write: no program is taken from there.
    writable: Vec<Bytes>,
}

/// A copy that is kept.
#[derive(Debug)]
pub struct KeptCopy {
    /// The directory that has it.
    pub path: PathBuf,
    /// The session that wrote it.
    pub session: SessionId,
}

/// What came of a copy.
#[derive(Debug)]
pub struct Adopted {
    /// The host's git directory.
    pub repository: PathBuf,
    /// How many references of the session are below `refs/pinfold` there now.
    pub references: usize,
    /// Whether branches are among them, which `pinfold accept` takes.
    pub has_branches: bool,
    /// Why something is still in the copy, which is kept then.
    pub left: Option<Refusal>,
}

/// Puts a copy where a user finds it, next to pinfold's other state, and returns where. `writable` is what the session could
/// write.
pub(crate) fn keep(copied: &Copied, session: &str, writable: &[PathBuf]) -> PathBuf {
    let place = copied.private.ancestors().find(|path| path.ends_with(session));
    let Some(base) = place.and_then(Path::parent) else { return copied.private.clone() };
    let kept = base.join(format!("kept-{session}-{}", copied.number));
    let private = kept.join(COPY);
    let moved = Places::make_private(&kept).and_then(|()| fs::rename(&copied.private, &private));
    if moved.is_err() {
        return copied.private.clone();
    }
    let copy = Copy::of(&Copied { private, ..copied.clone() });
    let record = Record { copy, writable: writable.iter().map(|path| bytes(path)).collect() };
    // Without a record the copy is still there to be looked at.
    let _ = write(&kept, &record);
    kept
}

fn write(kept: &Path, record: &Record) -> io::Result<()> {
    let mut file = fs::File::create(kept.join(RECORD))?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.sync_all()
}

impl KeptCopy {
    /// Returns all copies that are kept.
    ///
    /// # Errors
    /// Returns the error of reading their directory.
    pub fn all(places: &Places) -> io::Result<Vec<Self>> {
        let directory = SessionState::all_private(places);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            let session = entry.file_name().to_str().and_then(session_in);
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            all.extend(
                session
                    .filter(|_| is_directory)
                    .map(|session| Self { path: entry.path(), session }),
            );
        }
        all.sort_by(|one, two| one.path.cmp(&two.path));
        Ok(all)
    }

    /// Returns the one at a path.
    ///
    /// # Errors
    /// Returns the error of reading their directory.
    pub fn at(places: &Places, path: &Path) -> io::Result<Option<Self>> {
        let Ok(path) = fs::canonicalize(path) else { return Ok(None) };
        let is_it = |copy: &Self| fs::canonicalize(&copy.path).is_ok_and(|its| its == path);
        Ok(Self::all(places)?.into_iter().find(is_it))
    }

    /// Brings what passes the checks into the repository that the copy is of. Others must be excluded
    /// ([`crate::accept::exclude_others`]).
    ///
    /// # Errors
    /// Returns why nothing of it can come. It stays where it is then.
    pub fn adopt(&self, launcher: &Launcher) -> Result<Adopted, Refusal> {
        let Record { copy, writable } = self.record()?;
        // The record lies where no sandbox writes; the copy may have been moved with it.
        let copied = Copied { private: self.path.join(COPY), ..copy.read() };
        copied.host.open().map_err(Refusal::about("the repository that the copy is of"))?;
        let own: Vec<PathBuf> = writable.into_iter().map(path).collect();
        let git = launcher.find("git", &own);
        let git = git.ok_or("there is no git in PATH outside of what the session could write")?;
        let protection = Protection::defaults([]).map_err(Refusal::of)?;
        let session = self.session.as_str();
        let collect = Collect {
            copied: &copied,
            all: std::slice::from_ref(&copied),
            rebuilt: &[],
            git: &git,
            session,
            may_move: MayMove::Nothing,
            out: self.path.join(OUT),
            tops: &[],
            protection: &protection,
            roots: &[],
            named: &[],
            commands: &Commands::default(),
            hidden: &[],
            phase: Phase::End,
            recorded: Recorded::default(),
        };
        let mut state = State::at(&copied.start);
        let left = collect.collect(&mut state, &mut Settled::default()).err();
        let git = HostGit { program: &git, directory: &copied.host };
        let below = format!("refs/pinfold/{session}");
        let listed = git.run(&["for-each-ref", "--format=%(refname)", &below], None)?;
        if left.is_none() {
            remove_tree(&self.path).map_err(Refusal::about(Escaped(&self.path)))?;
        }
        let heads = format!("{below}/heads/");
        Ok(Adopted {
            repository: copied.host.path().to_owned(),
            references: listed.lines().count(),
            has_branches: listed.lines().any(|name| name.starts_with(&heads)),
            left,
        })
    }

    fn record(&self) -> Result<Record, Refusal> {
        let without = |why: String| {
            let hint = "look at it in a sandbox, never with git on this machine: `pinfold run --read PATH -- git --git-dir PATH \
                        log`";
            Refusal::new(format!("{} cannot be adopted: {why}", Escaped(&self.path)))
                .with_hint(hint.replace("PATH", &Escaped(&self.path).to_string()))
        };
        let directory = open_directory(&self.path).map_err(|errno| without(errno.to_string()))?;
        let record = read_bounded(directory, Path::new(RECORD), LONGEST_RECORD)
            .map_err(|unread| without(format!("{RECORD} {unread}")))?;
        let record =
            record.ok_or_else(|| without("nothing says of which repository it is".into()))?;
        serde_json::from_slice(&record.bytes).map_err(|error| without(error.to_string()))
    }
}

/// Returns the session in a name such as `kept-0123456789ab` or `kept-0123456789ab-0`.
fn session_in(name: &str) -> Option<SessionId> {
    let rest = name.strip_prefix("kept-")?;
    let (session, number) = rest.split_once('-').unwrap_or((rest, "0"));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    SessionId::parse(session).filter(|_| is_number)
}
