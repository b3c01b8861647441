//! Files that the shell's directory hook loads because `.envrc` (direnv) or `mise.toml` names them.
//!
//! A user trusts `.envrc` by its content, and direnv runs what it names whatever that is by then. The settings are read as they are
//! at the start, as words and not as a shell would: a word too much costs a line at the end.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::file_id::Moment;
use pinfold_policy::authority::{Reason, Why};
use rustix::io::Errno;

use self::patterns::patterns;
use crate::restrict::resolve;
use crate::stand_in::read;

mod patterns;

/// Settings of a directory hook, which also counts in directories below.
const SETTINGS: [&str; 3] = [".envrc", "mise.toml", ".mise.toml"];
/// A variable with a file that each `bash` loads before its script (bash(1)).
const OF_SHELLS: &str = "BASH_ENV";
/// Words before the files that they load: direnv-stdlib(1), and mise's `env._`.
const LOADERS: [&str; 12] = [
    ".",
    "source",
    "source_env",
    "source_env_if_exists",
    "dotenv",
    "dotenv_if_exists",
    "_.source",
    "_.file",
    "env._.source",
    "env._.file",
    "path",
    OF_SHELLS,
];
/// Commands that run or print what they name: a file of any name counts after them, if it is there.
const RUNNERS: [&str; 10] =
    ["eval", "cat", "sh", "bash", "zsh", "python", "python3", "node", "perl", "ruby"];
/// Commands that run nothing of what they name.
const HARMLESS: [&str; 8] =
    ["export", "watch_file", "watch_dir", "PATH_add", "path_add", "MANPATH_add", "layout", "unset"];
/// Words that stand for files: `use flake`, `use nix`, `dotenv`.
const IMPLIED: [(&str, &str); 5] = [
    ("flake", "flake.nix"),
    ("flake", "flake.lock"),
    ("nix", "shell.nix"),
    ("nix", "default.nix"),
    ("dotenv", ".env"),
];
const SCRIPTS: [&str; 9] = ["sh", "bash", "zsh", "py", "rb", "js", "mjs", "pl", "nix"];
/// What parts words in a shell and in TOML.
const BETWEEN: &str = " \t\"'`;&|()<>{}[]$=,";
/// Files that are read.
const MOST_FILES: usize = 64;
/// Words that are looked up.
const MOST_WORDS: usize = 4096;
/// Words of one file that may name a directory.
const MOST_PARTS: usize = 1 << 15;
/// Directories that words of one file name.
const MOST_DIRECTORIES: usize = 8;
/// Files of one directory that a pattern means.
const MOST_MATCHES: usize = 256;

/// What becomes of such a file.
pub const BECOMES: &str = "direnv or mise loads it at your next prompt";

/// Files that are loaded, each as it was at the start. A directory above one can be replaced by an older one: the change time of
/// the file says nothing then.
pub type Loaded = Vec<(PathBuf, Option<Moment>)>;

/// Returns those that are there and not as they were, or of which nobody can say so any more.
#[must_use]
pub fn changed(loaded: &Loaded) -> Vec<&PathBuf> {
    let is_changed = |path: &Path, then: Option<Moment>| match Moment::of(path) {
        Ok(now) => then != Some(now),
        Err(Errno::NOENT | Errno::NOTDIR) => false,
        Err(_) => then.is_some(),
    };
    loaded.iter().filter(|it| is_changed(&it.0, it.1)).map(|it| &it.0).collect()
}

/// Returns why such a file is not taken over.
#[must_use]
pub fn reason() -> Reason {
    Reason { why: Why::HostExecutes, text: BECOMES.into(), opt_in: None }
}

/// Returns the files in `is_meant` places that are loaded by these settings, and by those above these roots.
#[must_use]
pub fn loaded(
    settings: &[PathBuf],
    roots: &[PathBuf],
    is_meant: &dyn Fn(&Path) -> bool,
) -> BTreeSet<PathBuf> {
    let above = roots.iter().flat_map(|root| root.ancestors().skip(1));
    let above = above.flat_map(|directory| SETTINGS.map(|name| directory.join(name)));
    let mut search = Search { waiting: VecDeque::new(), seen: BTreeSet::new(), words: 0 };
    for file in settings.iter().cloned().chain(above) {
        search.add(file.clone(), &file);
    }
    let mut found = BTreeSet::new();
    while let Some((file, base)) = search.waiting.pop_front() {
        for path in search.named_in(&file, &base) {
            let way = resolve(&path);
            found.extend(way.links.into_iter().chain(way.end).filter(|it| is_meant(it)));
        }
    }
    found
}

struct Search {
    /// Files to read, each with the directory in which direnv loads it.
    waiting: VecDeque<(PathBuf, PathBuf)>,
    seen: BTreeSet<PathBuf>,
    words: usize,
}

impl Search {
    /// Has a file read that is loaded in the directory of another one.
    fn add(&mut self, file: PathBuf, by: &Path) {
        let base = by.parent().unwrap_or(by).to_owned();
        if self.seen.len() < MOST_FILES && self.seen.insert(file.clone()) {
            self.waiting.push_back((file, base));
        }
    }

