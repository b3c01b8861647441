//! A session that goes on without the process that started it (`--detach`).
//!
//! The process is copied while it has one thread, before anything of the session exists. The copy
//! leads a session of its own (setsid(2)), reads nothing, and writes to a log, which the starting
//! process shows until the command was executed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_host::directories::Places;
use pinfold_host::session_id::{SessionId, SessionName};
use pinfold_host::sessions::{live_sessions, lock};
use pinfold_terminal::caller;
use pinfold_wire::Window;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};

/// How often the log of a start is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Locked while a log begins or goes.
const COMMON: &str = "lock";
/// How the log of a start is called.
const STARTING: &str = "starting-";
/// Bytes that a log holds at most. What comes after is dropped, which the log says.
pub(crate) const LONGEST: u64 = 1 << 30;
/// How many logs of ended sessions are kept.
const KEPT: usize = 64;
/// What the session says when its command was executed: its name, and the length of its log.
const NEWS: usize = 12 + size_of::<u64>();

/// Which of the two processes this is.
pub enum Side {
    /// The one that was started; it waits until the session runs.
    Front(Front),
    /// The one in which the session runs.
    Background(Background),
}

/// Who started a session.
pub struct Front {
    log: File,
    news: OwnedFd,
    background: Pid,
}

/// How the start of a session ended.
pub enum Started {
    /// The session runs.
    Session(SessionId),
    /// It does not, with this status.
    Failed(u8),
}

/// Where a detached session runs.
pub struct Background {
    places: Places,
    /// Until the session runs.
    log: Option<PathBuf>,
    news: OwnedFd,
    session: Option<(SessionId, Option<SessionName>)>,
}

/// Returns how large the terminal of a detached session is until somebody attaches: as the caller's, or
/// as terminals have always been.
#[must_use]
pub fn window() -> Window {
    caller::window()
}

/// Goes on in two processes.
///
/// # Errors
/// Returns the error of the file system and `fork(2)`.
#[expect(clippy::disallowed_methods, reason = "a copy of this process, and no other program")]
pub fn detach(places: &Places) -> io::Result<Side> {
    let logs = logs(places);
    Places::make_private(&logs)?;
    let path = logs.join(format!("{STARTING}{}", SessionId::generate()?));
    // No log is seen that is not locked yet.
    let common = lock(&logs.join(COMMON), FlockOperation::LockExclusive)?;
    let log = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
    // Opened again: an offset that two share would be at the end of what the other has written.
    let written = File::open(&path)?;
    rustix::fs::flock(&log, FlockOperation::LockExclusive)?;
    drop(common);
    let (news, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the process has one thread, so its copy may do whatever it may do.
    match unsafe { libc::fork() } {
        0 => {
            rustix::process::setsid()?;
            let null = rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )?;
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(&log)?;
            rustix::stdio::dup2_stderr(&log)?;
            let places = places.clone();
            Ok(Side::Background(Background { places, log: Some(path), news: tell, session: None }))
        }
        pid => match Pid::from_raw(pid).filter(|_| pid > 0) {
            // Its own end of `tell` is closed here, so that the other's end is seen.
            Some(background) => Ok(Side::Front(Front { log: written, news, background })),
            None => Err(io::Error::last_os_error()),
        },
    }
}

impl Front {
    /// Waits until the session runs, and shows its output until then.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn wait(mut self, out: &mut impl Write) -> io::Result<Started> {
        let mut shown = 0;
        loop {
            if !self.has_news()? {
                shown += io::copy(&mut self.log, out)?;
                continue;
            }
            let mut news = [0; NEWS];
            return match File::from(self.news).read_exact(&mut news) {
                Ok(()) => {
                    let (session, length) = news.split_at(12);
                    let length = length.try_into().map_or(shown, u64::from_ne_bytes);
                    io::copy(&mut (&self.log).take(length.saturating_sub(shown)), out)?;
                    let session = std::str::from_utf8(session).ok().and_then(SessionId::parse);
                    session.map(Started::Session).ok_or(io::ErrorKind::InvalidData.into())
                }
                // It has ended without a session.
                Err(_) => {
                    let status = Self::status_of(self.background);
                    io::copy(&mut self.log, out)?;
                    Ok(Started::Failed(status))
                }
            };
        }
    }

    fn has_news(&self) -> io::Result<bool> {
        let mut ready = [PollFd::new(&self.news, PollFlags::IN)];
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        Ok(rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&look)))? > 0)
    }

    fn status_of(background: Pid) -> u8 {
        const FAILURE: u8 = 125;
        let waited = rustix::process::waitpid(Some(background), WaitOptions::empty());
        let status = waited.ok().flatten().and_then(|(_, status)| status.exit_status());
        status.and_then(|status| u8::try_from(status).ok()).unwrap_or(FAILURE)
    }
}

