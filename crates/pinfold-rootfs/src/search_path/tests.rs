use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::{SearchPath, Shown, find_program, hint};

/// Returns a home with directories of programs.
fn home(directories: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(home.path()).unwrap();
    directories.iter().for_each(|name| fs::create_dir_all(path.join(name)).unwrap());
    (home, path)
}

fn joined(directories: &[&Path]) -> OsString {
    std::env::join_paths(directories).unwrap()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn directories_that_are_shown_keep_their_order_around_the_systems() {
    let (_home, home) = home(&["ws/.venv/bin", "tools/bin", "hidden/bin", "late/bin"]);
    let [venv, tools, hidden, late] =
        ["ws/.venv/bin", "tools/bin", "hidden/bin", "late/bin"].map(|name| home.join(name));
    let shown = Shown(["ws", "tools", "late"].map(|name| home.join(name)).into());
    let system = Path::new("/usr/bin");
    let path = joined(&[&venv, &hidden, Path::new("."), &tools, &venv, system, &late]);
    let found = SearchPath::find(Some(&path), &shown, vec!["/other".to_owned(), text(&late)]);
    assert_eq!(found.before, [text(&venv), text(&tools), "/other".to_owned()]);
    assert_eq!(found.after, [text(&late)]);
}

#[test]
fn a_link_counts_as_the_directory_that_it_leads_to() {
    let (_home, home) = home(&["nvm/v20/bin", "secret"]);
    symlink(home.join("nvm/v20/bin"), home.join("current")).unwrap();
    symlink(home.join("secret"), home.join("nvm/link")).unwrap();
    let shown = Shown(vec![home.join("nvm")]);
    let path = joined(&[&home.join("current"), &home.join("nvm/link")]);
    let found = SearchPath::find(Some(&path), &shown, Vec::new());
    assert_eq!(found.before, [text(&home.join("nvm/v20/bin"))]);
}

#[test]
fn without_a_path_the_other_directories_remain() {
    let found = SearchPath::find(None, &Shown::default(), vec!["/a".to_owned()]);
    assert_eq!(found, SearchPath { before: vec!["/a".to_owned()], after: Vec::new() });
}

#[test]
fn a_virtual_environment_counts_only_if_it_is_one_and_is_shown() {
    let (_home, home) = home(&["ws/.venv/bin", "other/bin"]);
    let venv = home.join("ws/.venv");
    let shown = Shown(vec![home.join("ws")]);
    assert_eq!(shown.virtual_environment(Some(venv.as_os_str())), None);
    for root in [&venv, &home.join("other")] {
        fs::write(root.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    }
    assert_eq!(shown.virtual_environment(Some(venv.as_os_str())), Some(venv));
    assert_eq!(shown.virtual_environment(Some(home.join("other").as_os_str())), None);
    assert_eq!(shown.virtual_environment(None), None);
}

#[test]
fn a_program_is_found_with_the_directory_that_it_really_lies_in() {
    let (_home, home) = home(&["bin", "real", "first"]);
    let program = home.join("real/tool");
    fs::write(&program, "").unwrap();
    fs::write(home.join("first/tool"), "").unwrap();
    symlink(&program, home.join("bin/tool")).unwrap();
    let path = joined(&[&home.join("first"), &home.join("bin")]);
    assert_eq!(find_program(Some(&path), "tool"), None, "nothing can be executed");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let found = find_program(Some(&path), "tool").unwrap();
    assert_eq!(found, [home.join("bin"), home.join("real")]);
    assert_eq!(find_program(Some(&path), "absent"), None);
}

#[test]
fn hint_about_a_program_of_pinfolds_names_the_option_that_brings_it() {
    assert_eq!(hint("pinfold-host"), "start the session with --host-exec");
    assert!(hint("pinfold-memory").contains("--memory-grant"));
}

#[test]
fn hint_about_a_program_of_the_system_names_path_and_not_a_grant() {
    let hint = hint("sh");
    assert!(hint.contains("if PATH names that directory") && !hint.contains("--read"), "{hint}");
}
