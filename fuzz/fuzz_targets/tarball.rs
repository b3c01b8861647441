//! What a registry sends. Checksums are put right first, so that what is tried lies behind them.
#![no_main]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::{assert_printable, names, put_checksums_right};
use pinfold_provision::unpack::unpack;
use pinfold_provision::{Integrity, Recipe};

fuzz_target!(|bytes: &[u8]| {
    let mut archive = bytes.to_vec();
    put_checksums_right(&mut archive);
    let mut tarball = GzEncoder::new(Vec::new(), Compression::none());
    tarball.write_all(&archive).expect("memory");
    let tarball = tarball.finish().expect("memory");

    let directory = tempfile::tempdir().expect("a directory");
    let (tarballs, tree) = (directory.path().join("tarballs"), directory.path().join("tree"));
    fs::create_dir(&tarballs).and_then(|()| fs::create_dir(&tree)).expect("directories");
    let integrity = Integrity::of(&tarball);
    fs::write(tarballs.join(integrity.file_name()), tarball).expect("a file");
    let recipe = format!(
        r#"{{"format":1,"name":"a","version":"1.0.0","packages":[{{"path":"node_modules/a",
        "name":"a","version":"1.0.0","integrity":"{integrity}","size":1}}],
        "bin":[{{"command":"a","path":"node_modules/a/a"}}]}}"#
    );
    let recipe = Recipe::parse(recipe.as_bytes()).expect("a recipe");
    if let Err(error) = unpack(&recipe, &tarballs, &tree) {
        assert_printable(error);
    }
    let found = names(directory.path());
    assert_eq!(found.len(), 2, "left its place: {found:?}");
    assert!(names(&tree).iter().all(|name| name == "node_modules" || name == "bin"));
    let package = tree.join("node_modules");
    assert!(names(&package).iter().all(|name| name == "a"));
    only_plain_files(&package);
});

fn only_plain_files(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.is_dir() {
        for name in names(path) {
            only_plain_files(&path.join(name));
        }
        return;
    }
    assert!(found.is_file(), "{path:?} is no plain file");
    let mode = found.permissions().mode() & 0o7777;
    assert!(mode == 0o644 || mode == 0o755, "{path:?} has mode {mode:o}");
}
