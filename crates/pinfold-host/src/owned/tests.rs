use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use tempfile::TempDir;

use super::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns a directory without links on its path.
fn directory() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    set_mode(dir.path(), 0o755);
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn is_shared<T: std::fmt::Debug>(result: Result<T, OwnedError>, wanted: &Path) {
    match result {
        Err(OwnedError::Shared { path, .. }) => assert_eq!(path, wanted),
        other => panic!("{}: {other:?}", wanted.display()),
    }
}

#[test]
fn a_file_of_the_callers_is_read_and_a_missing_one_is_none() {
    let (_dir, top) = directory();
    let file = top.join("config.toml");
    assert_eq!(read(&file).unwrap(), None);
    assert_eq!(read(&top.join("none/config.toml")).unwrap(), None);
    fs::write(&file, "a = 1").unwrap();
    set_mode(&file, 0o644);
    assert_eq!(read(&file).unwrap().unwrap(), b"a = 1");
    symlink(&file, top.join("link")).unwrap();
    assert_eq!(read(&top.join("link")).unwrap().unwrap(), b"a = 1");
}

#[test]
fn file_that_others_can_write_is_refused_with_the_command_that_fixes_it() {
    let (_dir, top) = directory();
    let file = top.join("config.toml");
    fs::write(&file, "").unwrap();
    for mode in [0o666, 0o664, 0o646, 0o606] {
        set_mode(&file, mode);
        let error = read(&file).unwrap_err();
        assert_eq!(error.hint().unwrap(), format!("chmod go-w {}", file.display()), "{mode:o}");
        is_shared(Err::<(), _>(error), &file);
    }
    set_mode(&file, 0o600);
    read(&file).unwrap();
    for mode in [0o777, 0o775] {
        set_mode(&top, mode);
        is_shared(read(&file), &top);
        is_shared(check_directory(&top), &top);
    }
}

#[test]
fn a_directory_above_may_be_shared_only_if_it_is_sticky() {
    let (_dir, top) = directory();
    let own = top.join("shared/own");
    fs::create_dir_all(&own).unwrap();
    set_mode(&own, 0o755);
    set_mode(&top.join("shared"), 0o777);
    is_shared(check_directory(&own), &top.join("shared"));
    is_shared(check_directory(&own.join("missing")), &top.join("shared"));
    set_mode(&top.join("shared"), 0o1777);
    check_directory(&own).unwrap();
}

#[test]
fn a_link_is_as_good_as_the_directories_of_both_its_ends() {
    let (_dir, top) = directory();
    for name in ["own", "shared"] {
        fs::create_dir(top.join(name)).unwrap();
        fs::write(top.join(name).join("file"), "").unwrap();
        set_mode(&top.join(name).join("file"), 0o644);
    }
    symlink("../own/file", top.join("shared/link")).unwrap();
    symlink("../shared/file", top.join("own/link")).unwrap();
    set_mode(&top.join("own"), 0o755);
    set_mode(&top.join("shared"), 0o777);
    is_shared(read(&top.join("shared/link")), &top.join("shared"));
    is_shared(read(&top.join("own/link")), &top.join("shared"));
    // The directory itself is reached by a link.
    symlink("shared", top.join("also-shared")).unwrap();
    is_shared(read(&top.join("also-shared/file")), &top.join("shared"));
}

#[test]
fn another_users_files_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_dir, top) = directory();
    let file = top.join("own/file");
    fs::create_dir(top.join("own")).unwrap();
    fs::write(&file, "").unwrap();
    set_mode(&file, 0o644);
    set_mode(&top.join("own"), 0o755);
    chown(&file, Some(4711), Some(4711)).unwrap();
    let error = read(&file).unwrap_err();
    assert!(matches!(&error, OwnedError::Foreign { owner: 4711, caller: 0, .. }), "{error}");
    assert!(error.hint().unwrap().contains("sudo -H"));
    chown(&file, Some(0), Some(0)).unwrap();
    chown(top.join("own"), Some(4711), Some(4711)).unwrap();
    for refused in [read(&file).map(drop), check_directory(&file), check_home(&top.join("own"))] {
        assert!(matches!(refused, Err(OwnedError::Foreign { .. })), "{refused:?}");
    }
}

#[test]
fn special_file_is_refused_without_waiting_for_it() {
    let (_dir, top) = directory();
    let fifo = top.join("config.toml");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(read(&fifo), Err(OwnedError::Unreadable { .. })));
    fs::create_dir(top.join("directory")).unwrap();
    assert!(matches!(read(&top.join("directory")), Err(OwnedError::Unreadable { .. })));
}
