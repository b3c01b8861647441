use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::super::open_root;
use super::super::walker::{Visited, Walker};
use super::*;

/// Returns a workspace with more directories than are read again as fast, and a cache next to it.
fn many() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for path in ["cache", "work"] {
        fs::DirBuilder::new().mode(0o700).create(dir.path().join(path)).unwrap();
    }
    for number in 0..300 {
        let path = dir.path().join(format!("work/{}/{number}", number % 7));
        fs::create_dir_all(&path).unwrap();
        File::create(path.join("file")).unwrap();
        symlink("/etc", path.join("link")).unwrap();
    }
    dir
}

/// Everything below a root, with how many directories were read. Facts are taken and kept as at a
/// start so many seconds from now; without a time there are none.
type Found = BTreeMap<Vec<u8>, Vec<(Vec<u8>, u64)>>;

fn seen(dir: &Path, later: Option<u64>) -> (Found, usize) {
    seen_of(dir, later, Entries::All)
}

fn seen_of(dir: &Path, later: Option<u64>, entries: Entries) -> (Found, usize) {
    let now = now();
    seen_at(dir, later.map(|later| now + Duration::from_secs(later)), entries)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn seen_at(dir: &Path, time: Option<Duration>, entries: Entries) -> (Found, usize) {
    let root = open_root(&dir.join("work")).unwrap();
    let facts = time.and_then(|time| Facts::at(&dir.join("cache"), &root, time, entries));
    let mut found = Found::new();
    let mut visit = |visited: &Visited<'_>, (): (), below: &mut Vec<(Vec<u8>, ())>| {
        let listing = visited.listing;
        // What is read is shown as a whole.
        let wanted = |name: &[u8], kind| entries == Entries::All || is_notable(name, kind);
        let mut all: Vec<_> = listing
            .inodes()
            .filter(|(name, kind, _)| wanted(name, *kind))
            .map(|(name, _, inode)| (name.to_vec(), inode))
            .collect();
        all.sort();
        found.insert(listing.path.clone(), all);
        let directories = listing.entries().filter(|(_, kind)| *kind == FileType::Directory);
        below.extend(directories.map(|(name, _)| (name.to_vec(), ())));
    };
    let mut walker = Walker::new(&mut visit, facts.unwrap_or_default());
    walker.directory(root, Vec::new(), ()).unwrap();
    walker.facts.store();
    let read = walker.facts.read;
    (found, read)
}

/// Returns whether this file system is one of those.
fn is_remembered(dir: &Path) -> bool {
    let is_one = Facts::at(dir, File::open(dir).unwrap(), Duration::ZERO, Entries::All).is_some();
    if !is_one {
        eprintln!("skipped: temporary files lie on a file system of which nothing is remembered");
    }
    is_one
}

#[test]
fn unchanged_directory_is_not_read_again() {
    let dir = many();
    if !is_remembered(dir.path()) {
        return;
    }
    let (first, read) = seen(dir.path(), Some(10));
    assert_eq!(read, first.len());
    // The root itself is open anyway.
    assert_eq!(seen(dir.path(), Some(11)), (first.clone(), 1));
    File::create(dir.path().join("work/3/17/.env")).unwrap();
    let (second, read) = seen(dir.path(), Some(12));
    assert_eq!((&second, read), (&seen(dir.path(), None).0, 2));
    assert_ne!(first, second);
    // A few are read each time, without everything being written again.
    assert_eq!(seen(dir.path(), Some(30)).1, 2);
}

