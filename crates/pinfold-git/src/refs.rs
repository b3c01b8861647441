//! References as data: what git in a throwaway boundary listed, which nobody has to believe.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::state::Side;

/// References and the objects that they name, sorted.
pub type Refs = BTreeMap<String, String>;

/// Where a HEAD is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The branch; none where HEAD is detached.
    pub branch: Option<String>,
    /// The commit; none on a branch without one.
    pub commit: Option<String>,
}

/// An entry of the stash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stash {
    /// The commit that it is.
    pub commit: String,
    /// What `git stash list` shows.
    pub message: String,
}

/// Lines of object and reference; what is neither is left out.
pub fn parse_refs(listed: &str) -> Refs {
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    let valid = pairs.filter(|(object, name)| is_object(object) && is_name(name));
    valid.map(|(object, name)| (name.to_owned(), object.to_owned())).collect()
}

/// Drops lines of object and reference beyond a number of those that are new, so that what a session made costs no more than that.
/// Returns the first names that were dropped.
pub fn bound_new(
    listed: &mut String,
    most: usize,
    is_known: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    /// As many are named.
    const NAMED: usize = 10;
    if listed.lines().count() <= most {
        return Vec::new();
    }
    let (mut kept, mut dropped, mut new) = (String::with_capacity(listed.len()), Vec::new(), 0);
    for line in listed.lines() {
        let (object, name) = line.split_once(' ').unwrap_or((line, ""));
        if !is_known(object, name) {
            new += 1;
            if new > most {
                dropped.extend((dropped.len() < NAMED).then(|| name.to_owned()));
                continue;
            }
        }
        kept.push_str(line);
        kept.push('\n');
    }
    *listed = kept;
    dropped
}

/// Returns the others of these lines: object and reference, which a repository has under a name that is not used.
pub fn parse_unused(listed: &str) -> BTreeSet<(String, String)> {
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    let unused = pairs.filter(|(object, name)| is_object(object) && !is_name(name));
    unused.map(|(object, name)| (object.to_owned(), name.to_owned())).collect()
}

/// Lines of number, commit, tree of the index and branch, `-` for what is missing; by number.
pub fn parse_sides(listed: &str) -> BTreeMap<usize, Side> {
    let side = |line: &str| {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let mut object = || words.next().filter(|word| is_object(word)).map(str::to_owned);
        let (commit, tree) = (object(), object());
        let branch = match words.next()? {
            "-" => None,
            word => Some(Some(word).filter(|word| is_branch(word))?.to_owned()),
        };
        Some((number, Side { head: Head { branch, commit }, tree }))
    };
    listed.lines().filter_map(side).collect()
}

/// Returns the commits of those HEADs in the same lines that are on no branch's name, each with what they are on.
pub fn parse_unused_heads(listed: &str) -> BTreeSet<(String, String)> {
    let head = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (commit, name) = (words.next()?, words.nth(1)?);
        let is_unused = is_object(commit) && name != "-" && !is_branch(name);
        is_unused.then(|| (commit.to_owned(), name.to_owned()))
    };
    listed.lines().filter_map(head).collect()
}

/// Lines of commit and message, the newest first.
pub fn parse_stashes(listed: &str) -> Vec<Stash> {
    /// What `git stash` itself writes is far shorter.
    const LONGEST: usize = 400;
    let entry = |line: &str| {
        let (commit, message) = line.split_once(' ').unwrap_or((line, ""));
        // It is shown in a terminal.
        let message: String = message.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        // git-update-ref(1) takes no empty one.
        let message = if message.trim().is_empty() { "made inside".to_owned() } else { message };
        is_object(commit).then(|| Stash { commit: commit.to_owned(), message })
    };
    listed.lines().filter_map(entry).collect()
}

/// Returns whether this is the name of an object: a hash of SHA-1 or SHA-256.
pub fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a branch or a tag, by the strict part of git-check-ref-format(1). As in git, HEAD is a name of neither
/// (git-branch(1), git-tag(1)): whether it means that or where the working tree is depends on the command.
pub fn is_name(name: &str) -> bool {
    short_name(name).is_some_and(|short| short != "HEAD") && name.split('/').all(is_component)
}

/// Returns the name of a branch or a tag as commands take it.
pub fn short_name(name: &str) -> Option<&str> {
    name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/"))
}

/// Returns whether this is the full name of a branch.
pub fn is_branch(name: &str) -> bool {
    name.starts_with("refs/heads/") && is_name(name)
}

/// Returns whether this is a branch or tag, of the repository or of a remote.
pub fn is_reference(name: &str) -> bool {
    is_remote(name) || is_name(name)
}

/// Returns whether this is a remote-tracking branch.
pub fn is_remote(name: &str) -> bool {
    name.starts_with("refs/remotes/") && name.split('/').all(is_component)
}

