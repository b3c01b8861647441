//! One command of git's, from its arguments to what the sandbox's repository learns of its result.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_git::config::{Config, Setting as GitSetting, split};
use pinfold_git::known::Known;
use pinfold_git::pointer;
use pinfold_git::refs::{is_component, is_object};
use pinfold_host::io::timespec;
use pinfold_host::launcher::start_own;
use pinfold_policy::count::counted;
use pinfold_wire::{MAX_DATA, Reply};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use super::arguments::{self, Doing};
use super::helper;
use super::moves::{Move, parse_moves};
use super::remote::Remote;
use crate::client::Client;
use crate::context::Context;
use crate::refusal::Refusal;
use pinfold_ask::display::line;

/// Commits that a question names.
const MOST_NAMED: usize = 20;

/// A command with what it works on, as the helpers are given it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    pub place: PathBuf,
    /// What it does.
    pub doing: Doing,
    pub args: Vec<Vec<u8>>,
    /// The git directory that the sandbox works on.
    pub common: PathBuf,
    /// Where its HEAD is, below that.
    pub own: PathBuf,
    /// Where objects lie that the git directory names: in the sandbox, and on the host.
    pub borrowed: Vec<(PathBuf, PathBuf)>,
    /// Harmless settings of the host's repository.
    settings: Vec<(String, Option<Vec<u8>>)>,
    /// The remote that it goes to.
    pub remote: Option<Remote>,
    /// What a user should know.
    pub(crate) details: Vec<String>,
    /// The references of the remote that a push would move.
    pub(crate) references: Vec<String>,
    /// Options that would say what a push comes to, in whatever words it says it.
    pub(crate) amounts_to: Vec<String>,
}

/// What git calls it to take away what a reference names now (git-push(1)): by another commit, and with the
/// reference.
const FORCE: [&str; 3] = ["--force", "-f", "--force-with-lease"];
const DELETE: [&str; 2] = ["--delete", "-d"];

/// Looks at a command, makes the git directory that it will work on, and finds out what a push would
/// do.
///
/// # Errors
/// Returns why it is not run.
pub(crate) fn prepare(
    args: &[Vec<u8>],
    cwd: &Path,
    id: u64,
    context: &Context,
    client: &Client,
) -> Result<Task, Refusal> {
    let words = arguments::read(args)?;
    let known = Known::of(&context.known, cwd).ok_or_else(|| {
        Refusal::new("no repository was here when the session began")
            .hint("the host knows none that are made later: start another session for it")
    })?;
    let head = pointer::line(&known.common.join(&known.own).join("HEAD"), b"ref: refs/heads/");
    let branch = head.and_then(|head| head.into_os_string().into_string().ok());
    let remote = match words.doing {
        Doing::Look => None,
        doing => {
            let (named, branch) = (words.remote.as_deref(), branch.as_deref());
            Some(Remote::find(known, named, branch, doing, context)?)
        }
    };
    let failed = |error: io::Error| Refusal::new(format!("git cannot be prepared: {error}"));
    let settings =
        known.harmless().into_iter().map(|one| (one.key.clone(), one.value.clone())).collect();
    let mut task = Task {
        place: context.place_of(id).map_err(failed)?,
        doing: words.doing,
        args: args.to_vec(),
        common: known.common.clone(),
        own: known.own.clone(),
        borrowed: known.borrowed.clone(),
        settings,
        remote,
        details: Vec::new(),
        references: Vec::new(),
        amounts_to: Vec::new(),
    };
    task.write().map_err(failed)?;
    task.helper("look", Some(client))?;
    task.see()?;
    Ok(task)
}