    /// Returns the files that a file names, and directories of which it loads all.
    fn named_in(&mut self, file: &Path, base: &Path) -> Vec<PathBuf> {
        let content = resolve(file).end.and_then(|end| read(&end));
        let Some(text) = content else { return Vec::new() };
        let mut text = with_home(&String::from_utf8_lossy(&text));
        let is_toml = file.extension().is_some_and(|it| it == "toml");
        if !is_toml {
            let patterns = patterns(&text);
            text.push('\n');
            text.push_str(&patterns);
        }
        let lines: Vec<Line<'_>> = text.lines().map(Line::read).collect();
        let places = Places::of(file, base, if is_toml { &[] } else { &lines });
        // Then any word may be a part of the name, or a variable's value.
        let is_unknown = !is_toml && lines.iter().any(|line| line.loads_unknown(&places));
        let meant = |line: &'_ Line<'_>, word: &Word<'_>| match word.role {
            Role::Run if is_toml => Some(Role::Other),
            Role::Other if is_unknown => Some(Role::Run),
            role => Some(role).filter(|_| is_unknown || !line.is_harmless),
        };
        let all = lines.iter().flat_map(|line| line.words.iter().map(move |it| (line, it)));
        let all = all.filter_map(|(line, it)| Some((it.text, meant(line, it)?)));
        let all = all.filter(|(text, role)| places.may_have(text, *role));
        let words: Vec<_> = all.take(MOST_WORDS.saturating_sub(self.words)).collect();
        self.words += words.len();
        let mut found = Vec::new();
        for path in words.into_iter().flat_map(|(text, role)| places.files(text, role)) {
            if path.is_dir() && path.join(".envrc").exists() {
                self.add(path.join(".envrc"), &path.join(".envrc"));
                continue;
            }
            // A flake names sources of all kinds.
            if path.extension().is_none_or(|it| it != "nix" && it != "lock") {
                self.add(path.clone(), file);
            }
            found.push(path);
        }
        found
    }
}

/// Returns a text with the user's home in the place of what shells replace by it.
fn with_home(text: &str) -> String {
    let home = env::var("HOME").unwrap_or_default();
    let text = text.replace("${HOME}", &home).replace("$HOME", &home);
    text.replace(" ~/", &format!(" {home}/"))
}

/// What becomes of a file that a word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is loaded, and may be missing.
    Loaded,
    /// It is run or printed.
    Run,
    /// It counts if it is a script.
    Other,
}

impl Role {
    /// Returns the role of the words behind this one, which has this role itself.
    fn after(self, word: &str) -> Self {
        if self == Self::Loaded || LOADERS.contains(&word) {
            Self::Loaded
        } else if self == Self::Run || RUNNERS.contains(&word) {
            Self::Run
        } else {
            Self::Other
        }
    }

    /// Returns the role of what counts only if it is there.
    fn of_existing(self) -> Self {
        if self == Self::Loaded { Self::Run } else { self }
    }
}

#[derive(Debug)]
struct Word<'t> {
    text: &'t str,
    role: Role,
}

/// A line of settings or of a script.
#[derive(Debug)]
struct Line<'t> {
    words: Vec<Word<'t>>,
    /// Whether it runs nothing of what it names.
    is_harmless: bool,
    /// Whether a shell puts words of it together.
    has_expansions: bool,
}

impl<'t> Line<'t> {
    fn read(line: &'t str) -> Self {
        let parts: Vec<&str> =
            line.split(|it| BETWEEN.contains(it)).filter(|it| !it.is_empty()).collect();
        let has_expansions = line.contains(['`', '$', '*', '?']);
        let first = parts.first().copied().unwrap_or("#");
        if first.starts_with('#') {
            return Self { words: Vec::new(), is_harmless: true, has_expansions };
        }
        let is_one_command = !line.contains(['`', ';', '&', '|']) && !line.contains("$(");
        // The role of a word is given by the words before it.
        let mut role = Role::Other;
        let mut named = Vec::with_capacity(parts.len());
        for text in &parts {
            named.push(Word { text, role });
            role = role.after(text);
        }
        let implied = IMPLIED.iter().filter(|(word, _)| parts.contains(word));
        let implied = implied.map(|(_, file)| Word { text: file, role: Role::Loaded });
        // A name with blanks in it.
        let quoted = line.split(['"', '\'']).skip(1).step_by(2).filter(|it| it.contains(' '));
        let quoted = quoted.map(|text| Word { text, role: role.of_existing() });
        let words = named.into_iter().chain(implied).chain(quoted).collect();
        let is_harmless =
            is_one_command && HARMLESS.contains(&first) && !parts.contains(&OF_SHELLS);
        Self { words, is_harmless, has_expansions }
    }

