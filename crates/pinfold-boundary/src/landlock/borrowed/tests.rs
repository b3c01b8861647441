use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::put_in_place;
use crate::landlock::layout::Layout;

fn layout() -> Layout {
    let moved = vec![("/run/pinfold/objects/0/0".into(), "/host/.git".into())];
    Layout { moved, ..Layout::default() }
}

fn write(git: &Path, text: &str) {
    fs::create_dir_all(git.join("objects/info")).unwrap();
    fs::write(git.join(super::ALTERNATES), text).unwrap();
}

fn read(git: &Path) -> String {
    fs::read_to_string(git.join(super::ALTERNATES)).unwrap()
}

#[test]
fn borrowed_objects_are_named_where_they_lie_until_they_are_put_back() {
    let directory = tempfile::tempdir().unwrap();
    let (git, module) = (directory.path(), directory.path().join("modules/a/b"));
    write(git, "/run/pinfold/objects/0/0/objects\n../relative\n");
    write(&module, "/run/pinfold/objects/0/0/modules/a/b/objects\n");
    let all = put_in_place(git, &layout()).unwrap();
    assert_eq!(read(git), "/host/.git/objects\n../relative\n");
    assert_eq!(read(&module), "/host/.git/modules/a/b/objects\n");
    all.iter().for_each(|alternates| alternates.put_back().unwrap());
    assert_eq!(read(git), "/run/pinfold/objects/0/0/objects\n../relative\n");
    assert_eq!(read(&module), "/run/pinfold/objects/0/0/modules/a/b/objects\n");
}

#[test]
fn what_is_put_back_follows_no_link_that_a_session_made() {
    let directory = tempfile::tempdir().unwrap();
    let (git, other) = (directory.path().join("git"), directory.path().join("other"));
    write(&git, "/run/pinfold/objects/0/0/objects\n");
    write(&other, "the host's\n");
    let all = put_in_place(&git, &layout()).unwrap();
    fs::remove_dir_all(git.join("objects")).unwrap();
    symlink(other.join("objects"), git.join("objects")).unwrap();
    all[0].put_back().unwrap_err();
    fs::remove_file(git.join("objects")).unwrap();
    fs::create_dir_all(git.join("objects/info")).unwrap();
    symlink(other.join(super::ALTERNATES), git.join(super::ALTERNATES)).unwrap();
    all[0].put_back().unwrap();
    assert_eq!(read(&other), "the host's\n");
}
