//! Which of gh's commands the host runs for a sandbox, and with which options.
//!
//! gh runs with its user's login, outside of any scratch sandbox. So what it runs here speaks to
//! GitHub and does nothing else: it gives no login away, changes no setting of its user's, starts no
//! other program, and reads and writes no file that a word of the sandbox's names. What is not on
//! the list is refused, as are the user's own aliases and extensions of gh.

use std::ffi::OsString;

use crate::refusal::Refusal;
use pinfold_ask::display::line;

/// Commands by their groups; a command that is not a group has no others below it. Read off gh
/// 2.23, with what its manual (cli.github.com/manual) has since; an older gh itself refuses what it
/// lacks.
const COMMANDS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("cache", &["delete", "list", "ls"]),
    ("gist", &["delete", "list", "ls", "rename", "view"]),
    ("gpg-key", &["delete", "list", "ls"]),
    (
        "issue",
        &[
            "close", "comment", "create", "delete", "edit", "list", "lock", "ls", "new", "pin",
            "reopen", "status", "transfer", "unlock", "unpin", "view",
        ],
    ),
    ("label", &["clone", "create", "delete", "edit", "list", "ls"]),
    ("org", &["list", "ls"]),
    (
        "pr",
        &[
            "checks",
            "close",
            "comment",
            "create",
            "diff",
            "edit",
            "list",
            "lock",
            "ls",
            "merge",
            "new",
            "ready",
            "reopen",
            "review",
            "status",
            "unlock",
            "update-branch",
            "view",
        ],
    ),
    (
        "project",
        &[
            "close",
            "copy",
            "create",
            "delete",
            "edit",
            "field-create",
            "field-delete",
            "field-list",
            "item-add",
            "item-archive",
            "item-create",
            "item-delete",
            "item-edit",
            "item-list",
            "link",
            "list",
            "ls",
            "mark-template",
            "unlink",
            "view",
        ],
    ),
    ("release", &["create", "delete", "delete-asset", "edit", "list", "ls", "new", "view"]),
    ("repo", &["archive", "delete", "edit", "list", "ls", "unarchive", "view"]),
    ("ruleset", &["check", "list", "ls", "view"]),
    ("run", &["cancel", "delete", "list", "ls", "rerun", "view", "watch"]),
    ("search", &["code", "commits", "issues", "prs", "repos"]),
    ("secret", &["delete", "list", "ls", "set"]),
    ("ssh-key", &["delete", "list", "ls"]),
    ("status", &[]),
    ("variable", &["delete", "get", "list", "ls", "set"]),
    ("version", &[]),
    ("workflow", &["disable", "enable", "list", "ls", "run", "view"]),
];

/// Refuses what the host does not run.
///
/// # Errors
/// Returns what of the words that is, with the hint.
pub(crate) fn check(args: &[Vec<u8>]) -> Result<(), Refusal> {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    // gh takes commands also behind options, so here they come first.
    let (group, rest) = match words.as_slice() {
        [b"--version"] => return Ok(()),
        [] => return Err(unknown("gh without a command")),
        [first, rest @ ..] => (*first, rest),
    };
    let known = COMMANDS.iter().find(|(name, _)| name.as_bytes() == group);
    let Some((_, commands)) = known else {
        return Err(unknown(&format!("the host does not run gh {}", line(group))));
    };
    if commands.is_empty() {
        return check_options(group, b"", rest);
    }
    let Some((command, rest)) = rest.split_first() else {
        return Err(unknown(&format!("gh {} without a command", line(group))));
    };
    if !commands.iter().any(|known| known.as_bytes() == *command) {
        let why = format!("the host does not run gh {} {}", line(group), line(command));
        let of_group = commands.join(", ");
        return Err(
            Refusal::new(why).hint(format!("of this it runs, with options behind: {of_group}"))
        );
    }
    check_options(group, command, rest)
}

fn unknown(why: &str) -> Refusal {
    let groups: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    Refusal::new(why).hint(format!(
        "it runs what speaks to GitHub alone, with options behind: {}; the rest is its user's to run",
        groups.join(", ")
    ))
}

