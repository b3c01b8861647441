use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use pinfold_host::anchor::Anchor;
use pinfold_trees::tree::Tree;
use tempfile::TempDir;

use super::apply::{Expected, Refused, Target};
use super::changes::{File, Found};
use super::copy::{Budget, copy};
use super::settle::units;
use super::{Content, Entry};
use crate::git::committed::Kind;

struct Case {
    dir: TempDir,
    entries: BTreeMap<PathBuf, Entry>,
}

impl Case {
    /// Returns a directory on the host, and a copy of it that was made at the start.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("host");
        fs::create_dir_all(host.join("sub")).unwrap();
        fs::write(host.join("a"), "old").unwrap();
        fs::write(host.join("sub/b"), "old").unwrap();
        symlink("a", host.join("link")).unwrap();
        let mut case = Self { dir, entries: BTreeMap::new() };
        case.entries = case.copy(&[]).unwrap();
        case
    }

    fn copy(&self, hidden: &[PathBuf]) -> Result<BTreeMap<PathBuf, Entry>, pinfold_host::Refusal> {
        let host = Anchor::of(&self.path("host")).unwrap();
        let _ = fs::remove_dir_all(self.path("copy"));
        let copied = copy(&host, &self.path("copy"), hidden, &mut Budget::default());
        // As the copy is at the start of the session.
        copied.map(|mut entries| {
            for (path, entry) in &mut entries {
                let own = self.path("copy").join(path);
                entry.own = pinfold_host::file_id::Moment::of(&own).unwrap();
            }
            entries
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, path: &str, text: &str, expected: Expected<'_>) -> Result<(), Refused> {
        let tree = Tree::open(&self.path("host")).unwrap();
        let owner = tree.node_of_root().unwrap().owner;
        let file = File { kind: Kind::File, bytes: text.into() };
        Target { tree: &tree, owner, session: "s" }.put(Path::new(path), &file, expected)
    }

    fn remove(&self, path: &str) -> Result<(), Refused> {
        let tree = Tree::open(&self.path("host")).unwrap();
        let owner = tree.node_of_root().unwrap().owner;
        Target { tree: &tree, owner, session: "s" }.remove(Path::new(path), self.start(path))
    }

    fn start(&self, path: &str) -> &Entry {
        &self.entries[Path::new(path)]
    }

    fn host(&self, path: &str) -> String {
        fs::read_to_string(self.path("host").join(path)).unwrap()
    }

    /// Returns the names in a directory of the host: a temporary file would be one.
    fn names(&self, path: &str) -> usize {
        fs::read_dir(self.path("host").join(path)).unwrap().count()
    }
}

#[test]
fn a_file_of_the_start_is_replaced_by_a_new_one_with_its_permissions() {
    let case = Case::new();
    let before = fs::metadata(case.path("host/a")).unwrap();
    fs::hard_link(case.path("host/a"), case.path("other")).unwrap();
    // A link is a change of the file.
    assert_eq!(case.put("a", "new", Expected::Start(case.start("a"))), Err(Refused::Changed));
    fs::remove_file(case.path("other")).unwrap();
    fs::set_permissions(case.path("host/a"), fs::Permissions::from_mode(0o640)).unwrap();
    let entries = case.copy(&[]).unwrap();
    case.put("a", "new", Expected::Start(&entries[Path::new("a")])).unwrap();
    let after = fs::metadata(case.path("host/a")).unwrap();
    assert_eq!((case.host("a").as_str(), after.mode() & 0o777), ("new", 0o640));
    assert_ne!(after.ino(), before.ino());
    assert_eq!(case.names(""), 3);
}

#[test]
fn files_that_the_host_changed_are_neither_replaced_nor_removed() {
    let case = Case::new();
    fs::write(case.path("host/a"), "mine").unwrap();
    assert_eq!(case.put("a", "new", Expected::Start(case.start("a"))), Err(Refused::Changed));
    assert_eq!(case.put("a", "new", Expected::Nothing), Err(Refused::Changed));
    assert_eq!(case.remove("a"), Err(Refused::Changed));
    // A save in the moment of the exchange: the content is not what the caller has read.
    let read = File { kind: Kind::File, bytes: "other".into() };
    assert_eq!(case.put("a", "new", Expected::Read(&read)), Err(Refused::Changed));
    assert_eq!((case.host("a").as_str(), case.names("")), ("mine", 3));
}

#[test]
fn a_removed_file_takes_the_empty_directories_around_it_along() {
    let case = Case::new();
    case.remove("sub/b").unwrap();
    assert_eq!(case.names(""), 2);
    assert_eq!(case.remove("link"), Ok(()));
    assert_eq!(case.remove("link"), Ok(()));
}

#[test]
fn nothing_is_written_through_a_link() {
    let case = Case::new();
    fs::create_dir(case.path("outside")).unwrap();
    symlink(case.path("outside"), case.path("host/out")).unwrap();
    assert!(matches!(case.put("out/x", "new", Expected::Nothing), Err(Refused::System(_))));
    assert!(matches!(case.put("../outside/x", "new", Expected::Nothing), Err(Refused::System(_))));
    symlink(case.path("outside/x"), case.path("host/.pinfold-s-y")).unwrap();
    case.put("y", "new", Expected::Nothing).unwrap();
    assert_eq!(fs::read_dir(case.path("outside")).unwrap().count(), 0);
    case.put("deep/er/z", "new", Expected::Nothing).unwrap();
    assert_eq!(case.host("deep/er/z"), "new");
}

#[test]
fn changes_are_found_by_content_and_mode() {
    let case = Case::new();
    let copy = case.path("copy");
    let look = || {
        let tree = Tree::open(&copy).unwrap();
        let found = Found::below(&tree, Path::new(""));
        (found.changed(&tree, &case.entries), found.deleted(&case.entries))
    };
    assert_eq!(look(), (vec![], vec![]));
    // Written again with the same content.
    fs::write(copy.join("a"), "old").unwrap();
    assert_eq!(look(), (vec![], vec![]));
    fs::set_permissions(copy.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(copy.join("link")).unwrap();
    fs::write(copy.join("link"), "a").unwrap();
    fs::remove_dir_all(copy.join("sub")).unwrap();
    assert_eq!(look(), (vec!["a".into(), "link".into()], vec!["sub/b".into()]));
}

#[test]
fn hidden_paths_and_what_is_no_file_are_not_copied() {
    let case = Case::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        case.path("host/fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let entries = case.copy(&["sub".into(), "a".into()]).unwrap();
    assert_eq!(entries.keys().collect::<Vec<_>>(), [Path::new("link")]);
    assert_eq!(fs::read_dir(case.path("copy")).unwrap().count(), 1);
    assert_eq!(entries[Path::new("link")].content, Content::link(Path::new("a")));
}

#[test]
fn a_directory_above_the_bounds_is_not_copied() {
    let case = Case::new();
    fs::File::create(case.path("host/sparse")).unwrap().set_len(1 << 40).unwrap();
    assert!(case.copy(&[]).unwrap_err().to_string().contains("MiB"));
    fs::remove_file(case.path("host/sparse")).unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 100).collect();
    fs::create_dir_all(case.path("host").join(deep)).unwrap();
    assert!(case.copy(&[]).is_err());
}

#[test]
fn the_uppermost_new_directory_without_anything_applied_is_set_aside() {
    let left: Vec<PathBuf> =
        ["new/a/x", "new/a/y", "old/z", "mixed/b/c", "top"].map(Into::into).into();
    let is_old = |path: &Path| path == Path::new("old");
    let units = units(left.iter(), &["mixed/kept".into()], is_old);
    let expected = ["mixed/b", "new", "old/z", "top"].map(PathBuf::from);
    assert_eq!(units.into_iter().collect::<Vec<_>>(), expected);
}