#[test]
fn a_walk_for_notable_entries_gets_these_alone_and_keeps_the_others() {
    let dir = many();
    if !is_remembered(dir.path()) {
        return;
    }
    for name in [".env", "HEAD", "Makefile", "odd\u{1b}name", "plain.txt"] {
        File::create(dir.path().join("work/3/17").join(name)).unwrap();
    }
    let all = seen(dir.path(), Some(10)).0;
    let notable = seen_of(dir.path(), Some(11), Entries::Notable).0;
    assert_eq!(notable, seen_of(dir.path(), None, Entries::Notable).0);
    let names = |found: &Found| {
        found[&b"3/17"[..]].iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let expected = [".env", "HEAD", "Makefile", "link", "odd\u{1b}name"];
    assert_eq!(names(&notable), expected.map(|name| name.as_bytes().to_vec()));
    // So much changes that the facts are written again, by a walk that did not ask for all.
    for number in 0..100 {
        File::create(dir.path().join(format!("work/{}/{number}/new", number % 7))).unwrap();
    }
    seen_of(dir.path(), Some(20), Entries::Notable);
    let (found, read) = seen(dir.path(), Some(30));
    assert_eq!((&found, read), (&seen(dir.path(), None).0, 1));
    assert_ne!(found, all);
}

#[test]
fn mount_over_a_directory_without_directories_is_walked() {
    let dir = many();
    let (inner, outer) = (dir.path().join("work/3/17"), dir.path().join("work/4"));
    seen(dir.path(), Some(10));
    let mounted = rustix::mount::mount_bind(&outer, &inner);
    if mounted.is_err() {
        return eprintln!("skipped: only root can mount a directory over another one");
    }
    let found = (seen(dir.path(), Some(11)).0, seen(dir.path(), None).0);
    rustix::mount::unmount(&inner, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(found.0, found.1);
    assert!(found.0.contains_key(&b"3/17/4"[..]));
}

#[test]
fn directory_that_changed_a_moment_ago_is_not_remembered() {
    // However long it takes to make them.
    let before = now();
    let dir = many();
    let (found, read) = seen_at(dir.path(), Some(before), Entries::All);
    assert_eq!(seen(dir.path(), Some(10)), (found, read));
}

#[test]
fn encrypted_directory_is_not_remembered() {
    let dir = many();
    let root = File::open(dir.path()).unwrap();
    let Some(facts) = Facts::at(dir.path(), &root, Duration::ZERO, Entries::All) else { return };
    let mut found = look(&root).unwrap();
    assert!(facts.identity(&found).is_some());
    found.stx_attributes.insert(StatxAttributes::ENCRYPTED);
    assert!(facts.identity(&found).is_none());
}

#[test]
fn a_clock_that_was_set_back_makes_all_be_read() {
    let dir = many();
    let (found, read) = seen(dir.path(), Some(100));
    assert_eq!(seen(dir.path(), Some(50)), (found, read));
}

#[test]
fn truncated_or_damaged_facts_are_not_used() {
    let dir = many();
    if !is_remembered(dir.path()) {
        return;
    }
    let (found, read) = seen(dir.path(), Some(10));
    let file =
        fs::read_dir(dir.path().join("cache/directories")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    for length in (0..whole.len()).step_by(977) {
        fs::write(&file, &whole[..length]).unwrap();
        let (now, again) = seen(dir.path(), Some(11));
        assert_eq!((now, again > 1), (found.clone(), read > 1), "{length} bytes");
    }
    // Whatever is in the file, nothing is taken that a directory's own times do not confirm.
    let mut other = whole.clone();
    let at = whole.len() - 40;
    other[at..].fill(0xff);
    fs::write(&file, other).unwrap();
    assert_eq!(seen(dir.path(), Some(11)).0, found);
    fs::write(&file, &whole).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(seen(dir.path(), Some(11)), (found, read));
}

fn change() -> impl Strategy<Value = (u8, usize, usize)> {
    (0_u8..9, 0_usize..300, 0_usize..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Facts say what listings say, whatever was done to the directories in between.
    #[test]
    fn facts_are_what_a_listing_says(changes in proptest::collection::vec(change(), 1..12)) {
        let dir = many();
        seen(dir.path(), Some(10));
        let work = dir.path().join("work");
        let path = |number: usize| work.join(format!("{}/{number}", number % 7));
        for (what, one, other) in changes {
            let (one, other) = (path(one), path(other));
            // Most may fail: an earlier change took it away.
            let _ = match what {
                0 => fs::remove_file(one.join("file")),
                1 => File::create(one.join(".env")).map(drop),
                2 => fs::rename(&one, other.join("moved")),
                3 => fs::remove_dir_all(&one),
                4 => fs::remove_dir_all(&one).and_then(|()| symlink(&other, &one)),
                5 => fs::rename(&one, work.join("aside"))
                    .and_then(|()| fs::rename(&other, &one))
                    .and_then(|()| fs::rename(work.join("aside"), &other)),
                6 => fs::remove_file(one.join("link")).and_then(|()| fs::create_dir(one.join("link"))),
                7 => fs::hard_link(one.join("file"), other.join("hard")),
                _ => fs::remove_dir_all(&one).and_then(|()| fs::create_dir(&one)),
            };
        }
        for entries in [Entries::Notable, Entries::All] {
            let known = seen_of(dir.path(), Some(11), entries).0;
            prop_assert_eq!(known, seen_of(dir.path(), None, entries).0);
        }
    }
}