/// How an option names a file: with its long name, and with the letter of its short one.
struct FileOption {
    long: &'static str,
    short: Option<u8>,
}

/// Options of a command that name a file of the host's, which standard input can stand for.
fn file_options(group: &[u8], command: &[u8]) -> Vec<FileOption> {
    let option = |long, short| FileOption { long, short };
    let mut options = match group {
        b"api" => vec![option("--input", None)],
        b"secret" | b"variable" => vec![option("--env-file", Some(b'f'))],
        b"workflow" => Vec::new(),
        _ => vec![option("--body-file", Some(b'F')), option("--notes-file", None)],
    };
    if matches!(command, b"create" | b"new") {
        options.extend([option("--template", Some(b'T')), option("--recover", None)]);
    }
    options
}

/// Checks every word as if it were an option: what is the value of another may be refused, and
/// what is an option is not overlooked.
fn check_options(group: &[u8], command: &[u8], words: &[&[u8]]) -> Result<(), Refusal> {
    let by_input = |word: &[u8]| {
        let why = format!("the host's gh reads no file for a sandbox: {}", line(word));
        Refusal::new(why)
            .hint("give the text on standard input (`-`), and write options with their long names")
    };
    if matches!(group, b"api" | b"workflow") {
        // `--field name=@file` (gh-api(1)).
        let names_file = |word: &&&[u8]| {
            let at = word.windows(2).position(|pair| pair == b"=@");
            at.is_some_and(|at| word[at + 2..] != *b"-")
        };
        if let Some(word) = words.iter().find(names_file) {
            return Err(by_input(word));
        }
    }
    for (index, word) in words.iter().enumerate() {
        let named = file_options(group, command).iter().find_map(|option| value(option, word));
        // The value is a part of the word, or the next one.
        let named = match named {
            None => continue,
            Some(b"") => words.get(index + 1).copied().unwrap_or_default(),
            Some(value) => value,
        };
        if named != b"-" {
            return Err(by_input(word));
        }
    }
    match (group, command, words) {
        (b"release", b"create" | b"new", words) => only_a_tag(words),
        _ => Ok(()),
    }
}

/// Returns the value that a word gives this option, empty if the next word does; none if it does not.
fn value<'a>(option: &FileOption, word: &'a [u8]) -> Option<&'a [u8]> {
    if let Some(rest) = word.strip_prefix(option.long.as_bytes()) {
        return if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") };
    }
    // Letters of options without values may stand before it.
    let letters = word.strip_prefix(b"-")?;
    let at = letters.iter().position(|letter| Some(*letter) == option.short)?;
    let is_short = letters[..at].iter().all(u8::is_ascii_alphanumeric);
    let rest = &letters[at + 1..];
    is_short.then(|| rest.strip_prefix(b"=").unwrap_or(rest))
}

/// Refuses words after the tag of a release: each is a file to be uploaded.
fn only_a_tag(words: &[&[u8]]) -> Result<(), Refusal> {
    let is_option = |word: &&[u8]| word.len() > 1 && word.starts_with(b"-") && *word != b"--";
    match words {
        [tag, options @ ..] if !tag.starts_with(b"-") && options.iter().all(is_option) => Ok(()),
        _ => Err(Refusal::new("the host's gh uploads no file for a sandbox").hint(
            "name the tag first, and write each option as one word: --notes=text, --notes-file=-",
        )),
    }
}

/// Variables that keep gh from asking, and from starting other programs.
pub(crate) fn closed() -> [(&'static str, OsString); 5] {
    [
        ("GH_PROMPT_DISABLED", "1"),
        ("GH_NO_UPDATE_NOTIFIER", "1"),
        ("GH_BROWSER", "false"),
        ("GH_EDITOR", "false"),
        ("GH_PAGER", "cat"),
    ]
    .map(|(name, value)| (name, value.into()))
}

#[cfg(test)]
mod tests;
