//! `pinfold vm kernel`: what machines are made of, and a kernel out of packages.

use std::path::PathBuf;
use std::process::Output;

use pinfold_testkit::{Stage, User, people, skip};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Builds a package of a directory that has its files; none where dpkg-deb is missing.
fn package(stage: &Stage, name: &str, files: &str) -> Option<PathBuf> {
    let tree = stage.path(name);
    let script = format!(
        "command -v dpkg-deb >/dev/null || exit 9; mkdir -p {tree}/DEBIAN && cd {tree} && {files} && \
         printf 'Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n' \
         >DEBIAN/control && dpkg-deb -Znone --root-owner-group --build . ../{name}.deb",
        tree = tree.display()
    );
    let built = stage.command("sh").args(["-ec", &script]).output().unwrap();
    if built.status.code() == Some(9) {
        return None;
    }
    assert!(built.status.success(), "{}", said(&built));
    Some(stage.path(&format!("{name}.deb")))
}

fn take(stage: &Stage, file: &str) -> Output {
    stage.pinfold(&["vm", "kernel", "--from", file]).output().unwrap()
}

#[test]
fn package_without_a_kernel_is_refused_and_changes_nothing() {
    for user in people() {
        let stage = Stage::new(user);
        let Some(evil) = package(
            &stage,
            "evil",
            "mkdir -p boot lib/modules/6.1 && echo image >boot/vmlinuz-6.1 && \
             echo >lib/modules/6.1/modules.builtin && ln -s /etc lib/modules/6.1/build",
        ) else {
            skip("package_without_a_kernel", "dpkg-deb is missing");
            return;
        };
        let refused = take(&stage, evil.to_str().unwrap());
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).contains("not a kernel image"), "{}", said(&refused));
        let nothing = package(&stage, "nothing", "mkdir -p etc && echo >etc/nothing").unwrap();
        let refused = take(&stage, nothing.to_str().unwrap());
        assert!(said(&refused).contains("linux-modules-"), "{}", said(&refused));
        stage.write("text.deb", "no package");
        let refused = take(&stage, stage.path("text.deb").to_str().unwrap());
        assert!(said(&refused).contains("dpkg-deb failed: "), "{}", said(&refused));
        let refused = take(&stage, "/no/such.deb");
        assert!(said(&refused).contains("cannot read /no/such.deb"), "{}", said(&refused));
        let removed = stage.pinfold(&["vm", "kernel", "--remove"]).output().unwrap();
        assert!(said(&removed).contains("no kernel was taken"), "{}", said(&removed));
        // One that leads elsewhere, or that others could have put there, is not taken for one.
        for make in ["ln -s /nowhere kernel", "ln -s / kernel", "mkdir -m 777 kernel"] {
            let make = format!("cd ~/.cache/pinfold/machines && {make}");
            assert!(stage.command("sh").args(["-c", &make]).status().unwrap().success());
            let refused = stage.pinfold(&["vm", "kernel"]).output().unwrap();
            assert!(said(&refused).contains("no directory of yours"), "{make}: {}", said(&refused));
            let removed = stage.pinfold(&["vm", "kernel", "--remove"]).status().unwrap();
            assert!(removed.success(), "{make}");
        }
        let left = stage.command("sh").args(["-c", "ls -A ~/.cache/pinfold/machines"]).output();
        assert_eq!(said(&left.unwrap()), "");
    }
}

/// On a machine that has a kernel for tests of machines.
#[test]
fn kernel_of_a_package_is_the_machines() {
    let Some(kernel) = std::env::var_os("PINFOLD_TEST_KERNEL") else {
        skip("kernel_of_a_package", "no kernel for machines is here (scripts/test-machine)");
        return;
    };
    let mut releases = PathBuf::from(&kernel).join("lib/modules").read_dir().unwrap();
    let release = releases.next().unwrap().unwrap().file_name().into_string().unwrap();
    // Other users cannot read a kernel in this one's cache.
    let stage = Stage::new(User::current());
    let files = format!("cp -r {0}/boot {0}/lib .", kernel.to_str().unwrap());
    let Some(file) = package(&stage, "linux", &files) else {
        skip("kernel_of_a_package", "dpkg-deb is missing");
        return;
    };
    let taken = take(&stage, file.to_str().unwrap());
    assert!(taken.status.success(), "{}", said(&taken));
    assert!(said(&taken).contains(&format!("the kernel {release} now")), "{}", said(&taken));
    let shown = stage.pinfold(&["vm", "kernel"]).output().unwrap();
    let place = "home/.cache/pinfold/machines/kernel";
    let first = said(&shown).lines().next().unwrap().to_owned();
    assert!(first.contains(&release) && first.contains(place), "{}", said(&shown));
    let removed = stage.pinfold(&["vm", "kernel", "--remove"]).output().unwrap();
    assert!(removed.status.success() && !stage.path(place).exists(), "{}", said(&removed));
}
