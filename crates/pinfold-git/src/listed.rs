//! What git-diff-tree(1) and git-ls-tree(1) list.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pinfold_policy::path::Escaped;

/// The mode of a submodule.
const SUBMODULE: &str = "160000";

/// The mode of what a commit removes.
const REMOVED: &str = "000000";

/// What a path is: its mode, in octal digits, and its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Six octal digits.
    pub mode: String,
    pub object: String,
}

/// A path, and what a commit puts there.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change<'c> {
    pub path: &'c Path,
    pub entry: Entry,
}

impl Change<'_> {
    /// Returns whether a submodule is put there.
    pub fn is_submodule(&self) -> bool {
        self.entry.mode == SUBMODULE
    }

    /// Returns the path for a message.
    pub fn shown(&self) -> String {
        let path = Escaped(self.path);
        if self.is_submodule() { format!("the submodule {path}") } else { path.to_string() }
    }
}

/// Reads what git-diff-tree(1) prints with `--raw -z`. What a commit removes is left out, and the lines that name two trees of its
/// input.
pub fn parse_changes(changes: &[u8]) -> impl Iterator<Item = Change<'_>> {
    let mut fields = changes.split(|byte| *byte == 0);
    std::iter::from_fn(move || {
        let after_trees =
            |field: &'_ [u8]| field.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let entry = fields
            .by_ref()
            .map(|field| &field[after_trees(field)..])
            .find(|entry| entry.starts_with(b":"))?;
        Some((entry, Path::new(OsStr::from_bytes(fields.next()?))))
    })
    .filter_map(|(entry, path)| {
        // `:MODE MODE OBJECT OBJECT STATUS`, each before and after.
        let words: Vec<_> =
            entry.split(|byte| *byte == b' ').map(String::from_utf8_lossy).collect();
        let (mode, object) = (words.get(1)?, words.get(3)?);
        let entry = Entry { mode: mode.to_string(), object: object.to_string() };
        (entry.mode != REMOVED).then_some(Change { path, entry })
    })
}

/// Returns the paths and commits of submodules in what git-diff-tree(1), or git-ls-tree(1), lists.
pub fn gitlinks(listed: &[u8], is_diff: bool) -> impl Iterator<Item = (&Path, &str)> {
    let mut fields = listed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    fn word(entry: &[u8], number: usize) -> &str {
        let word = entry.split(|byte| *byte == b' ').nth(number);
        str::from_utf8(word.unwrap_or_default()).unwrap_or_default()
    }
    let is_link = |entry, mode| word(entry, mode) == SUBMODULE;
    std::iter::from_fn(move || {
        let field = fields.next()?;
        if is_diff {
            let name = fields.next()?;
            return Some(is_link(field, 1).then(|| (path(name), word(field, 3))));
        }
        let at = field.iter().position(|byte| *byte == b'\t')?;
        let (entry, name) = (&field[..at], &field[at + 1..]);
        Some(is_link(entry, 0).then(|| (path(name), word(entry, 2))))
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_several_trees_are_parsed() {
        let changes = b"e t1\ne t2\n:000000 100644 e a A\0one\n:x\0:000000 100644 e b A\0two\0e t3\n:000000 120000 e c A\0three\0e t4\n";
        let paths: Vec<_> = parse_changes(changes).map(|change| change.path).collect();
        assert_eq!(paths, ["one\n:x", "two", "three"].map(Path::new));
    }

    #[test]
    fn only_submodules_are_listed() {
        let diff = b":000000 100644 0 a A\0file\0:000000 160000 0 b A\0sub\nmodule\0:160000 000000 b 0 D\0gone\0";
        let found: Vec<_> = gitlinks(diff, true).collect();
        assert_eq!(found, [(Path::new("sub\nmodule"), "b")]);
        let tree = b"100644 blob a\tfile\x00160000 commit b\tsub\0";
        assert_eq!(gitlinks(tree, false).collect::<Vec<_>>(), [(Path::new("sub"), "b")]);
    }
}