impl Task {
    /// Reads what a supervisor has written down.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be read.
    pub fn read(place: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(place.join("task.json"))?)?)
    }

    fn write(&self) -> io::Result<()> {
        for directory in ["git", "out", "hooks", "known"] {
            fs::create_dir(self.place.join(directory))?;
        }
        fs::write(self.place.join("task.json"), serde_json::to_vec(self)?)
    }

    /// Returns what logs git in, for the process above its scratch sandbox, where that is asked for when
    /// it is needed.
    ///
    /// # Errors
    /// Returns an error if there is no login for a push; git cannot be started.
    pub(crate) fn login(&self, context: &Context) -> io::Result<Vec<(&'static str, OsString)>> {
        let Some(remote) = self.remote.as_ref().filter(|remote| remote.asks_helpers()) else {
            return Ok(Vec::new());
        };
        match helper::login(&remote.url, context)? {
            Some(login) => Ok(login.into()),
            None if self.doing == Doing::Push => {
                let url = shown_url(&remote.url);
                Err(io::Error::other(format!(
                    "its user's credential helpers have no login for {url}"
                )))
            }
            None => Ok(Vec::new()),
        }
    }

    /// Returns the settings of the git directory, as a file's.
    pub fn git_settings(&self) -> impl Iterator<Item = GitSetting> + '_ {
        self.settings
            .iter()
            .map(|(key, value)| GitSetting { key: key.clone(), value: value.clone() })
    }

    /// Runs a stage in a process of its own: a boundary starts from one with one thread. What the
    /// sandbox wrote can make git wait for ever, so it is ended when who asked has gone, and after
    /// a time.
    fn helper(&self, stage: &str, client: Option<&Client>) -> Result<(), Refusal> {
        /// Far more than it takes to look at a large repository.
        const PATIENCE: Duration = Duration::from_secs(30);
        let refused = |error: io::Error| Refusal::new(format!("git cannot be looked at: {error}"));
        let (said, output) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| refused(errno.into()))?;
        let parent = std::process::id().to_string();
        let arguments =
            ["host-git".as_ref(), parent.as_ref(), stage.as_ref(), self.place.as_os_str()];
        let mut child = start_own(&arguments, output).map_err(refused)?;
        let process = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(|errno| refused(errno.into()))?;
        let mut wanted = vec![PollFd::new(&process, PollFlags::IN)];
        wanted.extend(client.map(Client::until_gone));
        let patience = timespec(PATIENCE);
        let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut wanted, Some(&patience)));
        if wanted[0].revents().is_empty() {
            // It has not been waited for, so the id is its own.
            let _ = child.kill();
        }
        let status = child.wait().map_err(refused)?;
        let mut words = Vec::new();
        // What it managed to say is what there is.
        let _ = File::from(said).take(64 << 10).read_to_end(&mut words);
        match status.code() {
            Some(0) => Ok(()),
            Some(_) => Err(Refusal::new(self.said(&words))),
            None => Err(Refusal::new("git took too long to look at the repository")),
        }
    }

    /// Returns why a stage failed: git's own words, if it is git that had any.
    fn said(&self, stderr: &[u8]) -> String {
        let said = self.read_out("said").unwrap_or_default();
        let url = self.remote.as_ref().map_or(String::new(), |remote| shown_url(&remote.url));
        if said.trim().is_empty() {
            return line(String::from_utf8_lossy(stderr).trim().as_bytes());
        }
        let lines: Vec<String> =
            said.lines().map(|one| line(one.as_bytes()).replace("/q/known", &url)).collect();
        format!("git would not do it:\n{}", lines.join("\n"))
    }

    /// Takes up what was found out.
    fn see(&mut self) -> Result<(), Refusal> {
        let Some(remote) = &self.remote else { return Ok(()) };
        let to = if self.doing == Doing::Push { "to" } else { "from" };
        let mut details = vec![format!("{to} {}", shown_url(&remote.url))];
        if remote.asks_helpers() {
            details.push("logged in by your own git's credential helper".to_owned());
        }
        if self.doing != Doing::Push {
            self.details = details;
            return Ok(());
        }
        let moves = parse_moves(&self.read_out("moves")?);
        if moves.is_empty() {
            details.push("nothing is new, as far as this repository knows the remote".to_owned());
        }
        let forced = self.read_out("forced")?;
        details.extend(moves.iter().map(|one| one.shown(&forced)));
        let commits = self.read_out("commits")?;
        let all: Vec<&str> = commits.lines().collect();
        if !all.is_empty() {
            details.push(format!("{} new:", counted(all.len() as u64, "commit")));
        }
        details
            .extend(all.iter().take(MOST_NAMED).map(|one| format!("  {}", line(one.as_bytes()))));
        if all.len() > MOST_NAMED {
            details.push(format!("  … and {} before these", all.len() - MOST_NAMED));
        }
        let approved: String = moves.iter().map(Move::line).collect();
        // Out of the reach of every scratch sandbox except reading.
        fs::write(self.place.join("approved"), approved).map_err(Refusal::new)?;
        fs::write(self.place.join("ids"), self.read_out("ids")?).map_err(Refusal::new)?;
        if self.place.join("out/unproven").exists() {
            fs::write(self.place.join("unproven"), "").map_err(Refusal::new)?;
        }
        let is_forced = moves.iter().any(|one| one.is_forced(&forced));
        let force = FORCE.iter().filter(|_| is_forced);
        let is_deleted = moves.iter().any(|one| Move::is_none(&one.object));
        let delete = DELETE.iter().filter(|_| is_deleted);
        self.amounts_to = force.chain(delete).map(|option| (*option).to_owned()).collect();
        self.references = moves.into_iter().map(|one| one.to).collect();
        self.details = details;
        Ok(())
    }

    fn read_out(&self, name: &str) -> Result<String, Refusal> {
        const LONGEST: u64 = 16 << 20;
        let bytes = pinfold_host::beneath::open_directory(&self.place.join("out"))
            .map_err(|errno| errno.to_string())
            .and_then(|out| {
                let read = pinfold_host::beneath::read_bounded(out, Path::new(name), LONGEST);
                read.map_err(|unread| format!("{name} {unread}"))
            })
            .map_err(Refusal::new)?;
        Ok(bytes.map_or_else(String::new, |it| String::from_utf8_lossy(&it.bytes).into_owned()))
    }

    /// Tells the sandbox's own git what has come of it: where the remote's references are now, and
    /// what was fetched. The sandbox takes it up by itself.
    pub(crate) fn report(&self, client: &Client, deadline: Instant) {
        let Some(remote) = &self.remote else { return };
        if self.doing == Doing::Ask {
            return;
        }
        let Ok(moved) = self.moved(&remote.name) else { return };
        if self.doing == Doing::Fetch
            && (self.helper("pack", None).is_err() || self.send_pack(client, deadline).is_err())
        {
            return;
        }
        // A client that has gone is sent nothing more.
        for (reference, object) in moved {
            let _ = client.say(&Reply::Tracking { reference, object }, deadline);
        }
        for branch in self.followed().unwrap_or_default() {
            let _ = client.say(&branch, deadline);
        }
    }

    /// Returns the branches that git has made follow another (`push --set-upstream`).
    fn followed(&self) -> io::Result<Vec<Reply>> {
        let config = Config::parse(&fs::read(self.place.join("git/config"))?);
        let is_new = |one: &&GitSetting| !self.git_settings().any(|old| old == **one);
        let mut upstreams = Vec::new();
        for one in config.settings.iter().filter(is_new) {
            let Some(("branch", Some(branch), "merge")) = split(&one.key) else { continue };
            let remote = config.last(&format!("branch.{branch}.remote"));
            let texts = (remote.and_then(|it| it.into_string().ok()), one.value.clone());
            if let (Some(remote), Some(Ok(merge))) = (texts.0, texts.1.map(String::from_utf8)) {
                upstreams.push(Reply::Upstream { branch: branch.to_owned(), remote, merge });
            }
        }
        Ok(upstreams)
    }

    fn send_pack(&self, client: &Client, deadline: Instant) -> Result<(), ()> {
        let Ok(mut pack) = File::open(self.place.join("out/pack")) else { return Ok(()) };
        let mut buffer = vec![0; MAX_DATA];
        loop {
            match pack.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let part = Reply::Pack(buffer[..count].to_vec());
                    client.say(&part, deadline).map_err(drop)?;
                }
                Err(_) => return Err(()),
            }
        }
    }

    /// References of a remote's, and tags, that git has written in its scratch sandbox.
    pub fn moved(&self, remote: &str) -> io::Result<BTreeMap<String, String>> {
        let mut moved = BTreeMap::new();
        for below in [format!("refs/remotes/{remote}"), "refs/tags".to_owned()] {
            self.loose(&below, &mut moved)?;
        }
        Ok(moved)
    }

    fn loose(&self, below: &str, into: &mut BTreeMap<String, String>) -> io::Result<()> {
        let directory = self.place.join("git").join(below);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_component(name)) else { continue };
            let (name, kind) = (format!("{below}/{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.loose(&name, into)?;
            } else if let Some(object) = pointer::line(&entry.path(), b"") {
                let object = object.to_string_lossy().into_owned();
                if is_object(&object) {
                    into.insert(name, object);
                }
            }
        }
        Ok(())
    }
}

/// Returns a URL without the password that may be in it.
pub(crate) fn shown_url(url: &str) -> String {
    let shown = match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            match rest[..end].rsplit_once('@') {
                Some((user, host)) => {
                    let user = user.split(':').next().unwrap_or_default();
                    format!("{scheme}://{user}@{host}{}", &rest[end..])
                }
                None => url.to_owned(),
            }
        }
        None => url.to_owned(),
    };
    line(shown.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        assert_eq!(shown_url("https://me:secret@h.example/x@y"), "https://me@h.example/x@y");
        assert_eq!(shown_url("git@h.example:x"), "git@h.example:x");
    }
}
