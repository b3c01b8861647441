//! What an archive may hold.
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::{BIN, Entry, file, package, recipe, tarball};
use pinfold_provision::Integrity;
use pinfold_provision::unpack::{Stats, UnpackError, unpack};
use tar::EntryType;
use tempfile::TempDir;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new(tarballs: &[&[u8]]) -> Self {
        let this = Self { dir: TempDir::new().unwrap() };
        fs::create_dir(this.tarballs()).unwrap();
        fs::create_dir(this.tree()).unwrap();
        for bytes in tarballs {
            fs::write(this.tarballs().join(Integrity::of(bytes).file_name()), bytes).unwrap();
        }
        this
    }

    fn tarballs(&self) -> PathBuf {
        self.dir.path().join("tarballs")
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Every name in the directory, to see that nothing was written outside the tree.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn unpack_one(entries: &[Entry<'_>]) -> (Place, Result<Stats, UnpackError>) {
    let bytes = tarball(entries);
    let place = Place::new(&[&bytes]);
    let recipe = recipe(&[package("agent", &bytes)], BIN);
    let result = unpack(&recipe, &place.tarballs(), &place.tree());
    (place, result)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn packages_and_commands_come_out() {
    let setuid = Entry { mode: 0o6755, ..file("pkg/tool", "x") };
    let data = Entry { mode: 0o666, ..file("pkg/data.txt", "y") };
    let (place, result) = unpack_one(&[file("pkg/cli.js", "#!/bin/sh\n"), setuid, data]);
    assert_eq!(result.unwrap(), Stats { files: 3, bytes: 12 });
    let package = place.tree().join("node_modules/agent");
    assert_eq!(mode(&package.join("tool")) & !0o022, 0o755, "no setuid, no setgid");
    assert_eq!(mode(&package.join("data.txt")), 0o644);
    assert_eq!(mode(&package.join("cli.js")), 0o755, "a command is executable");
    let link = place.tree().join("bin/agent");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("../node_modules/agent/cli.js"));
    assert_eq!(fs::read(&link).unwrap(), b"#!/bin/sh\n");
    let owner = fs::metadata(package.join("tool")).unwrap().uid();
    assert_eq!(owner, fs::metadata(place.tree()).unwrap().uid(), "owners are ignored");
}

#[test]
fn names_that_leave_the_package_are_refused() {
    for name in [
        "../evil",
        "package/../../evil",
        "package/../../../../evil",
        "/tmp/evil",
        "package",
        "..",
        "package/a/../../../x",
        "package/bad\nname",
    ] {
        let (place, result) = unpack_one(&[file(name, "evil"), file("package/cli.js", "")]);
        let error = result.unwrap_err();
        assert!(matches!(error, UnpackError::Refused { .. }), "{name:?}: {error}");
        assert_eq!(place.names(), ["tarballs", "tree"], "{name:?}");
        assert!(!place.tree().join("evil").exists() && !Path::new("/tmp/evil").exists());
    }
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::new(b'V'),
    ] {
        let evil = Entry { kind, link: "/etc/passwd", ..file("package/evil", "") };
        let (place, result) = unpack_one(&[evil, file("package/cli.js", "")]);
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the tarball of agent holds `package/evil`"), "{kind:?}: {error}");
        assert!(!place.tree().join("node_modules/agent/evil").exists());
    }
}

#[test]
fn a_file_that_comes_twice_is_the_later_one_but_never_of_another_package() {
    let (place, result) =
        unpack_one(&[file("package/cli.js", "first"), file("package/cli.js", "second")]);
    result.unwrap();
    let path = place.tree().join("node_modules/agent/cli.js");
    assert_eq!(fs::read(path).unwrap(), b"second");

    let inner = tarball(&[file("package/x", "inner")]);
    let outer =
        tarball(&[file("package/node_modules/inner/x", "outer"), file("package/cli.js", "")]);
    let place = Place::new(&[&inner, &outer]);
    let nested = package("inner", &inner).replace(
        r#""path":"node_modules/inner""#,
        r#""path":"node_modules/agent/node_modules/inner""#,
    );
    let recipe = recipe(&[package("agent", &outer), nested], BIN);
    let error = unpack(&recipe, &place.tarballs(), &place.tree()).unwrap_err();
    assert!(matches!(error, UnpackError::File { doing: "create", .. }), "{error}");
}

#[test]
fn only_what_the_recipe_wants_is_unpacked() {
    let bytes = tarball(&[
        file("package/cli.js", "c"),
        file("package/include/a.h", "h"),
        file("package/LICENSE", "l"),
    ]);
    let place = Place::new(&[&bytes]);
    let wanted = package("agent", &bytes).replace('}', r#","only":["cli.js","LICENSE"]}"#);
    unpack(&recipe(&[wanted], BIN), &place.tarballs(), &place.tree()).unwrap();
    let package = place.tree().join("node_modules/agent");
    assert!(package.join("LICENSE").exists() && !package.join("include").exists());
}

#[test]
fn damaged_and_missing_files_are_reported() {
    let mut bytes = tarball(&[file("package/cli.js", &"x".repeat(5000))]);
    bytes.truncate(bytes.len() / 2);
    let place = Place::new(&[&bytes]);
    let cut = recipe(&[package("agent", &bytes)], BIN);
    let error = unpack(&cut, &place.tarballs(), &place.tree()).unwrap_err().to_string();
    assert!(error.starts_with("the tarball of agent is damaged:"), "{error}");

    let (_place, result) = unpack_one(&[file("package/other.js", "")]);
    let error = result.unwrap_err().to_string();
    let expected =
        "command `agent` starts `node_modules/agent/cli.js`, which its package does not hold";
    assert_eq!(error, expected);
}
