//! Git's index as an agent may leave it behind.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pinfold_git::index::Index;
use tempfile::TempDir;

/// A git directory of each format of names of objects.
static DIRECTORIES: LazyLock<[TempDir; 2]> = LazyLock::new(|| {
    ["sha1", "sha256"].map(|format| {
        let directory = tempfile::tempdir().expect("a directory");
        let config =
            format!("[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = {format}\n");
        fs::write(directory.path().join("config"), config).expect("a file");
        directory
    })
});

fuzz_target!(|bytes: &[u8]| {
    for directory in &*DIRECTORIES {
        let index = |bytes| Index::of(directory.path(), bytes).expect("a known format");
        let before = index(bytes.to_vec());
        let paths = ["a", "src", "src/lib.rs"].map(Path::new);
        let compared = before.compare(paths.into_iter(), |_| Some(Vec::new()));
        assert!(compared.len() <= paths.len());
        let entries = before.entries();
        assert!(entries.is_none() || before.holds(Path::new("src")).is_some());
        // What git gets instead holds the same.
        let Some(without) = before.without(paths.into_iter()) else { continue };
        let after = index(without.clone());
        assert_eq!(after.entries(), entries);
        assert_eq!(after.count(), before.count());
        assert_eq!(after.without(paths.into_iter()), Some(without));
    }
});
