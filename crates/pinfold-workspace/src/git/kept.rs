//! Copies of git directories that are kept because not everything in them came out at the end of a session.
//!
//! A sandbox wrote them: no git of the host's reads one. `pinfold adopt` has scratch sandboxes read and check it as at the
//! end of a session, with higher limits, and puts what passes below `refs/pinfold/<session>`. The copy goes once all of it
//! has come.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_git::host_git::HostGit;
use pinfold_git::refs::shell_word;
use pinfold_git::settled::{Kept, Settled};
use pinfold_git::special_files;
use pinfold_git::state::State;
use pinfold_host::beneath::open_directory;
use pinfold_host::directories::Places;
use pinfold_host::note::Note;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::SessionState;
use pinfold_host::{Host, Refusal};
use pinfold_policy::path::Escaped;
use pinfold_protect::commands::Commands;
use pinfold_protect::survey::open_to_owner;
use pinfold_trees::remove_tree;

use super::collect::{Collect, MayMove, Phase, Recorded};
use super::private::Copied;
use crate::guard::left::{self, RecordedCopy};

/// What the name of a copy's record ends with. It lies next to the copy.
const RECORD: &str = "json";
/// What the name of the directory ends with that scratch sandboxes write to while the copy is adopted.
const OUT: &str = "out";

/// A copy that is kept.
#[derive(Debug)]
pub struct KeptCopy {
    /// The directory that has it.
    pub path: PathBuf,
    /// The session that wrote it.
    pub session: SessionId,
    number: usize,
}

/// What came of a copy.
#[derive(Debug)]
pub struct Adopted {
    /// The host's git directory.
    pub repository: PathBuf,
    /// How many references of the session are below `refs/pinfold` there now.
    pub references: usize,
    /// The command that lists them.
    pub lists: String,
    /// Whether branches are among them, which `pinfold accept` takes.
    pub has_branches: bool,
    /// What of the session brings what tools run by themselves; `None` if the working trees that say it are gone.
    pub executed: Option<Vec<Note>>,
    /// Why something is still in the copy, which is kept then.
    pub left: Option<Refusal>,
}

