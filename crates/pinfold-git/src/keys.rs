//! Which settings of a repository the host takes over from the sandbox's private copy.
//!
//! The table lists what is harmless; everything else stays inside. A key is harmless when no
//! value of it makes git run a program, read a file as configuration, leave the repository, or
//! weaken a check (git-config(1) of git 2.47, reviewed key by key).

use crate::config::{Setting, split};

/// What becomes of a setting that the sandbox changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The host takes it over.
    Take,
    /// git wrote it by itself about the place it ran in; the host has its own.
    OfThePlace,
    /// It stays inside.
    Keep,
}

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Any text on one line.
    Text,
    /// A number, a truth value or a word.
    Word,
    /// The name of a remote or branch: never a URL.
    Name,
    /// A reference or a mapping of references.
    Refs,
    /// Where a repository is: a known transport, or a path.
    Url,
}

/// Section, whether a subsection follows, name (`*` for any), form of the value.
type Row = (&'static str, bool, &'static str, Form);

const TAKEN: &[Row] = &[
    ("advice", false, "*", Form::Word),
    ("apply", false, "whitespace", Form::Word),
    ("branch", true, "description", Form::Text),
    ("branch", true, "github-pr-owner-number", Form::Text),
    ("branch", true, "merge", Form::Refs),
    ("branch", true, "pushremote", Form::Name),
    ("branch", true, "rebase", Form::Word),
    ("branch", true, "remote", Form::Name),
    ("branch", true, "vscode-merge-base", Form::Name),
    ("branch", false, "autosetupmerge", Form::Word),
    ("branch", false, "autosetuprebase", Form::Word),
    ("branch", false, "sort", Form::Word),
    ("color", false, "*", Form::Text),
    ("color", true, "*", Form::Text),
    ("column", false, "*", Form::Text),
    ("commit", false, "gpgsign", Form::Word),
    ("commit", false, "status", Form::Word),
    ("commit", false, "verbose", Form::Word),
    ("core", false, "abbrev", Form::Word),
    ("core", false, "autocrlf", Form::Word),
    ("core", false, "eol", Form::Word),
    ("core", false, "quotepath", Form::Word),
    ("core", false, "safecrlf", Form::Word),
    ("core", false, "sparsecheckout", Form::Word),
    ("core", false, "sparsecheckoutcone", Form::Word),
    ("core", false, "untrackedcache", Form::Word),
    ("diff", false, "algorithm", Form::Word),
    ("diff", false, "colormoved", Form::Word),
    ("diff", false, "context", Form::Word),
    ("diff", false, "mnemonicprefix", Form::Word),
    ("diff", false, "noprefix", Form::Word),
    ("diff", false, "renames", Form::Word),
    ("fetch", false, "prune", Form::Word),
    ("fetch", false, "prunetags", Form::Word),
    ("gc", false, "auto", Form::Word),
    ("index", false, "sparse", Form::Word),
    ("index", false, "version", Form::Word),
    ("init", false, "defaultbranch", Form::Name),
    ("log", false, "abbrevcommit", Form::Word),
    ("log", false, "date", Form::Text),
    ("log", false, "decorate", Form::Word),
    ("log", false, "follow", Form::Word),
    ("merge", false, "conflictstyle", Form::Word),
    ("merge", false, "ff", Form::Word),
    ("merge", false, "log", Form::Word),
    ("pull", false, "ff", Form::Word),
    ("pull", false, "rebase", Form::Word),
    ("push", false, "autosetupremote", Form::Word),
    ("push", false, "default", Form::Word),
    ("push", false, "followtags", Form::Word),
    ("rebase", false, "autosquash", Form::Word),
    ("rebase", false, "autostash", Form::Word),
    ("rebase", false, "missingcommitscheck", Form::Word),
    ("rebase", false, "stat", Form::Word),
    ("rebase", false, "updaterefs", Form::Word),
    ("remote", false, "pushdefault", Form::Name),
    ("remote", true, "fetch", Form::Refs),
    ("remote", true, "gh-resolved", Form::Word),
    ("remote", true, "mirror", Form::Word),
    ("remote", true, "partialclonefilter", Form::Word),
    ("remote", true, "promisor", Form::Word),
    ("remote", true, "prune", Form::Word),
    ("remote", true, "push", Form::Refs),
    ("remote", true, "pushurl", Form::Url),
    ("remote", true, "skipdefaultupdate", Form::Word),
    ("remote", true, "skipfetchall", Form::Word),
    ("remote", true, "tagopt", Form::Text),
    ("remote", true, "url", Form::Url),
    ("rerere", false, "autoupdate", Form::Word),
    ("rerere", false, "enabled", Form::Word),
    ("status", false, "*", Form::Word),
    ("submodule", false, "active", Form::Refs),
    ("submodule", false, "recurse", Form::Word),
    ("submodule", true, "active", Form::Word),
    ("submodule", true, "branch", Form::Name),
    ("submodule", true, "fetchrecursesubmodules", Form::Word),
    ("submodule", true, "ignore", Form::Word),
    ("submodule", true, "shallow", Form::Word),
    ("submodule", true, "update", Form::Word),
    ("submodule", true, "url", Form::Url),
    ("tag", false, "gpgsign", Form::Word),
    ("tag", false, "sort", Form::Word),
    ("user", false, "email", Form::Text),
    ("user", false, "name", Form::Text),
    ("user", false, "signingkey", Form::Name),
    ("user", false, "useconfigonly", Form::Word),
];