/// Returns one component of a reference, or the name of a linked worktree. A name that is not UTF-8
/// does not count: read as text it is one that several share.
pub fn is_component(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with(['.', '-'])
        && !part.ends_with('.')
        && !part.ends_with(".lock")
        && !part.contains("..")
        && !part.contains("@{")
        && !part.contains(|c: char| {
            c.is_control() || c.is_whitespace() || "~^:?*[\\/\u{fffd}".contains(c)
        })
}

/// Names that a new reference may not have: a reference is a file or a directory, never both.
pub struct Taken<'a> {
    refs: &'a Refs,
    above: HashSet<&'a str>,
}

impl<'a> Taken<'a> {
    /// Makes the set of these references.
    pub fn new(refs: &'a Refs) -> Self {
        Self { refs, above: refs.keys().flat_map(|name| above(name)).collect() }
    }

    /// Returns whether this new name stands above or below one of them.
    pub fn is_in_the_way_of(&self, name: &str) -> bool {
        self.above.contains(name) || above(name).any(|above| self.refs.contains_key(above))
    }
}

fn above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// Returns a word for a shell, as a user copies it from a message.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";

    #[test]
    fn lines_that_are_no_references_are_left_out() {
        let listed = format!(
            "{ONE} refs/heads/a\n{ONE} refs/heads/../x\n{ONE} refs/remotes/o/a\nxyz refs/heads/b\n\
             {ONE} refs/heads/a b\n{ONE} refs/heads/-x\n{ONE} refs/tags/x.lock\n\
             {ONE} refs/heads/HEAD\n{ONE} refs/tags/HEAD\n{ONE} refs/heads/a/HEAD\n{ONE} refs/heads/caf\u{fffd}\n"
        );
        let used = ["refs/heads/a", "refs/heads/a/HEAD"];
        assert_eq!(parse_refs(&listed).into_keys().collect::<Vec<_>>(), used);
        let unused: Vec<String> = parse_unused(&listed).into_iter().map(|(_, name)| name).collect();
        assert!(unused.contains(&"refs/heads/HEAD".to_owned()), "{unused:?}");
        assert!(unused.len() == 8 && !unused.contains(&"refs/heads/a".to_owned()), "{unused:?}");
    }

    #[test]
    fn new_references_beyond_a_number_are_dropped_and_named() {
        let listed = format!("{ONE} refs/heads/a\n{ONE} refs/heads/b\n{ONE} refs/tags/c\n");
        let bound = |most, known: &str| {
            let mut listed = listed.clone();
            let dropped =
                bound_new(&mut listed, most, |object, name| object == ONE && name == known);
            (parse_refs(&listed).into_keys().collect::<Vec<_>>().join(" "), dropped.join(" "))
        };
        let all = "refs/heads/a refs/heads/b refs/tags/c";
        assert_eq!(bound(3, ""), (all.to_owned(), String::new()));
        assert_eq!(bound(2, "refs/heads/a"), (all.to_owned(), String::new()));
        let dropped = ("refs/heads/a refs/heads/b".to_owned(), "refs/tags/c".to_owned());
        assert_eq!(bound(1, "refs/heads/a"), dropped);
        assert_eq!(
            bound(0, "refs/tags/c"),
            ("refs/tags/c".to_owned(), "refs/heads/a refs/heads/b".to_owned())
        );
    }

    #[test]
    fn a_head_is_a_branch_or_a_commit() {
        let listed = format!(
            "0 {ONE} {ONE} refs/heads/a\n1 {ONE} - -\n2 - - refs/heads/n\n3 {ONE} - /x\nx\n"
        );
        let sides = parse_sides(&listed);
        assert_eq!(sides.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(sides[&0].tree.as_deref(), Some(ONE));
        let head = Head { branch: None, commit: Some(ONE.into()) };
        assert_eq!(sides[&1], Side { head, tree: None });
        let head = Head { branch: Some("refs/heads/n".into()), commit: None };
        assert_eq!(sides[&2], Side { head, tree: None });
        assert_eq!(parse_unused_heads(&listed), [(ONE.to_owned(), "/x".to_owned())].into());
    }

    #[test]
    fn a_stash_message_moves_no_terminal() {
        let stashes = parse_stashes(&format!("{ONE} On a: \u{1b}[2Jx\nno\n{ONE} \n"));
        let stash = |message: &str| Stash { commit: ONE.into(), message: message.into() };
        assert_eq!(stashes, [stash("On a: [2Jx"), stash("made inside")]);
    }

    #[test]
    fn a_name_above_or_below_another_is_taken() {
        let refs = parse_refs(&format!("{ONE} refs/heads/a/b\n{ONE} refs/heads/c\n"));
        let taken = Taken::new(&refs);
        let is_taken = |name| taken.is_in_the_way_of(name);
        assert!(is_taken("refs/heads/a") && is_taken("refs/heads/c/d"));
        assert!(!is_taken("refs/heads/ab") && !is_taken("refs/heads/a/c"));
    }

    #[test]
    fn a_word_for_a_shell_stays_one_word() {
        assert_eq!(shell_word("refs/heads/a-b"), "refs/heads/a-b");
        assert_eq!(shell_word("a;id"), "'a;id'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }
}
