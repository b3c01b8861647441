//! Authorities in the caller's own settings of git, npm and pip.
//!
//! Of these files only the names of files with certificates count, and `ca` of npm, which is certificates
//! itself: they hold tokens, too. A session gets git's as a setting of its own, and the others as variables.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use pinfold_git::config::{Config, OF_THE_MACHINE};
use pinfold_git::user_config::{self, expanded};
use pinfold_host::directories::Places;
use zeroize::Zeroizing;

/// Git's setting, also for one URL (git-config(1)).
const GIT_FILE: &str = ".sslcainfo";
const GIT_DIRECTORY: &str = ".sslcapath";
/// The same for pip, of the whole machine (pip's documentation, "Configuration").
const PIP_OF_MACHINE: &str = "/etc/pip.conf";
/// What pip reads instead, or in addition.
const PIP_VARIABLE: &str = "PIP_CONFIG_FILE";
/// What npm reads instead of `~/.npmrc`.
const NPM_VARIABLE: &str = "npm_config_userconfig";

/// What names authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A variable of the caller's.
    Variable(&'static str),
    /// A setting of git's, by its canonical key.
    Git(String),
    /// `cafile` or `ca` of npm.
    Npm,
    /// `cert` of pip, with its section.
    Pip(String),
}

impl Source {
    /// Returns the variable that says the same, if there is one.
    pub(super) fn variable(&self) -> Option<&'static str> {
        match self {
            Self::Variable(name) => Some(name),
            Self::Git(_) => None,
            Self::Npm => Some("npm_config_cafile"),
            Self::Pip(_) => Some("PIP_CERT"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Git(key) => write!(f, "{} of git", key.escape_debug()),
            Self::Npm => f.write_str("cafile of npm"),
            Self::Pip(section) => write!(f, "cert of pip ([{}])", section.escape_debug()),
        }
    }
}

/// What a source names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    File(PathBuf),
    /// Certificates themselves.
    Text(Vec<u8>),
}

/// What the settings name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) named: Vec<(Source, Named)>,
    /// Directories, each as the setting has it.
    pub(super) directories: Vec<(Source, OsString)>,
    /// Where settings are read that are there, or that a variable names.
    pub(super) files: Vec<PathBuf>,
}

/// Reads the caller's settings.
pub(super) fn find(places: &Places, variable: impl Fn(&str) -> Option<OsString>) -> Settings {
    let home = places.home.as_path();
    let named = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let own_git = user_config::files_of(places, &variable);
    let mut found = git(&own_git, home, &variable);
    let npm = named(NPM_VARIABLE).unwrap_or_else(|| home.join(".npmrc"));
    found.named.extend(self::npm(&text(&npm), home, &variable));
    let config = places.config.parent().unwrap_or(home).join("pip/pip.conf");
    let own = [PIP_OF_MACHINE.into(), home.join(".pip/pip.conf"), config];
    let pip: Vec<PathBuf> = own.into_iter().chain(named(PIP_VARIABLE)).collect();
    found.named.extend(self::pip(pip.iter().map(|file| text(file)), home));
    let of_variables =
        [user_config::VARIABLE, NPM_VARIABLE, PIP_VARIABLE].into_iter().filter_map(named);
    // In a directory that a variable names, what is missing can be made as well.
    let by_variable = named("XDG_CONFIG_HOME");
    let is_named = |file: &PathBuf| by_variable.as_ref().is_some_and(|it| file.starts_with(it));
    let all = own_git.into_iter().chain([npm]).chain(pip);
    let there = all.filter(|file| file.exists() || is_named(file));
    found.files = there.chain(of_variables).collect();
    found
}

/// Returns what a file of settings says; nothing if it cannot be read.
pub(super) fn text(file: &Path) -> Zeroizing<String> {
    let bytes = Zeroizing::new(super::read(file).unwrap_or_default());
    Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned())
}

fn git(own: &[PathBuf], home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Settings {
    let mut all = Config::of([PathBuf::from(OF_THE_MACHINE)].iter().chain(own));
    all.settings.extend(user_config::of_variables(variable));
    let mut found = Settings::default();
    for setting in &all.settings {
        let Some(value) = setting.value.as_ref().filter(|_| setting.key.starts_with("http."))
        else {
            continue;
        };
        let source = Source::Git(setting.key.clone());
        // The last one wins, an empty one means none.
        if setting.key.ends_with(GIT_FILE) {
            found.named.retain(|(known, _)| *known != source);
            if !value.is_empty() {
                let path = expanded(Path::new(OsStr::from_bytes(value)), home);
                found.named.push((source, Named::File(path)));
            }
        } else if setting.key.ends_with(GIT_DIRECTORY) {
            found.directories.retain(|(known, _)| *known != source);
            found
                .directories
                .push((source, expanded(Path::new(OsStr::from_bytes(value)), home).into()));
        }
    }
    found
}

/// Reads an ini file of npm's, whose last setting wins; of `ca` there may be several (`ca[]`).
fn npm(
    text: &str,
    home: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<(Source, Named)> {
    let (mut file, mut certificates) = (None, String::new());
    for (section, key, value) in lines(text) {
        if !section.is_empty() {
            continue;
        }
        let value = value.trim_matches(|quote| quote == '"' || quote == '\'');
        match key {
            "cafile" => file = Some(with_variables(value, &variable)),
            "ca" | "ca[]" => certificates += &format!("{}\n", value.replace("\\n", "\n")),
            _ => {}
        }
    }
    let file = file.filter(|file| !file.is_empty());
    let is_any = certificates.contains("-----BEGIN");
    let text = is_any.then(|| Named::Text(certificates.into_bytes()));
    // npm takes `cafile` where it has both.
    let file = file.map(|file| Named::File(expanded(Path::new(&file), home)));
    file.or(text).map(|named| (Source::Npm, named))
}

/// Puts in the variables that npm does (`${NAME}`).
fn with_variables(value: &str, variable: impl Fn(&str) -> Option<OsString>) -> OsString {
    let mut whole = Vec::new();
    let mut rest = value;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, named)| Some((before, named.split_once('}')?)))
    {
        whole.extend(before.bytes());
        whole.extend(variable(name).map_or_else(Vec::new, OsString::into_vec));
        rest = after;
    }
    whole.extend(rest.bytes());
    OsString::from_vec(whole)
}

/// Reads files of pip's, whose last setting wins. One for a command, such as `[install]`, wins over `[global]`.
fn pip(texts: impl Iterator<Item = Zeroizing<String>>, home: &Path) -> Option<(Source, Named)> {
    const ALL: &str = "global";
    let mut found = None;
    for text in texts {
        for (section, _, value) in lines(&text).filter(|(_, key, _)| *key == "cert") {
            let is_for_one = |(source, _): &(Source, Named)| *source != Source::Pip(ALL.to_owned());
            if section != ALL || !found.as_ref().is_some_and(is_for_one) {
                let path = expanded(Path::new(value), home);
                found = Some((Source::Pip(section.to_owned()), Named::File(path)));
            }
        }
    }
    found
}

/// Returns section, key and value of each setting of an ini file.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
            return None;
        }
        if line.starts_with(['#', ';']) {
            return None;
        }
        let at = line.find(['=', ':'])?;
        let (key, value) = line.split_at(at);
        Some((section, key.trim(), value.get(1..)?.trim()))
    })
}

#[cfg(test)]
mod tests;
