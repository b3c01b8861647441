//! Which of git's commands the host runs for a sandbox, and with which options.
//!
//! The scratch sandbox is the wall; this list is what makes refusals clear, and keeps a push to
//! what was shown. Git takes the beginnings of long options for the whole, so an option is on the
//! list or refused.

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use pinfold_ask::display::line;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doing {
    /// Sends commits to a remote.
    Push,
    /// Takes commits from a remote.
    Fetch,
    /// Asks a remote what it has.
    Ask,
    /// Looks at history.
    Look,
}

/// A command that is run, with what is known of its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) doing: Doing,
    /// The remote that it names, if it names one.
    pub(crate) remote: Option<String>,
}

const PUSH: &[&str] = &[
    "--all",
    "--atomic",
    "--branches",
    "--delete",
    "--dry-run",
    "--follow-tags",
    "--force",
    "--force-if-includes",
    "--force-with-lease",
    "--mirror",
    "--no-atomic",
    "--no-follow-tags",
    "--no-force-if-includes",
    "--no-progress",
    "--no-thin",
    "--porcelain",
    "--progress",
    "--prune",
    "--quiet",
    "--set-upstream",
    "--tags",
    "--thin",
    "--verbose",
    "--verify",
    "-4",
    "-6",
    "-d",
    "-f",
    "-n",
    "-q",
    "-u",
    "-v",
];
const FETCH: &[&str] = &[
    "--atomic",
    "--dry-run",
    "--force",
    "--no-progress",
    "--no-tags",
    "--progress",
    "--prune",
    "--prune-tags",
    "--quiet",
    "--tags",
    "--verbose",
    "-4",
    "-6",
    "-P",
    "-f",
    "-n",
    "-p",
    "-q",
    "-t",
    "-v",
];
const ASK: &[&str] = &[
    "--branches",
    "--exit-code",
    "--heads",
    "--quiet",
    "--refs",
    "--symref",
    "--tags",
    "-4",
    "-6",
    "-b",
    "-h",
    "-q",
    "-t",
];
/// Commands that look at history, and change nothing that outlives their scratch sandbox.
const LOOK: &[&str] = &[
    "branch",
    "cat-file",
    "cherry",
    "count-objects",
    "describe",
    "diff-tree",
    "for-each-ref",
    "log",
    "ls-tree",
    "merge-base",
    "name-rev",
    "range-diff",
    "remote",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "symbolic-ref",
    "tag",
    "var",
    "version",
    "--version",
    "whatchanged",
];
/// Options of commands that look at history which name a program, a file or another place.
const NEVER: &[&str] = &[
    "--edit",
    "--edit-description",
    "--exec",
    "--ext-diff",
    "--no-index",
    "--open-files-in-pager",
    "--output",
    "--recurse-submodules",
    "--show-signature",
    "--textconv",
    "--upload-pack",
];

/// Reads a command's arguments.
///
/// # Errors
/// Returns what of it the host does not run, with the hint.
pub(crate) fn read(args: &[Vec<u8>]) -> Result<Arguments, Refusal> {
    let Some((first, rest)) = args.split_first() else {
        return Err(Refusal::new("git without a command").hint("try `git push`"));
    };
    let is = |known: &&str| known.as_bytes() == first.as_slice();
    let (doing, options) = match first.as_slice() {
        b"push" => (Doing::Push, PUSH),
        b"fetch" => (Doing::Fetch, FETCH),
        b"ls-remote" => (Doing::Ask, ASK),
        _ if LOOK.iter().any(is) => {
            return look(rest).map(|()| Arguments { doing: Doing::Look, remote: None });
        }
        other if other.starts_with(b"-") => {
            return Err(Refusal::new(format!(
                "git's own option {} is not for the host",
                line(other)
            ))
            .hint("begin with the command, such as push; git runs in the working directory"));
        }
        b"pull" => {
            return Err(Refusal::new("git pull changes the working tree, which the sandbox has")
                .hint(
                    "fetch by the host, and merge inside: `pinfold-host git fetch`, `git merge`",
                ));
        }
        other => {
            let why = format!("git {} needs nothing of the host", line(other));
            return Err(Refusal::new(why).hint("run it inside, with the git that is there"));
        }
    };
    let mut names = Vec::new();
    let mut is_name = false;
    for word in rest {
        if is_name || !word.starts_with(b"-") || word.as_slice() == b"-" {
            names.push(word);
        } else if word.as_slice() == b"--" {
            is_name = true;
        } else if !is_option(word, options) {
            let why = format!("the host runs git {} without {}", line(first), line(word));
            let known = options.join(" ");
            return Err(Refusal::new(why).hint(format!("these options are for it: {known}")));
        }
    }
    Ok(Arguments { doing, remote: names.first().map(|name| remote_name(name)).transpose()? })
}

