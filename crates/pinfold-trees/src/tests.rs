use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, ENTERED, Mode::empty())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_tree_without_permissions_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    fs::write(tree.join("a/b/file"), "").unwrap();
    fs::write(tree.join("a/.gone-0"), "").unwrap();
    fs::create_dir(tree.join(".gone-1")).unwrap();
    for path in ["a/b/file", "a/b/c", "a/b", "a", ""] {
        set_mode(&tree.join(path), 0);
    }
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
    remove_tree(&tree).unwrap();
    remove_tree(&tree.join("below")).unwrap();
}

#[test]
fn links_are_removed_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
    fs::create_dir_all(&tree).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept"), "").unwrap();
    set_mode(&other, 0o500);
    symlink(&other, tree.join("link")).unwrap();
    symlink(&other, dir.path().join("top")).unwrap();
    remove_tree(&dir.path().join("top")).unwrap();
    remove_tree(&tree).unwrap();
    assert!(other.join("kept").exists() && mode(&other) == 0o500);
}

#[test]
fn a_tree_deeper_than_a_path_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let mut at = open_directory(&tree).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, c"d", Mode::RWXU).unwrap();
        at = openat(&at, c"d", ENTERED, Mode::empty()).unwrap();
    }
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
}

/// A process of a sandbox that holds a directory open can still write there after it was set aside.
#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept"), "").unwrap();
    set_mode(&other, 0o500);
    for round in 0..50 {
        let tree = dir.path().join(format!("tree-{round}"));
        fs::create_dir_all(tree.join("a/swapped/below")).unwrap();
        symlink(&other, tree.join("a/link")).unwrap();
        set_mode(&tree.join("a/swapped"), 0o500);
        let held = open_directory(&tree.join("a")).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let flags = RenameFlags::EXCHANGE;
                    let _ = renameat_with(&held, c"swapped", &held, c"link", flags);
                }
            });
            let removed = remove_tree(&tree);
            ended.store(true, Ordering::Relaxed);
            // The other thread may be faster than the passes. Then the tree is given up.
            if let Err(error) = removed {
                assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
            }
        });
        assert!(other.join("kept").exists() && mode(&other) == 0o500, "round {round}");
    }
}

#[test]
fn a_tree_that_somebody_keeps_filling_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(&tree).unwrap();
    let held = open_directory(&tree).unwrap();
    let ended = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u64.. {
                let name = CString::new(number.to_string()).unwrap();
                let _ = rustix::fs::mkdirat(&held, &name, Mode::RWXU);
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let outcome = remove_tree(&tree);
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    // It ends, whichever of the two is faster.
    if let Err(error) = outcome {
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
    }
}
