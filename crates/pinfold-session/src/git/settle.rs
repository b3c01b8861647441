//! After everything inside has ended: what the host takes over from the private copies.
//!
//! The copies are read as data and compared with what they were; the host's own git then sets
//! the harmless settings that changed, one command each. Hooks and all other settings stay
//! inside and are reported.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use pinfold_policy::protect::{GIT_CONFIG, GIT_HOOKS};

use super::change::Change;
use super::config::{Config, Setting, split};
use super::directory::{CONFIGS, LINK, Repository};
use super::keys::{Verdict, judge};
use super::read::{Content, open_directory, read_beneath};
use crate::github::{repositories, repository};

/// Something that the inside wrote and the host did not take.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept {
    /// What.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: Cow<'static, str>,
    /// What lets it through another time.
    pub(crate) opt_in: Option<Cow<'static, str>>,
}

impl Kept {
    pub(crate) fn new(what: String, why: &'static str) -> Self {
        Self { what, why: why.into(), opt_in: None }
    }
}

/// What came of a session's private copies.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Settings that the host has now, for those whose change a person should see.
    pub(crate) taken: Vec<String>,
    pub(crate) kept: Vec<Kept>,
    /// A line about what was changed that tools run.
    pub(crate) built: Option<String>,
}

impl Settled {
    /// What a person should know, one line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let taken = self.taken.iter().map(|what| format!("taken over: {what}"));
        let kept = self.kept.iter().map(|Kept { what, why, opt_in }| match opt_in {
            Some(opt_in) => format!("not taken over: {what}: {why} (--opt-in {opt_in} allows it)"),
            None => format!("not taken over: {what}: {why}"),
        });
        taken.chain(kept).chain(self.built.clone()).collect()
    }
}

/// More hooks are not listed.
const MOST_LISTED: usize = 64;

/// What the host goes by when it takes settings over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The host's own program.
    pub(crate) git: Option<&'a Path>,
    /// Whether there is a token for GitHub, which git may have for the remotes of a repository:
    /// then the inside names none there.
    pub(crate) fixed_remotes: bool,
}

/// Settles one repository.
pub(crate) fn settle(repository: &Repository, terms: Terms<'_>, settled: &mut Settled) {
    let Ok(private) = open_directory(&repository.private) else { return };
    for name in CONFIGS {
        let copy = repository.copies.iter().find(|(copied, _)| copied == Path::new(name));
        let Some((_, before)) = copy else { continue };
        let file = repository.host.join(name);
        let now = match read_beneath(&private, Path::new(name)) {
            Ok(Some(now)) if now.bytes == before.bytes => continue,
            Ok(Some(now)) => now,
            Ok(None) => continue,
            Err(unread) => {
                let what = format!("{}: the inside's copy {unread}", file.display());
                settled.kept.push(Kept::new(what, "it cannot be read"));
                continue;
            }
        };
        let (before, now) = (Config::parse(&before.bytes), Config::parse(&now.bytes));
        if now.broken || before.broken {
            let what = format!("changes of {}", file.display());
            settled.kept.push(Kept::new(what, "it is not well-formed"));
            continue;
        }
        let take = carried(&file, &before, &now, terms, settled);
        if !take.is_empty() {
            set(repository, name, &take, terms, settled);
        }
    }
    new_hooks(repository, settled);
}

/// A setting that the host is to have.
struct Take<'a> {
    key: &'a str,
    values: Vec<Setting>,
    /// As people see it.
    shown: String,
    /// Whether a person is told that it was taken.
    is_told: bool,
}

/// What of the changes the host is to have.
fn carried<'a>(
    file: &Path,
    before: &'a Config,
    now: &'a Config,
    terms: Terms<'_>,
    settled: &mut Settled,
) -> Vec<Take<'a>> {
    let remotes = if terms.fixed_remotes { new_remotes(before, now) } else { BTreeSet::new() };
    let keys: BTreeSet<&str> =
        before.settings.iter().chain(&now.settings).map(|setting| setting.key.as_str()).collect();
    let mut take = Vec::new();
    for key in keys {
        let of = |config: &Config| -> Vec<_> {
            config.settings.iter().filter(|setting| setting.key == key).cloned().collect()
        };
        let (old, new) = (of(before), of(now));
        if old == new {
            continue;
        }
        // A setting that is gone is judged by what it was.
        let judged = if new.is_empty() { &old } else { &new };
        let shown = format!("{} in {}", key.escape_debug(), file.display());
        let remote = split(key).filter(|(section, ..)| *section == "remote");
        if remote.and_then(|(_, name, _)| name).is_some_and(|name| remotes.contains(name)) {
            let why = "git would have the token for GitHub there; if it should, set it on the host";
            settled.kept.push(Kept::new(shown, why));
        } else if judged.iter().all(|setting| judge(setting) == Verdict::Take) {
            let is_told = redirects(key) && !old.is_empty();
            take.push(Take { key, values: new, shown, is_told });
        } else if judged.iter().any(|setting| judge(setting) != Verdict::OfThePlace) {
            let why = "it may run a program or lead git elsewhere";
            settled.kept.push(Kept {
                what: shown,
                why: why.into(),
                opt_in: Some(GIT_CONFIG.into()),
            });
        }
    }
    take
}