/// What `git init` and `git clone` write about the file system and the format.
const OF_THE_PLACE: &[(&str, &[&str])] = &[
    ("core.repositoryformatversion", &["0", "1"]),
    ("core.filemode", &["true", "false"]),
    ("core.bare", &["true", "false"]),
    ("core.logallrefupdates", &["true", "false", "always"]),
    ("core.symlinks", &["true", "false"]),
    ("core.ignorecase", &["true", "false"]),
    ("core.precomposeunicode", &["true", "false"]),
    ("extensions.objectformat", &["sha1", "sha256"]),
    ("extensions.refstorage", &["files", "reftable"]),
];

/// The only transports that are taken over: what git itself speaks (gitprotocol-common(5)).
const TRANSPORTS: [&str; 5] = ["https", "http", "ssh", "git", "file"];
/// Longer values are no settings.
const LONGEST: usize = 4096;

/// Returns what becomes of a setting.
pub fn judge(setting: &Setting) -> Verdict {
    let value = setting.value.as_deref().unwrap_or(b"true");
    let is_of_the_place = OF_THE_PLACE.iter().any(|(key, values)| {
        *key == setting.key && values.iter().any(|known| known.as_bytes() == value)
    });
    if is_of_the_place {
        return Verdict::OfThePlace;
    }
    let Some((section, subsection, name)) = split(&setting.key) else { return Verdict::Keep };
    let row = TAKEN.iter().find(|(of, has_subsection, known, _)| {
        *of == section
            && *has_subsection == subsection.is_some()
            && (*known == "*" || *known == name)
    });
    let named = subsection.is_none_or(|name| !name.starts_with('-') && is_line(name.as_bytes()));
    match row {
        Some((.., form)) if named && form.fits(value) => Verdict::Take,
        _ => Verdict::Keep,
    }
}

impl Form {
    fn fits(self, value: &[u8]) -> bool {
        if !is_line(value) {
            return false;
        }
        let plain = |more: &[u8]| {
            let fits = |byte: &u8| byte.is_ascii_alphanumeric() || more.contains(byte);
            !value.starts_with(b"-") && value.iter().all(fits)
        };
        match self {
            Self::Text => true,
            Self::Word => plain(b"._-+:,=%/"),
            Self::Name => plain(b"._-+/@#="),
            Self::Refs => plain(b"._-+/@#=*:^~"),
            Self::Url => is_url(value),
        }
    }
}

fn is_line(value: &[u8]) -> bool {
    value.len() <= LONGEST && !value.iter().any(u8::is_ascii_control)
}

/// Returns whether this is a plain URL: git hands `name::rest` to a program `git-remote-name`, and what
/// begins with a dash may become
/// an option of ssh (CVE-2017-1000117).
fn is_url(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    if value.is_empty() || value.starts_with('-') || value.contains("::") {
        return false;
    }
    match value.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            TRANSPORTS.contains(&scheme) && !rest.starts_with('-') && !host.starts_with('-')
        }
        None => {
            let host = value.split(':').next().unwrap_or(value);
            !host.rsplit('@').next().unwrap_or(host).starts_with('-')
        }
    }
}

#[cfg(test)]
mod tests;
