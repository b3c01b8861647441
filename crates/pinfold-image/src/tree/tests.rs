use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn digest(root: &Path) -> Result<Sha256, ContextError> {
    Tree::list(root)?.digest("", &mut ContextDigest::default(), None)
}

#[test]
fn files_are_hashed_by_the_bytes_of_their_paths() {
    let folder = folder(&[("b/package.json", "{}"), ("a/sub/x", ""), ("a/index.ts", "one")]);
    let expected = Sha256::of(b"a/index.ts\0one\0a/sub/x\0\0b/package.json\0{}\0");
    assert_eq!(digest(folder.path()).unwrap(), expected);
    // A dash sorts before a slash.
    fs::create_dir(folder.path().join("a-b")).unwrap();
    fs::write(folder.path().join("a-b/x"), "y").unwrap();
    let expected = Sha256::of(b"a-b/x\0y\0a/index.ts\0one\0a/sub/x\0\0b/package.json\0{}\0");
    assert_eq!(digest(folder.path()).unwrap(), expected);
}

#[test]
fn generated_directories_are_left_out_at_any_depth() {
    let plain = folder(&[("a/x", "1")]);
    let full = folder(&[
        ("a/x", "1"),
        ("a/node_modules/p/index.js", "2"),
        ("a/sub/dist/x.js", "3"),
        ("a/.git", "gitdir: ../x"),
        (".git/config", "4"),
        ("dist/y", "5"),
    ]);
    fs::create_dir(full.path().join("a/empty")).unwrap();
    symlink("/etc/passwd", full.path().join("a/node_modules/p/link")).unwrap();
    assert_eq!(digest(full.path()).unwrap(), digest(plain.path()).unwrap());
}

#[test]
fn hashed_files_are_the_copied_files() {
    let folder = folder(&[("a/run.sh", "#!/bin/sh\n"), ("a/line\nbreak", "x"), ("a/-rf", "y")]);
    let program = folder.path().join("a/run.sh");
    fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    let into = TempDir::new().unwrap();
    let (mut one, mut other) = (ContextDigest::default(), ContextDigest::default());
    let tree = Tree::list(folder.path()).unwrap();
    let copied = tree.digest("packages", &mut one, Some(into.path())).unwrap();
    assert_eq!(copied, tree.digest("packages", &mut other, None).unwrap());
    assert_eq!(one.finish(), other.finish());
    assert_eq!(digest(&into.path().join("packages")).unwrap(), copied);
    let mode = |name: &str| {
        let found = fs::metadata(into.path().join("packages/a").join(name)).unwrap();
        found.permissions().mode() & 0o7777
    };
    assert_eq!((mode("run.sh"), mode("-rf"), mode(".")), (0o755, 0o644, 0o755));
}

#[test]
fn a_link_is_followed_to_files_of_its_folder_only() {
    let outside = folder(&[("secret", "s")]);
    let good = folder(&[("shared/x", "1"), ("a/y", "2")]);
    symlink("../shared/x", good.path().join("a/x")).unwrap();
    let expected = Sha256::of(b"a/x\x001\0a/y\x002\0shared/x\x001\0");
    assert_eq!(digest(good.path()).unwrap(), expected);
    let bad = [
        outside.path().join("secret"),
        PathBuf::from("../../../../../../etc/passwd"),
        PathBuf::from("/proc/self/environ"),
        PathBuf::from("nowhere"),
        PathBuf::from("x"),
        PathBuf::from("../shared"),
    ];
    for target in bad {
        let link = good.path().join("a/x");
        fs::remove_file(&link).unwrap();
        symlink(&target, &link).unwrap();
        let error = digest(good.path()).unwrap_err();
        assert!(
            matches!(&error, ContextError::Link { path } if *path == link),
            "{target:?}: {error}"
        );
    }
}

#[test]
fn link_to_a_directory_is_an_error_and_not_skipped() {
    let outside = folder(&[("x", "1")]);
    let extensions = folder(&[("a/x", "1"), ("b.txt", "a note")]);
    let link = extensions.path().join("linked");
    symlink("b.txt", extensions.path().join("note")).unwrap();
    symlink("nowhere", extensions.path().join("gone")).unwrap();
    assert!(Tree::list_folders(extensions.path()).is_ok());
    for target in [outside.path(), Path::new("a")] {
        symlink(target, &link).unwrap();
        let error = Tree::list_folders(extensions.path()).unwrap_err();
        assert!(matches!(&error, ContextError::Link { path } if *path == link), "{error}");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn special_file_is_refused_without_waiting() {
    let folder = folder(&[("a/x", "1")]);
    let fifo = folder.path().join("a/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let error = digest(folder.path()).unwrap_err();
    assert!(matches!(&error, ContextError::Special { path } if *path == fifo), "{error}");
    // One that a link leads to, and one that takes a file's place after the list was made.
    fs::rename(&fifo, folder.path().join("a/node_modules")).unwrap();
    symlink("node_modules", folder.path().join("a/link")).unwrap();
    assert!(matches!(digest(folder.path()), Err(ContextError::Special { .. })));
    fs::remove_file(folder.path().join("a/link")).unwrap();
    let tree = Tree::list(folder.path()).unwrap();
    fs::remove_file(folder.path().join("a/x")).unwrap();
    fs::rename(folder.path().join("a/node_modules"), folder.path().join("a/x")).unwrap();
    let read = tree.digest("", &mut ContextDigest::default(), None);
    assert!(matches!(read, Err(ContextError::Special { .. })));
}

#[test]
fn a_context_too_large_or_too_deep_is_refused_before_it_is_read() {
    let folder = folder(&[("a/x", "1")]);
    let large = File::create(folder.path().join("a/large")).unwrap();
    large.set_len(MOST_BYTES + 1).unwrap();
    assert!(matches!(digest(folder.path()), Err(ContextError::TooLarge { .. })));
    fs::remove_file(folder.path().join("a/large")).unwrap();
    fs::create_dir_all(folder.path().join("d/".repeat(DEEPEST + 1))).unwrap();
    assert!(matches!(digest(folder.path()), Err(ContextError::TooLarge { .. })));
}

#[test]
fn a_directory_that_is_a_link_is_no_directory_of_a_repository() {
    let outside = folder(&[("dependencies", "jq\n")]);
    let root = folder(&[("own/dependencies", "jq\n")]);
    assert!(Tree::list_below(root.path(), ".agent-loop").unwrap().is_none());
    for target in [outside.path(), Path::new("own")] {
        let link = root.path().join(".agent-loop");
        symlink(target, &link).unwrap();
        let error = Tree::list_below(root.path(), ".agent-loop").unwrap_err();
        assert!(matches!(error, ContextError::Link { .. }), "{error}");
        fs::remove_file(&link).unwrap();
    }
    assert!(Tree::list_below(root.path(), "own").unwrap().unwrap().has("dependencies"));
}
