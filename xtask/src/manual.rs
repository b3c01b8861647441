//! `cargo xtask man`: the manual pages of all commands, written from the program's own help.
//!
//! A test of the executable writes them, because the description of the command line is private to it. So the
//! executable that is shipped does not carry the generator.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::cargo::{command, output};

/// Names the directory for the test.
const MANUAL: &str = "PINFOLD_WRITE_MANUAL";
const TEST: &str = "cli::tests::every_command_has_a_manual_page";
const DIRECTORY: &str = "target/man/man1";

/// Writes the pages to a directory, and checks them if a program is installed that can.
///
/// # Errors
/// Returns an error if a page cannot be written, or has a mistake.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let directory = match words {
        [] => DIRECTORY,
        [directory] => directory,
        _ => return Err("usage: cargo xtask man [DIRECTORY]".into()),
    };
    fs::create_dir_all(directory)?;
    let directory = fs::canonicalize(directory)?;
    let mut test = command("cargo");
    // With all packages and features, as `scripts/test` has them, so that it is not built twice.
    test.args(["test", "--quiet", "--locked", "--workspace", "--all-features", "--bin", "pinfold"]);
    output(test.args(["--", "--exact", TEST]).env(MANUAL, &directory))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&directory)? {
        pages.push(entry?.path());
    }
    pages.sort();
    if pages.is_empty() {
        return Err(format!("the test {TEST} wrote no page").into());
    }
    let is_checked = check(&pages)?;
    let note = if is_checked { "" } else { ", unchecked: neither mandoc nor man is installed" };
    println!("{} pages in {}{note}", pages.len(), directory.display());
    Ok(())
}

/// Checks pages with mandoc or man-db; false if neither is installed.
///
/// # Errors
/// Returns what the program says about the pages.
fn check(pages: &[impl AsRef<Path>]) -> Result<bool, Box<dyn std::error::Error>> {
    let pages: Vec<&Path> = pages.iter().map(AsRef::as_ref).collect();
    if output(command("man").arg("--version")).is_ok_and(|said| said.starts_with("man ")) {
        let mut man = command("man");
        man.args(["--warnings", "--local-file", "-Tutf8", "-Z"]).args(&pages);
        let checked = man.env("LC_ALL", "C.UTF-8").output()?;
        // It succeeds with warnings.
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        return if checked.status.success() && said.is_empty() {
            Ok(true)
        } else {
            Err(said.into())
        };
    }
    let mut mandoc = command("mandoc");
    match mandoc.args(["-T", "lint", "-W", "error"]).args(&pages).output() {
        Ok(checked) if checked.status.success() => Ok(true),
        Ok(checked) => Err(String::from_utf8_lossy(&checked.stdout).into_owned().into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}