    /// Returns whether it loads a file whose name is put together of parts that are not known.
    fn loads_unknown(&self, places: &Places) -> bool {
        let mut loaded = self.words.iter().filter(|it| it.role == Role::Loaded).peekable();
        let is_missing = |word: &Word<'_>| places.files(word.text, Role::Run).is_empty();
        self.has_expansions && loaded.peek().is_some() && loaded.all(is_missing)
    }
}

/// Directories in which a file's words are looked up.
#[derive(Debug)]
struct Places {
    /// Where direnv loads the file, and where the file lies.
    own: Vec<PathBuf>,
    /// Those that words of the file name: a shell may go there, or puts their names before others.
    named: Vec<PathBuf>,
}

impl Places {
    /// Returns those of a file that is loaded in a directory. A plain `source` in it is meant from there.
    fn of(file: &Path, base: &Path, lines: &[Line<'_>]) -> Self {
        let of_file = file.parent().filter(|own| *own != base).map(Path::to_owned);
        let own = [base.to_owned()].into_iter().chain(of_file).collect();
        let words = lines.iter().flat_map(|line| &line.words).take(MOST_PARTS);
        // `PATH` has several.
        let parts = words.flat_map(|word| word.text.split(':')).filter(|it| !it.is_empty());
        let directories = parts.map(|part| base.join(part)).filter(|it| it.is_dir());
        let named = directories.filter(|it| it != base).take(MOST_DIRECTORIES).collect();
        Self { own, named }
    }

    /// Returns whether a word has to be looked up. A plain word is no script of the file's own directory: shells look for it
    /// on `PATH`.
    fn may_have(&self, word: &str, role: Role) -> bool {
        !is_plain(word, role) || !self.named.is_empty()
    }

    /// Returns the files or directories that a word means. One that is loaded may be missing. In `$PWD/x` the first name is a
    /// variable's, so that what follows a slash counts, too.
    fn files(&self, word: &str, role: Role) -> Vec<PathBuf> {
        if word.contains(['*', '?']) {
            let meant = |base: &PathBuf| matching(base, word);
            return if role == Role::Other {
                Vec::new()
            } else {
                // `find lib -name '*.sh'`
                let named = self.named.iter().filter(|_| !word.contains('/'));
                self.own.iter().chain(named).flat_map(meant).collect()
            };
        }
        let is_meant = |path: &PathBuf| match role {
            Role::Loaded if path.is_dir() => path.join(".envrc").exists(),
            Role::Loaded => path.exists(),
            Role::Run => path.is_file(),
            Role::Other => is_script(path),
        };
        if role == Role::Run && !word.contains('/') {
            // `python -m lib.x`
            let module = word.replace('.', "/");
            let files = [module.clone() + ".py", module + "/__main__.py"];
            let all = self.own.iter().flat_map(|base| files.iter().map(|file| base.join(file)));
            let found: Vec<PathBuf> = all.filter(|it| it.is_file()).collect();
            if !found.is_empty() {
                return found;
            }
        }
        let own = self.own.iter().filter(|_| !is_plain(word, role));
        let rests = word.match_indices('/').map(|(at, _)| word[at + 1..].trim_start_matches('/'));
        let mut found = Vec::new();
        for base in own.chain(&self.named) {
            let whole = base.join(word);
            if is_meant(&whole) {
                found.push(whole);
                continue;
            }
            let rests = rests.clone().filter(|it| !it.is_empty()).map(|it| base.join(it));
            found.extend(rests.filter(is_meant));
        }
        if found.is_empty() && role == Role::Loaded {
            let missing = self.own.first().map(|base| base.join(word));
            found.extend(missing.filter(|it| !it.is_dir()));
        }
        found
    }
}

fn is_plain(word: &str, role: Role) -> bool {
    role == Role::Other && !word.contains(['.', '/'])
}

/// Returns the files that a pattern means, and their directory, where new ones may be made.
fn matching(base: &Path, pattern: &str) -> Vec<PathBuf> {
    let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let is_wild = |it: char| it == '*' || it == '?';
    let (Some(start), Some(end)) = (name.find(is_wild), name.rfind(is_wild)) else {
        return Vec::new();
    };
    let directory = resolve(&base.join(directory)).end.filter(|it| it.is_dir());
    let Some(directory) = directory else { return Vec::new() };
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let is_meant = |path: &PathBuf| {
        let entry = path.file_name().unwrap_or_default().to_string_lossy();
        entry.starts_with(&name[..start]) && entry.ends_with(&name[end + 1..]) && path.is_file()
    };
    let files = entries.map(|it| it.path()).filter(is_meant).take(MOST_MATCHES);
    let has_more = Some(directory.clone()).filter(|it| !base.starts_with(it));
    files.collect::<Vec<_>>().into_iter().chain(has_more).collect()
}

fn is_script(path: &Path) -> bool {
    let has_name = path.extension().is_some_and(|it| SCRIPTS.iter().any(|known| it == *known));
    fs::metadata(path)
        .is_ok_and(|it| it.is_file() && (has_name || it.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests;
