//! The repositories that a session began with.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;

use crate::config::{Config, Setting, split, write};
use crate::keys::{Verdict, judge};
use crate::pointer::{line, normal};
use crate::{github, user_config};

/// A working tree with its repository, as it was when the session began.
#[derive(Debug, Clone)]
pub struct Known {
    /// The top of the working tree.
    pub top: PathBuf,
    /// The git directory that the sandbox works on: the host's, or the copy. Of a linked worktree
    /// the one that all share.
    pub common: PathBuf,
    /// Where its HEAD is, below that.
    pub own: PathBuf,
    /// What is mounted inside for the copy's objects: where, and which directory of the host.
    pub borrowed: Vec<(PathBuf, PathBuf)>,
    /// What the host's configuration said.
    config: Config,
    /// Where the user's own configuration has remotes lead (`url.*.insteadOf`).
    user: Config,
}

impl Known {
    /// Reads what the host says of the repository at `git`, of which the sandbox has `copy` if it
    /// does not work on it directly.
    pub fn read(
        top: &Path,
        git: &Path,
        copy: Option<PathBuf>,
        borrowed: Vec<(PathBuf, PathBuf)>,
        places: &Places,
    ) -> Self {
        let common = common(git);
        let inside = copy.unwrap_or_else(|| git.to_owned());
        let inside_common = self::common(&inside);
        let own = inside.strip_prefix(&inside_common).unwrap_or(Path::new("")).to_owned();
        let user = Config::of(user_config::files(places));
        let config = github::configuration(&common);
        Self { top: top.to_owned(), common: inside_common, own, borrowed, config, user }
    }

    /// Returns the one whose working tree a directory lies in, the innermost. In a repository that was
    /// made since, nothing is the outer one's.
    pub fn of<'k>(all: &'k [Self], directory: &Path) -> Option<&'k Self> {
        let holds = |known: &&Self| directory.starts_with(&known.top);
        let known = all.iter().filter(holds).max_by_key(|known| known.top.as_os_str().len())?;
        let mut between = directory.ancestors().take_while(|above| *above != known.top);
        let is_made = |above: &Path| fs::symlink_metadata(above.join(".git")).is_ok();
        (!between.any(is_made)).then_some(known)
    }

    /// Returns the last value of a setting of the host's.
    pub fn setting(&self, key: &str) -> Option<String> {
        let value = self.config.last(key).or_else(|| self.user.last(key))?;
        value.into_string().ok()
    }

    /// Returns the values of a setting of the host's.
    pub fn all(&self, key: &str) -> Vec<String> {
        let settings = self.config.settings.iter().filter(|setting| setting.key == key);
        let value = |setting: &Setting| String::from_utf8(setting.value.clone()?).ok();
        settings.filter_map(value).collect()
    }

    /// Returns what stands in place of the beginning of a URL, by the host's and the user's settings
    /// (git-config(1), `url.<base>.insteadOf`). The longest beginning counts.
    pub fn instead(&self, url: &str, name: &str) -> Option<String> {
        let all = self.user.settings.iter().chain(&self.config.settings);
        let matching = all.filter_map(|setting| {
            let (section, base, key) = split(&setting.key)?;
            let begin = str::from_utf8(setting.value.as_deref()?).ok()?;
            let rest = url.strip_prefix(begin)?;
            let fits = section == "url" && key == name && !begin.is_empty();
            fits.then(|| (begin.len(), format!("{}{rest}", base.unwrap_or_default())))
        });
        matching.max_by_key(|(length, _)| *length).map(|(_, url)| url)
    }

    /// Settings of the host's repository that are harmless, except remotes, which are listed one by
    /// one.
    pub fn harmless(&self) -> Vec<Setting> {
        let is_remote = |setting: &Setting| {
            matches!(split(&setting.key), Some(("remote" | "submodule", Some(_), _)))
        };
        let taken = |setting: &&Setting| judge(setting) == Verdict::Take && !is_remote(setting);
        let format = |setting: &&Setting| setting.key.starts_with("extensions.objectformat");
        let all = self.config.settings.iter();
        all.filter(|setting| taken(setting) || format(setting)).cloned().collect()
    }
}

/// Returns the directory that all worktrees of a repository share (gitrepository-layout(5)).
fn common(git: &Path) -> PathBuf {
    match line(&git.join("commondir"), b"") {
        Some(named) => normal(&git.join(named)),
        None => git.to_owned(),
    }
}

/// Makes a git directory at `place` for programs on the host that run git: it has the remotes and the
/// name of the branch, and no objects.
///
/// # Errors
/// Returns the file system's error.
pub fn bare(known: &[Known], cwd: &Path, place: &Path) -> io::Result<PathBuf> {
    let git = place.join("git");
    for directory in [git.clone(), git.join("objects"), git.join("refs")] {
        fs::create_dir(directory)?;
    }
    let Some(known) = Known::of(known, cwd) else {
        // Not a repository, wherever below the workspace one is planted.
        fs::remove_dir_all(&git)?;
        return Ok(git);
    };
    let mut settings = known.harmless();
    let remotes = known.config.settings.iter().filter(|setting| {
        matches!(
            split(&setting.key),
            Some(("remote", Some(_), "url" | "pushurl" | "fetch" | "gh-resolved"))
        ) && judge(setting) == Verdict::Take
    });
    settings.extend(remotes.cloned());
    settings.extend(safe());
    fs::write(git.join("config"), write(&settings))?;
    let head = line(&known.common.join(&known.own).join("HEAD"), b"ref: refs/heads/");
    let branch = head.and_then(|head| head.into_os_string().into_string().ok());
    let is_branch = |name: &String| crate::refs::is_name(&format!("refs/heads/{name}"));
    let branch = branch.filter(is_branch).unwrap_or_else(|| "unknown".to_owned());
    fs::write(git.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
    Ok(git)
}

/// Settings of every git directory of ours.
pub fn safe() -> Vec<Setting> {
    let settings = [
        ("core.repositoryformatversion", "1"),
        ("core.bare", "false"),
        ("core.hookspath", "/dev/null"),
        ("core.fsmonitor", "false"),
        ("core.attributesfile", "/dev/null"),
        ("core.excludesfile", "/dev/null"),
        ("core.pager", "cat"),
        ("core.editor", "false"),
        ("core.askpass", ""),
        ("diff.ignoresubmodules", "all"),
        ("status.submodulesummary", "false"),
        ("submodule.recurse", "false"),
        ("fetch.recursesubmodules", "false"),
        ("push.recursesubmodules", "no"),
        ("push.gpgsign", "false"),
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        ("protocol.allow", "never"),
        ("protocol.https.allow", "always"),
        ("protocol.http.allow", "always"),
        ("protocol.ssh.allow", "always"),
        ("protocol.git.allow", "always"),
    ];
    let setting =
        |(key, value): (&str, &str)| Setting { key: key.to_owned(), value: Some(value.into()) };
    settings.map(setting).into()
}

/// Variables that keep git to a private git directory, whatever program starts it.
pub fn closed(git: &Path) -> Vec<(&'static str, OsString)> {
    vec![
        ("GIT_DIR", git.into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("GIT_NO_REPLACE_OBJECTS", "1".into()),
        ("GIT_OPTIONAL_LOCKS", "0".into()),
        ("GIT_ATTR_NOSYSTEM", "1".into()),
        ("GIT_PAGER", "cat".into()),
    ]
}
