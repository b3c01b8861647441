//! A layer of a container image as a registry may send it. Checksums are put right first, so that what is tried
//! lies behind them.
#![no_main]

use std::fs;
use std::os::unix::fs::symlink;

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::{assert_printable, names, put_checksums_right};
use pinfold_snapshot::layer::{Budget, apply};

const MOST_BYTES: u64 = 1 << 20;
const MOST_ENTRIES: u64 = 1_000;

fuzz_target!(|bytes: &[u8]| {
    let mut archive = bytes.to_vec();
    put_checksums_right(&mut archive);
    let directory = tempfile::tempdir().expect("a directory");
    let (tree, outside) = (directory.path().join("tree"), directory.path().join("outside"));
    for path in [&tree, &outside] {
        fs::create_dir(path).expect("a directory");
    }
    fs::write(outside.join("file"), "kept").expect("a file");
    // An earlier layer's links lead out of the tree.
    symlink("../outside", tree.join("a")).expect("a link");
    symlink("../outside/file", tree.join("b")).expect("a link");
    let mut budget = Budget::new(MOST_BYTES, MOST_ENTRIES);
    match apply(archive.as_slice(), &tree, &mut budget) {
        Ok(applied) => assert!(applied.bytes <= MOST_BYTES && applied.entries <= MOST_ENTRIES),
        Err(error) => assert_printable(error),
    }
    assert_eq!(names(directory.path()).len(), 2, "left its place");
    assert_eq!(names(&outside), ["file"], "wrote outside");
    assert_eq!(fs::read(outside.join("file")).expect("a file"), b"kept");
});
