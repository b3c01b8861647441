//! Which files of a repository its commands run.
//!
//! The commands are lines for a shell, and no shell is asked: what a word could name is taken for
//! named. Too much costs a question; too little would let a change pass unseen.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use pinfold_policy::glob::Glob;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::RepositoryError;
use super::content::{directory, open};

/// More directories than these that one command could stand in are not looked into.
const MOST_BASES: usize = 64;

/// The regular files of the repository that the commands run, relative to its root: files that a
/// word names, relative to the root, to directories that other words name (`cd web && ./build.sh`)
/// or after a variable, and that are programs: by their mode, their first two bytes or their ending,
/// or because an interpreter reads them. A pattern names what it matches. What such a file runs in
/// turn is not followed, nor a module that is named without its file.
///
/// # Errors
/// A root that cannot be opened.
pub(super) fn named_files<'a>(
    commands: impl Iterator<Item = &'a str>,
    root: &Path,
) -> Result<Vec<PathBuf>, RepositoryError> {
    let failed =
        |errno: Errno| RepositoryError::Read { path: root.to_owned(), cause: errno.into() };
    let mut files = BTreeSet::new();
    let mut top = None;
    for command in commands {
        let top = match &top {
            Some(top) => top,
            None => top.insert(directory(root).map_err(failed)?),
        };
        let words = words(command, root);
        let bases = bases(top, &words);
        for word in words.iter().filter(|word| !word.is_written) {
            for path in bases.iter().flat_map(|base| named(top, base, &word.path)) {
                match open(top, &path) {
                    Ok(Some((file, _))) if word.is_script || is_program(&path, &file) => {
                        files.insert(path);
                    }
                    // One that cannot be opened is told when it is hashed.
                    Err(_) => {
                        files.insert(path);
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// Directories that a command could stand in: those that its words name, one after the other.
fn bases(top: &OwnedFd, words: &[Word]) -> Vec<PathBuf> {
    let mut bases = vec![PathBuf::new()];
    for word in words {
        for at in 0..bases.len() {
            let Some(path) = below(&bases[at], &word.path) else { continue };
            if bases.len() < MOST_BASES && !bases.contains(&path) && is_directory(top, &path) {
                bases.push(path);
            }
        }
    }
    bases
}

/// What a word names in a directory: a path, or the files that a pattern matches.
fn named(top: &OwnedFd, base: &Path, word: &Path) -> Vec<PathBuf> {
    let Some(path) = below(base, word) else { return Vec::new() };
    let pattern = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !pattern.contains(['*', '?', '[']) {
        return vec![path];
    }
    let above = path.parent().unwrap_or(Path::new(""));
    // A pattern of another form may match anything.
    let glob = Glob::new(pattern).ok();
    let matches = |name: &OsString| glob.as_ref().is_none_or(|glob| glob.matches(name.as_ref()));
    let names = names(top, above).unwrap_or_default();
    names.into_iter().filter(matches).map(|name| above.join(name)).collect()
}

/// What could be a path in a command.
struct Word {
    path: PathBuf,
    /// Whether the command writes there.
    is_written: bool,
    /// Whether an interpreter reads it.
    is_script: bool,
}

/// The words of a command for a shell: what stands between blanks, quotes and the shell's own
/// characters, and what stands in quotes or with escapes, as a whole.
fn words(command: &str, root: &Path) -> Vec<Word> {
    const VARIABLES: [&str; 3] = ["MOLTNET_GUEST_WORKSPACE", "PINFOLD_WORKSPACE", "PWD"];
    let between = |c: char| c.is_whitespace() || "\"'`;|&()<>{}$=,\\".contains(c);
    let is_fed = is_fed(command);
    let mut last = "";
    let mut words = Vec::new();
    for word in command.split(between).filter(|word| !word.is_empty()) {
        let start = word.as_ptr() as usize - command.as_ptr() as usize;
        let before = command[..start].trim_end();
        let is_script = is_fed || before.ends_with('<') || reads_programs(last);
        // `bash -x script`: the interpreter is still meant.
        if !word.starts_with('-') && !VARIABLES.contains(&word) {
            last = word;
        }
        let path = Path::new(word);
        let is_written = before.ends_with('>');
        let mut add = |path: &Path| {
            // After a variable in braces or quotes the rest begins with a slash.
            let path = path.strip_prefix("/").unwrap_or(path).to_owned();
            if !path.as_os_str().is_empty() {
                words.push(Word { path, is_written, is_script });
            }
        };
        add(path.strip_prefix(root).unwrap_or(path));
        // A variable may hold any directory, the workspace or one that another word names.
        if before.ends_with('$')
            && let Some((_, rest)) = word.split_once('/')
        {
            add(Path::new(rest));
        }
    }
    let is_script = is_fed || command.split(between).any(reads_programs);
    words.extend(unquoted(command).into_iter().map(|word| {
        let path = Path::new(&word);
        let path = path.strip_prefix(root).unwrap_or(path).to_owned();
        Word { path, is_written: false, is_script }
    }));
    words
}

/// Words with quotes or escapes in them, without these: they may hold blanks.
fn unquoted(command: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut quote) = (Vec::new(), String::new(), false, None);
    let mut characters = command.chars();
    loop {
        let character = characters.next();
        match (character, quote) {
            (Some(c), Some(open)) if c == open => quote = None,
            (Some('\\'), None | Some('"')) => {
                is_quoted = true;
                word.extend(characters.next());
            }
            (Some(c), Some(_)) => word.push(c),
            (Some(c @ ('"' | '\'')), None) => {
                is_quoted = true;
                quote = Some(c);
            }
            (Some(c), None) if !c.is_whitespace() && !";|&()<>=".contains(c) => word.push(c),
            (ended, _) => {
                let word = std::mem::take(&mut word);
                if std::mem::take(&mut is_quoted) && !word.is_empty() {
                    words.push(word);
                }
                if ended.is_none() {
                    return words;
                }
            }
        }
    }
}

/// Whether a command has an interpreter read what another program writes (`cat setup | sh`).
fn is_fed(command: &str) -> bool {
    let is_blank = |c: char| c.is_whitespace() || "\"'`$(){}".contains(c);
    let has = |part: &str, is: &dyn Fn(&str) -> bool| part.split(is_blank).any(is);
    let commands = command.split('|').skip(1);
    let mut fed = commands.filter_map(|part| part.split([';', '&', '\n']).next());
    fed.any(|part| has(part, &reads_programs)) || has(command, &|word| word == "eval")
}

/// Whether a word names what runs the file that comes next.
fn reads_programs(word: &str) -> bool {
    const INTERPRETERS: [&str; 19] = [
        ".", "source", "sh", "bash", "dash", "zsh", "ksh", "fish", "node", "ruby", "perl", "php",
        "lua", "deno", "bun", "npx", "tsx", "Rscript", "awk",
    ];
    let name = word.rsplit('/').next().unwrap_or(word);
    INTERPRETERS.contains(&name) || name.starts_with("python")
}

/// Whether a file is a program by its mode, its first bytes (execve(2)) or its name.
fn is_program(path: &Path, mut file: &File) -> bool {
    const ENDINGS: [&str; 16] = [
        "sh", "bash", "zsh", "fish", "py", "js", "mjs", "cjs", "ts", "mts", "rb", "pl", "php",
        "lua", "mk", "ps1",
    ];
    let by_name =
        path.extension().and_then(OsStr::to_str).is_some_and(|end| ENDINGS.contains(&end));
    let by_mode = rustix::fs::fstat(file).is_ok_and(|stat| stat.st_mode & 0o111 != 0);
    let mut first = [0; 2];
    by_name || by_mode || file.read_exact(&mut first).is_ok() && first == *b"#!"
}

/// A path below a base, without `.` and `..`; none if it leads out.
fn below(base: &Path, word: &Path) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in base.components().chain(word.components()) {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path).filter(|path| path.as_os_str() != OsStr::new(""))
}

fn is_directory(top: impl AsFd, path: &Path) -> bool {
    let Some(path) = below(Path::new(""), path) else { return false };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(top, path, flags, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

fn names(top: impl AsFd, path: &Path) -> Result<Vec<OsString>, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(top, path, flags, Mode::empty(), ResolveFlags::BENEATH)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(opened)? {
        names.push(OsString::from_vec(entry?.file_name().to_bytes().to_vec()));
    }
    Ok(names)
}
