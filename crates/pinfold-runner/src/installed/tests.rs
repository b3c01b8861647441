use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use super::{canonical, open};

fn refused(path: &Path) -> String {
    open(path).unwrap_err().what
}

#[test]
fn file_that_others_can_change_or_replace_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED file_that_others_can_change_or_replace_is_refused: needs root");
        return;
    }
    // /tmp and /var/tmp are for everybody to write to.
    let base = tempfile::Builder::new().prefix("pf-installed-").tempdir_in("/run").unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (directory, file) = (base.path().join("d"), base.path().join("d/f"));
    fs::create_dir(&directory).unwrap();
    fs::write(&file, "x").unwrap();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&file, 0o644);
    mode(&directory, 0o755);
    open(&file).unwrap();

    for writable in [0o664, 0o646] {
        mode(&file, writable);
        assert!(refused(&file).ends_with("/d/f can be written to by others than root"));
    }
    mode(&file, 0o644);
    mode(&directory, 0o775);
    assert!(refused(&file).ends_with("/d can be written to by others than root"));
    mode(&directory, 0o1777);
    assert!(refused(&file).ends_with("/d can be written to by others than root"));
    mode(&directory, 0o755);
    chown(&file, Some(1), None).unwrap();
    assert!(refused(&file).ends_with("/d/f does not belong to root"));
    chown(&file, Some(0), None).unwrap();
    chown(&directory, Some(1), None).unwrap();
    assert!(refused(&file).ends_with("/d does not belong to root"));
    chown(&directory, Some(0), None).unwrap();

    let link = base.path().join("d/link");
    symlink(&file, &link).unwrap();
    refused(&link);
    symlink(&directory, base.path().join("e")).unwrap();
    assert!(refused(&base.path().join("e/f")).ends_with("/e is no directory"));
    assert!(refused(&directory).ends_with("/d is no regular file"));
}

#[test]
fn path_that_is_relative_or_goes_up_is_refused() {
    for path in ["", "/", "etc/passwd", "/etc/../etc/passwd", "../etc/passwd", "/etc/passwd/"] {
        let opened = open(Path::new(path));
        // A slash at the end means nothing to a list of components.
        assert!(opened.is_err() || path == "/etc/passwd/", "{path}");
    }
}

#[test]
fn links_of_an_administrator_are_resolved_and_no_others() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED links_of_an_administrator_are_resolved_and_no_others: needs root");
        return;
    }
    let base = tempfile::Builder::new().prefix("pf-installed-").tempdir_in("/run").unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let at = |name: &str| base.path().join(name);
    fs::create_dir_all(at("real/in")).unwrap();
    for (to, link) in [("real", "relative"), ("./real/../real/in", "roundabout"), ("loop", "loop")]
    {
        symlink(to, at(link)).unwrap();
    }
    symlink(at("relative"), at("absolute")).unwrap();
    symlink("real", at("theirs")).unwrap();
    lchown(at("theirs"), Some(1000), None).unwrap();
    // A link of root's in a directory of somebody else's, who may have moved it there.
    fs::create_dir(at("moved")).unwrap();
    symlink("../real", at("moved/link")).unwrap();
    chown(at("moved"), Some(1000), None).unwrap();
    for (path, real) in [
        ("relative/in/new", "real/in/new"),
        ("absolute/in", "real/in"),
        ("roundabout", "real/in"),
        ("roundabout/../in", "real/in"),
        ("missing/relative", "missing/relative"),
        ("theirs/in", "theirs/in"),
        ("moved/link/in", "moved/link/in"),
        ("moved/link/in/../in", "moved/link/in"),
        ("./real/.", "real"),
        ("loop/in", "loop/in"),
    ] {
        assert_eq!(canonical(&at(path)), at(real), "{path}");
    }
    // What anybody can write to is left as it is from there on.
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o757)).unwrap();
    assert_eq!(canonical(&at("relative/in")), at("relative/in"));
}