fn is_option(word: &[u8], options: &[&str]) -> bool {
    let known = |one: &&str| one.as_bytes() == word;
    // The one option here whose value is a part of it.
    let is_lease =
        word.starts_with(b"--force-with-lease=") && options.contains(&"--force-with-lease");
    let is_short = |byte: &u8| options.iter().any(|one| one.as_bytes() == [b'-', *byte]);
    let is_cluster = word.len() > 2 && word[1] != b'-' && word[1..].iter().all(is_short);
    options.iter().any(known) || is_lease || is_cluster
}

/// Returns the name of a remote: where it leads is the host's to say.
fn remote_name(name: &[u8]) -> Result<String, Refusal> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    let text = str::from_utf8(name).ok().filter(|_| name.iter().all(is_part));
    match text {
        Some(text) if !text.is_empty() && !text.starts_with(['.', '-']) => Ok(text.to_owned()),
        _ => Err(Refusal::new(format!("{} is not the name of a remote", line(name))).hint(
            "name a remote that the repository has on the host, not a URL or a path: its user adds \
             one with `git remote add`",
        )),
    }
}

fn look(rest: &[Vec<u8>]) -> Result<(), Refusal> {
    // The beginning of a long option stands for it.
    let is_never = |word: &[u8]| {
        let name = word.split(|byte| *byte == b'=').next().unwrap_or(word);
        name.len() > 3 && NEVER.iter().any(|known| known.as_bytes().starts_with(name))
    };
    let mut options = rest.iter().take_while(|word| word.as_slice() != b"--");
    match options.find(|word| is_never(word)) {
        Some(word) => Err(Refusal::new(format!("the host does not run git with {}", line(word)))
            .hint("run it inside, with the git that is there")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Arguments, Refusal> {
        let args: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        read(&args)
    }

    #[test]
    fn commands_that_need_a_login_and_looks_at_history_are_run() {
        for (line, doing, remote) in [
            ("push", Doing::Push, None),
            ("push origin main", Doing::Push, Some("origin")),
            (
                "push -fu origin HEAD:main +x --force-with-lease=main:abc",
                Doing::Push,
                Some("origin"),
            ),
            ("push -- origin -x", Doing::Push, Some("origin")),
            ("fetch --prune up.stream", Doing::Fetch, Some("up.stream")),
            ("ls-remote --heads origin", Doing::Ask, Some("origin")),
            ("log -p -3 --format=%H main..x", Doing::Look, None),
        ] {
            let words = read_line(line).unwrap();
            assert_eq!((words.doing, words.remote.as_deref()), (doing, remote), "{line}");
        }
    }

    #[test]
    fn options_that_execute_or_lead_elsewhere_are_refused() {
        for line in [
            "-c core.sshCommand=x push",
            "-C /etc push",
            "--git-dir=/x push",
            "--exec-path=/x push",
            "--config-env=a=b push",
            "push --receive-pack=x origin",
            "push --exec=x origin",
            "push --rec=x origin",
            "push --no-verify origin",
            "push --no-verif origin",
            "push --repo=x",
            "push -o x origin",
            "push --recurse-submodules=on-demand origin",
            "push --signed origin",
            "push ext::sh%20-c%20id main",
            "push file:///tmp/x main",
            "push https://evil.example.com/x main",
            "push git@evil.example.com:x main",
            "push ../other.git main",
            "push /tmp/other.git main",
            "push .",
            "fetch --upload-pack=x origin",
            "fetch --upl=x origin",
            "fetch --all",
            "fetch --recurse-submodules origin",
            "fetch -qx origin",
            "ls-remote --upload-pack=x origin",
            "ls-remote ext::x",
            "clone https://x y",
            "submodule update",
            "commit -m x",
            "status",
            "config core.pager x",
            "archive --remote=x",
            "log --output=/tmp/x",
            "log --outp=/tmp/x",
            "log --ext-diff",
            "diff --no-index /etc/passwd /dev/null",
            "grep -O x",
        ] {
            assert!(read_line(line).is_err(), "{line}");
        }
        assert!(read(&[]).is_err() && read(&[b"push".to_vec(), b"a\nb".to_vec()]).is_err());
    }
}
