//! `pinfold setup systemd` on a system that knows nothing of pinfold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_testkit::systemd::{PINFOLD, Systemd};

use crate::{failure, nothing_is_left, text};

/// Every file, directory and link below a directory, with what it holds.
fn content(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() {
                left.push(path.clone());
            }
            let held = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            all.insert(path, held);
        }
    }
    all
}

/// A system without pinfold. Its programs are this machine's, so directories lie over those that a set-up writes to.
fn bare(test: &str) -> Option<Systemd> {
    let system = Systemd::boot_bare(test)?;
    system.project("alice", "/home/alice/work/proj");
    let line = "for d in /usr/libexec /usr/local; do mount -t tmpfs -o mode=755 none $d || exit; done; \
                mkdir -p /usr/local/bin /var/lib";
    assert!(system.shell("root", line).status.success());
    Some(system)
}

fn set_up(system: &Systemd, options: &str) -> String {
    let output = system.shell("root", &format!("{PINFOLD} setup systemd {options}"));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn machine_that_is_set_up_runs_sessions_and_is_as_before_afterwards() {
    let Some(system) = bare("machine_that_is_set_up_runs_sessions") else { return };
    let before = content(&system.path("/etc"));
    let run = format!(
        "cd ~/work/proj && {PINFOLD} run --boundary systemd -- sh -c 'id -un; echo made >made'"
    );
    let options = "--for 'alice=~/work' --wrapper pi";
    // Nobody can be asked here.
    let asked = system.shell("root", &format!("{PINFOLD} setup systemd {options}"));
    assert!(failure(&asked).contains("there is no terminal to ask on"));
    assert!(
        failure(&system.shell("alice", &format!("{PINFOLD} setup systemd {options}")))
            .contains("only root")
    );
    let shown = set_up(&system, &format!("{options} --dry-run"));
    assert!(shown.contains("add user pinfold-agent, who cannot log in"), "{shown}");
    assert_eq!(content(&system.path("/etc")), before, "it was only shown");
    assert!(failure(&system.shell("alice", &run)).contains("/etc/pinfold"));

    set_up(&system, &format!("{options} --yes"));
    assert!(set_up(&system, options).contains("nothing to do"));
    let output = system.shell("alice", &run);
    assert_eq!(text(&output.stdout), "agent\n", "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(system.path("/home/alice/work/proj/made")).unwrap(), "made\n");
    assert!(failure(&system.shell("bob", &run.replace("~/work/proj", "~"))).contains("bob"));
    let wrapper = text(&system.shell("alice", "cat /usr/local/bin/pi").stdout);
    assert!(wrapper.contains("run --boundary systemd pi --"), "{wrapper}");

    // A second user, and what is not for everybody.
    system.project("bob", "/home/bob/src");
    let shown = set_up(&system, "--for 'bob=~/src' --yes");
    assert!(shown.contains("alice may use ~/work; bob may use ~/src"), "{shown}");
    let bob = system.shell("bob", &run.replace("~/work/proj", "~/src"));
    assert!(bob.status.success(), "{}", text(&bob.stderr));
    let state = system.shell("alice", "ls /var/lib/pinfold-agent");
    assert!(failure(&state).contains("Permission denied"));
    nothing_is_left(&system);

    let shown = set_up(&system, "--remove --yes");
    assert!(shown.contains("run userdel pinfold-agent"), "{shown}");
    // Programs that change accounts leave a lock, and the files as they were before.
    let mut after = content(&system.path("/etc"));
    after.retain(|path, _| !path.ends_with(".pwd.lock") && !path.to_string_lossy().ends_with('-'));
    let held = |all: &BTreeMap<PathBuf, Vec<u8>>, path| all.get(path).map(|held| text(held));
    for path in before.keys().chain(after.keys()) {
        assert_eq!(held(&before, path), held(&after, path), "{}", path.display());
    }
    let left =
        system.shell("root", "ls -A /usr/libexec /usr/local/bin /var/lib /run/pinfold 2>/dev/null");
    assert!(!text(&left.stdout).contains("pinfold-"), "{}", text(&left.stdout));
}