/// Has the host take them over, and tells what became of them.
fn set(
    repository: &Repository,
    name: &'static str,
    take: &[Take<'_>],
    terms: Terms<'_>,
    settled: &mut Settled,
) {
    let said = match change(repository, name, take, terms.git) {
        Ok(said) => said,
        Err(error) => vec![Err(error); take.len()],
    };
    for (one, said) in take.iter().zip(said) {
        match said {
            Ok(()) if one.is_told => settled.taken.push(one.shown.clone()),
            Ok(()) => {}
            Err(error) => {
                let what = format!("{} ({error})", one.shown);
                settled.kept.push(Kept::new(what, "git could not set it"));
            }
        }
    }
}

/// Sets them at once, but for those that git refuses; returns what it said of each.
fn change(
    repository: &Repository,
    name: &'static str,
    take: &[Take<'_>],
    git: Option<&Path>,
) -> Result<Vec<Result<(), String>>, String> {
    let git = git.ok_or("there is no git on the host")?;
    let directory = repository.anchor.open().map_err(|error| error.to_string())?;
    let change = Change::begin(git, directory, name, &repository.private)?;
    let set = |one: &Take<'_>| {
        let values: Vec<&[u8]> =
            one.values.iter().map(|it| it.value.as_deref().unwrap_or(b"true")).collect();
        change.set(one.key, &values)
    };
    let said = take.iter().map(set).collect();
    change.finish()?;
    Ok(said)
}

/// The names of remotes that now lead to repositories on github.com to which none led before.
fn new_remotes<'a>(before: &Config, now: &'a Config) -> BTreeSet<&'a str> {
    let known = repositories(before);
    let is_new = |setting: &&Setting| repository(setting).is_some_and(|one| !known.contains(&one));
    let remotes = now.settings.iter().filter(is_new);
    remotes.filter_map(|setting| split(&setting.key)?.1).collect()
}

/// Whether a changed setting sends what the person pushes or fetches elsewhere than before.
fn redirects(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    matches!(last, "url" | "pushurl" | "remote" | "pushremote" | "pushdefault")
}

/// Hooks that are new or changed.
fn new_hooks(repository: &Repository, settled: &mut Settled) {
    let Ok(private) = open_directory(&repository.private) else { return };
    let mut found = Vec::new();
    list(&repository.private.join("hooks"), Path::new("hooks"), &mut found);
    for relative in found {
        let copied = repository.copies.iter().find(|(copied, _)| *copied == relative);
        let path = repository.private.join(&relative);
        let now = match fs::read_link(&path) {
            Ok(target) => Some(Content { bytes: target.into_os_string().into_vec(), mode: LINK }),
            Err(_) => read_beneath(&private, &relative).ok().flatten(),
        };
        let is_same =
            copied.is_some_and(|(_, before)| now.is_some_and(|now| now.bytes == before.bytes));
        let is_sample = relative.extension().is_some_and(|end| end == "sample");
        if !is_same && !is_sample {
            let what = format!("hook {}", repository.host.join(relative).display());
            settled.kept.push(Kept {
                what,
                why: "git would run it on the host".into(),
                opt_in: Some(GIT_HOOKS.into()),
            });
        }
    }
}

/// Lists the files in a directory that the inside wrote; its links are not followed.
fn list(directory: &Path, relative: &Path, found: &mut Vec<PathBuf>) {
    if !fs::symlink_metadata(directory).is_ok_and(|entry| entry.is_dir()) {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = OsString::from_vec(entry.file_name().into_vec());
        let Ok(kind) = entry.file_type() else { continue };
        if found.len() == MOST_LISTED {
            return;
        } else if kind.is_dir() {
            list(&entry.path(), &relative.join(name), found);
        } else if kind.is_file() || kind.is_symlink() {
            found.push(relative.join(name));
        }
    }
}