impl Background {
    /// Returns the background of this session, with or without a second name.
    pub(crate) fn of(mut self, session: &SessionId, name: Option<&SessionName>) -> Self {
        self.session = Some((session.clone(), name.cloned()));
        self
    }

    /// Tells who started it that the session runs. Its log has its name from now on.
    ///
    /// # Errors
    /// Returns the error of renaming; that nobody waits any more.
    pub(crate) fn started(mut self) -> io::Result<()> {
        let Some((session, name)) = self.session.clone() else { return Ok(()) };
        if let Some(name) = name {
            Places::write_private(&name_of(&self.places, &session), name.as_str().as_bytes())?;
        }
        if let Some(log) = self.log.take() {
            fs::rename(log, log_of(&self.places, &session))?;
        }
        remove_old_logs(&self.places, KEPT);
        let length = fs::metadata(log_of(&self.places, &session))?.len();
        let news = [session.as_str().as_bytes(), &length.to_ne_bytes()].concat();
        // The user who interrupted the start never learnt which session it is.
        rustix::io::write(self.news.as_fd(), &news)
            .map_err(|_| io::Error::other("the process that started the session has ended"))?;
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            // The process that waits has it open.
            let _ = fs::remove_file(log);
        }
    }
}

/// Returns the log of a detached session, which may have ended.
#[must_use]
pub fn log_of(places: &Places, session: &SessionId) -> PathBuf {
    logs(places).join(session.as_str())
}

/// Returns the last session of this name that has a log.
#[must_use]
pub fn called(places: &Places, name: &str) -> Option<SessionId> {
    let is_called = |session: &SessionId| {
        fs::read_to_string(name_of(places, session)).is_ok_and(|called| called == name)
    };
    logged(places).into_iter().find(is_called)
}

/// Returns the sessions that have a log, the newest first.
#[must_use]
pub fn logged(places: &Places) -> Vec<SessionId> {
    let entries = fs::read_dir(logs(places)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let session = SessionId::parse(entry.file_name().to_str()?)?;
            Some((entry.metadata().ok()?.modified().ok()?, session))
        })
        .collect();
    found.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
    found.into_iter().map(|(_, session)| session).collect()
}

/// Removes the logs of sessions that have ended, except those of the last `kept`.
pub fn remove_old_logs(places: &Places, kept: usize) {
    let live = live_sessions(places);
    let ended = logged(places).into_iter().filter(|session| !live.contains(session.as_str()));
    for session in ended.skip(kept) {
        let _ = fs::remove_file(log_of(places, &session));
        let _ = fs::remove_file(name_of(places, &session));
    }
    // Starts that were killed; of those that go on the log is locked.
    let Ok(_common) = lock(&logs(places).join(COMMON), FlockOperation::LockExclusive) else {
        return;
    };
    let entries = fs::read_dir(logs(places)).into_iter().flatten().flatten();
    let is_start = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(STARTING);
    for entry in entries.filter(is_start) {
        let is_free = File::open(entry.path()).is_ok_and(|log| {
            rustix::fs::flock(&log, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
        if is_free {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns where the name is kept that somebody gave to a session with a log.
fn name_of(places: &Places, session: &SessionId) -> PathBuf {
    logs(places).join(format!("{}.name", session.as_str()))
}

/// Returns the directory of the logs.
#[must_use]
pub fn logs(places: &Places) -> PathBuf {
    places.state.join("logs")
}
