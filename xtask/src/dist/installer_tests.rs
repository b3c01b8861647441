//! What a hostile mirror, or what lies at the destination, makes of the installer.
#![expect(clippy::disallowed_methods, reason = "a test")]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use super::*;

/// A release of a program that says what it is, and a home for it.
struct Scene {
    directory: tempfile::TempDir,
}

/// What a mirror does to a release.
type Lie = fn(&Scene);

fn ran(program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).status().unwrap();
    assert!(status.success(), "{program} {words:?}");
}

fn package() -> String {
    let machine = std::env::consts::ARCH;
    format!("pinfold-{}-{machine}-linux", env!("CARGO_PKG_VERSION"))
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: tempfile::tempdir().unwrap() };
        for name in ["release", "home with 'blanks'"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        scene.pack("#!/bin/sh\necho genuine\n");
        ran("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &scene.text("key")]);
        scene.sign("key");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn home(&self, name: &str) -> PathBuf {
        self.path("home with 'blanks'").join(name)
    }

    fn pack(&self, program: &str) {
        let built = self.path(&package());
        fs::create_dir_all(built.join("bin")).unwrap();
        fs::create_dir_all(built.join("share/man/man1")).unwrap();
        fs::write(built.join("bin/pinfold"), program).unwrap();
        fs::set_permissions(built.join("bin/pinfold"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(built.join("share/man/man1/pinfold.1"), "a page").unwrap();
        let to = self.text(&format!("release/{}.tar.gz", package()));
        ran("tar", &["-czf", &to, "-C", &self.text(""), &package()]);
    }

    fn sign(&self, key: &str) {
        sign("https://127.0.0.1:9", &self.path(key), &self.path("release")).unwrap();
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        let mut shell = Command::new("sh");
        shell.arg(self.path(program)).args(words).env("HOME", self.home("")).env("new", "/nowhere");
        shell.output().unwrap()
    }

    /// Installs from the directory of the release.
    fn install(&self) -> (bool, String) {
        let output = self.run("release/install.sh", &["--from", &self.text("release")]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn installed(&self) -> Option<String> {
        fs::read_to_string(self.home(".local/bin/pinfold")).ok()
    }
}

#[test]
fn release_is_installed_and_replaces_links_without_following_them() {
    let scene = Scene::new();
    for directory in ["bin", "share/man/man1", "elsewhere"] {
        fs::create_dir_all(scene.home(".local").join(directory)).unwrap();
    }
    let (file, page) = (scene.home("precious"), scene.home(".local/share/man/man1/pinfold.1"));
    fs::write(&file, "precious").unwrap();
    symlink(&file, &page).unwrap();
    symlink(&file, scene.home(".local/bin/pinfold")).unwrap();
    let (is_done, said) = scene.install();
    assert!(is_done, "{said}");
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    assert_eq!(fs::read_to_string(page).unwrap(), "a page");
    assert!(scene.installed().unwrap().contains("genuine"));
    let mode = fs::metadata(scene.home(".local/bin/pinfold")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::read_dir(scene.home(".local/bin")).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn directory_in_the_place_of_the_program_is_an_error() {
    let scene = Scene::new();
    fs::create_dir_all(scene.home(".local/bin")).unwrap();
    fs::create_dir(scene.home("there")).unwrap();
    symlink(scene.home("there"), scene.home(".local/bin/pinfold")).unwrap();
    let (is_done, said) = scene.install();
    assert!(!is_done && said.contains("is a directory"), "{said}");
    assert_eq!(fs::read_dir(scene.home("there")).unwrap().count(), 0);
}

#[test]
fn nothing_is_installed_from_a_mirror_that_lies() {
    let lies: [(&str, Lie); 5] = [
        ("does not have the digest", |scene| scene.pack("#!/bin/sh\necho forged\n")),
        ("is not signed", |scene| {
            let list = scene.path("release/SHA256SUMS");
            let text = fs::read_to_string(&list).unwrap();
            fs::write(list, format!("{text}{}  x\n", "0".repeat(64))).unwrap();
        }),
        ("is not signed", |scene| {
            let own = fs::read(scene.path("release/install.sh")).unwrap();
            ran("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &scene.text("other")]);
            scene.pack("#!/bin/sh\necho forged\n");
            scene.sign("other");
            fs::write(scene.path("release/install.sh"), own).unwrap();
        }),
        // Another version, signed by the right key, under the name that is asked for.
        ("does not list", |scene| {
            let own = fs::read(scene.path("release/install.sh")).unwrap();
            let (asked, old) =
                (format!("{}.tar.gz", package()), "pinfold-0.0.1-x86_64-linux.tar.gz");
            let release = scene.path("release");
            fs::rename(release.join(&asked), release.join(old)).unwrap();
            scene.sign("key");
            fs::rename(release.join(old), release.join(&asked)).unwrap();
            fs::write(release.join("install.sh"), own).unwrap();
        }),
        ("cannot be fetched", |scene| {
            fs::remove_file(scene.path("release/SHA256SUMS.sig")).unwrap();
        }),
    ];
    for (what, lie) in lies {
        let scene = Scene::new();
        lie(&scene);
        let (is_done, said) = scene.install();
        assert!(!is_done && said.contains(what), "{what}: {said}");
        assert!(!scene.home(".local").exists(), "{what}");
    }
}

#[test]
fn release_is_fetched_over_https_alone() {
    let scene = Scene::new();
    for (from, what) in [
        ("http://127.0.0.1:9", "releases come by https"),
        ("https://127.0.0.1:9", "cannot be fetched"),
    ] {
        let output = scene.run("release/install.sh", &["--from", from]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(what), "{said}");
    }
}

#[test]
fn installer_whose_end_is_missing_does_nothing() {
    let scene = Scene::new();
    let text = fs::read_to_string(scene.path("release/install.sh")).unwrap();
    let text =
        text.replace("from='https://127.0.0.1:9'", &format!("from='{}'", scene.text("release")));
    // Where it is cut in the middle of its work, and the last bytes one by one.
    let cuts = (text.len() / 2..text.len() - 2).rev();
    for cut in cuts.clone().take(16).chain(cuts.step_by(61)) {
        fs::write(scene.path("cut"), &text[..cut]).unwrap();
        scene.run("cut", &[]);
        assert!(!scene.home(".local").exists(), "cut after {:?}", &text[cut - 20..cut]);
    }
    fs::write(scene.path("cut"), text).unwrap();
    assert!(scene.run("cut", &[]).status.success() && scene.installed().is_some());
}