/// Puts a copy where a user finds it, next to pinfold's other state, and returns where. The record of its session is its record,
/// too. Neither needs room: the disk may be full.
///
/// # Errors
/// Returns the error of moving it.
pub(crate) fn keep(copied: &Copied, session: &str) -> io::Result<PathBuf> {
    let place = copied.private.ancestors().find(|path| path.ends_with(session));
    let place = place.ok_or(io::ErrorKind::NotFound)?;
    let kept = place.with_file_name(format!("kept-{session}-{}", copied.number));
    // An attempt that was interrupted may have moved it already.
    if kept.exists() && !copied.private.exists() {
        return Ok(kept);
    }
    let (written, record) = (place.join(left::LEFT), kept.with_extension(RECORD));
    // One that is there is this very file, which a copy would empty. Without a record the copy is still there to be looked at.
    if let Err(error) = fs::hard_link(&written, &record)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        let _ = fs::copy(&written, &record);
    }
    // The sandbox may have taken the right to move it away, or put a link in its place.
    for directory in copied.private.parent().into_iter().chain([copied.private.as_path()]) {
        open_to_owner(&open_directory(directory)?);
    }
    fs::rename(&copied.private, &kept)?;
    Ok(kept)
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
            let parsed = entry.file_name().to_str().and_then(parse);
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let copy = parsed.map(|(session, number)| Self { path: entry.path(), session, number });
            all.extend(copy.filter(|_| is_directory));
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
    pub fn adopt(&self, Host { places, launcher }: Host<'_>) -> Result<Adopted, Refusal> {
        let record = self.record(places)?;
        // The record has where it was in the session.
        let copied = Copied { private: self.path.clone(), ..record.copied };
        copied.host.open().map_err(Refusal::about("the repository that the copy is of"))?;
        let writable: Vec<PathBuf> = record.roots.iter().map(|(root, _)| root.clone()).collect();
        let git = launcher.find("git", &writable).map_err(Refusal::about("no git can be used"))?;
        let is_judged = record.tops.iter().all(|(top, _)| top.is_dir());
        let commands = Commands::new(&record.ahead, &writable);
        special_files::remove(&copied.private);
        let session = self.session.as_str();
        let collect = Collect {
            copied: &copied,
            all: &record.all,
            rebuilt: &[],
            git: &git,
            session,
            may_move: MayMove::Nothing,
            out: self.path.with_extension(OUT),
            tops: &record.tops,
            protection: &record.protection,
            roots: &record.roots,
            named: &record.named,
            commands: &commands,
            hidden: &[],
            phase: Phase::End,
            recorded: Recorded::default(),
        };
        let mut state = State::at(&copied.start);
        let mut settled = Settled::default();
        let left = collect.collect(&mut state, &mut settled).err();
        let git = HostGit { program: &git, directory: &copied.host };
        let below = format!("refs/pinfold/{session}");
        let listed = git.run(&["for-each-ref", "--format=%(refname)", &below], None)?;
        if left.is_none() {
            self.remove().map_err(Refusal::about(Escaped(&self.path)))?;
        }
        let heads = format!("{below}/heads/");
        let place = shell_word(&copied.host.path().to_string_lossy());
        let executed = settled.kept.iter().filter(|kept| kept.is_executed).map(Kept::note);
        Ok(Adopted {
            repository: copied.host.path().to_owned(),
            references: listed.lines().count(),
            lists: format!("git -C {place} for-each-ref {below}"),
            has_branches: listed.lines().any(|name| name.starts_with(&heads)),
            executed: is_judged.then(|| executed.collect()),
            left,
        })
    }

    /// Removes it with its record.
    ///
    /// # Errors
    /// Returns the error of removing it.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.path)?;
        let out = self.path.with_extension(OUT);
        if out.exists() {
            remove_tree(&out)?;
        }
        match fs::remove_file(self.path.with_extension(RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn record(&self, places: &Places) -> Result<RecordedCopy, Refusal> {
        let without = |why: String| {
            let hint = "copy it out of pinfold's directories (`cp -R`), and look at that in a sandbox, never with git on this \
                        machine: `pinfold run --read PATH -- git --git-dir PATH log`";
            Refusal::new(format!("{} cannot be adopted: {why}", Escaped(&self.path)))
                .with_hint(hint.to_owned())
        };
        let known = left::known(&self.path.with_extension(RECORD), self.number, places)
            .map_err(|error| without(error.to_string()))?;
        known.ok_or_else(|| without("nothing says of which repository it is".into()))
    }
}

/// Returns the session in a name such as `kept-0123456789ab` or `kept-0123456789ab-0`, and the number.
fn parse(name: &str) -> Option<(SessionId, usize)> {
    let rest = name.strip_prefix("kept-")?;
    let (session, number) = rest.split_once('-').unwrap_or((rest, "0"));
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((SessionId::parse(session)?, number.parse().ok().filter(|_| is_number)?))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pinfold_git::baseline::Start;
    use pinfold_git::stamp::Stamps;
    use pinfold_host::anchor::Anchor;

    use super::*;

    #[test]
    fn interrupted_attempt_to_keep_a_copy_is_finished_with_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        let private = at("0123456789ab/git/0");
        fs::create_dir_all(&private).unwrap();
        fs::write(private.join("HEAD"), "").unwrap();
        fs::write(at("0123456789ab/left.json"), "record").unwrap();
        fs::hard_link(at("0123456789ab/left.json"), at("kept-0123456789ab-0.json")).unwrap();
        for closed in [&private, &at("0123456789ab/git")] {
            fs::set_permissions(closed, Permissions::from_mode(0o500)).unwrap();
        }
        let copied = Copied {
            host: Anchor::of(&at("")).unwrap(),
            private,
            base: PathBuf::from("/base"),
            start: Start::default(),
            number: 0,
            stamps: Stamps::default(),
            own_stamps: None,
        };
        for attempt in ["first", "after a kill"] {
            assert_eq!(keep(&copied, "0123456789ab").unwrap(), at("kept-0123456789ab-0"));
            let record = fs::read(at("kept-0123456789ab-0.json")).unwrap();
            assert_eq!(record, b"record", "{attempt}");
        }
        assert!(at("kept-0123456789ab-0/HEAD").exists());

        // A sandbox can put a link in the place of its copy.
        fs::create_dir(at("elsewhere")).unwrap();
        fs::set_permissions(at("elsewhere"), Permissions::from_mode(0o500)).unwrap();
        symlink(at("elsewhere"), at("0123456789ab/git/1")).unwrap();
        keep(&Copied { private: at("0123456789ab/git/1"), number: 1, ..copied }, "0123456789ab")
            .unwrap_err();
        let mode = fs::metadata(at("elsewhere")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o500);
    }
}
