//! Where Cargo puts pinfold's executable.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static EXECUTABLE: LazyLock<String> = LazyLock::new(find);

/// Returns pinfold's executable.
///
/// That is `NEXTEST_BIN_EXE_pinfold`, or the file that Cargo puts into the parent of the test
/// executable's directory.
///
/// # Panics
/// Panics if the file does not exist, or if its path is not UTF-8. Cargo builds the file by itself only
/// for the tests of package `pinfold`.
#[must_use]
pub fn executable() -> &'static str {
    &EXECUTABLE
}

/// Returns a directory in Cargo's target directory for files that outlive a test.
///
/// This is the value of `CARGO_TARGET_TMPDIR`, which Cargo sets for integration tests only.
///
/// # Panics
/// Panics if the path of the test executable cannot be read.
#[must_use]
pub fn kept_directory() -> PathBuf {
    above(&next_to_the_test()).join("tmp")
}

fn find() -> String {
    let found = env::var_os("NEXTEST_BIN_EXE_pinfold").map_or_else(next_to_the_test, PathBuf::from);
    let name = found.display();
    assert!(found.is_file(), "{name} is missing: build it with `cargo build --package pinfold`");
    found.to_str().unwrap_or_else(|| panic!("{name}: the path is not UTF-8")).to_owned()
}

/// Returns `target/…/debug/pinfold` for the test `target/…/debug/deps/NAME`.
fn next_to_the_test() -> PathBuf {
    let test = env::current_exe().unwrap_or_else(|error| panic!("own executable: {error}"));
    above(&test).join("pinfold")
}

/// Returns the directory above a file's directory.
fn above(file: &Path) -> &Path {
    file.ancestors().nth(2).unwrap_or(Path::new("/"))
}
