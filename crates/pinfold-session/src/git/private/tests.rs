use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn nothing_is_opened_through_a_link_or_above() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("git");
    fs::create_dir_all(host.join("refs/heads")).unwrap();
    fs::write(dir.path().join("secret"), b"secret").unwrap();
    fs::write(host.join("HEAD"), b"ref: refs/heads/main\n").unwrap();
    std::os::unix::fs::symlink("../secret", host.join("link")).unwrap();
    std::os::unix::fs::symlink("..", host.join("above")).unwrap();
    let top = rustix::fs::open(&host, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let place = Place { objects: "/objects".into(), host: host.clone(), top };
    let is_open = |path: &str| place.open(&host.join(path), OFlags::NONBLOCK).is_ok();
    assert!(is_open("") && is_open("HEAD") && is_open("refs/heads"));
    assert!(!is_open("link") && !is_open("above/secret") && !is_open("refs/../../secret"));
    assert!(place.open(&dir.path().join("secret"), OFlags::NONBLOCK).is_err());
}

/// Packs references as git does, and unpacks them, as long as `is_done` is false.
fn pack_and_unpack(host: &Path, names: &[String], is_done: &AtomicBool) {
    let object = format!("{}\n", "a".repeat(40));
    while !is_done.load(Ordering::Relaxed) {
        let packed: String = names.iter().map(|it| format!("{} {it}\n", object.trim())).collect();
        fs::write(host.join("packed-refs.lock"), packed).unwrap();
        fs::rename(host.join("packed-refs.lock"), host.join("packed-refs")).unwrap();
        names.iter().for_each(|name| fs::remove_file(host.join(name)).unwrap());
        fs::remove_dir(host.join("refs/heads")).unwrap();
        fs::create_dir(host.join("refs/heads")).unwrap();
        names.iter().for_each(|name| fs::write(host.join(name), &object).unwrap());
        fs::write(host.join("packed-refs.lock"), b"").unwrap();
        fs::rename(host.join("packed-refs.lock"), host.join("packed-refs")).unwrap();
    }
}

#[test]
fn references_that_the_host_packs_meanwhile_are_all_copied() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("objects")).unwrap();
    fs::create_dir_all(host.join("refs/heads")).unwrap();
    fs::write(host.join("HEAD"), b"ref: refs/heads/main\n").unwrap();
    let names: Vec<String> = (0..20).map(|number| format!("refs/heads/b{number}")).collect();
    let object = "a".repeat(40);
    names.iter().for_each(|name| fs::write(host.join(name), &object).unwrap());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| pack_and_unpack(&host, &names, &is_done));
        for number in 0..200 {
            let private = dir.path().join(number.to_string());
            let mut copies = Copies::default();
            let made = copies.make(&host, 0, &private, &mut Protect::default());
            let found = copies.directories.first().map(|copied| copied.start.refs().len());
            let has_lock = private.join("packed-refs.lock").exists();
            if made.is_err() || found != Some(names.len()) || has_lock {
                is_done.store(true, Ordering::Relaxed);
                panic!("round {number}: {made:?}, {found:?}, {has_lock}");
            }
            fs::remove_dir_all(private).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn only_examples_of_hooks_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (host, private) = (dir.path().join("host"), dir.path().join("private"));
    for git in [host.clone(), host.join("modules/hooks/lib.sample")] {
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::write(git.join("HEAD"), b"ref: refs/heads/main\n").unwrap();
        for name in ["pre-commit.sample", "pre-push.sample", "update"] {
            fs::write(git.join("hooks").join(name), b"#!/bin/sh\n").unwrap();
        }
        let link = git.join("hooks/pre-push");
        std::os::unix::fs::symlink("./pre-push.sample", link).unwrap();
    }
    let mut copies = Copies::default();
    copies.make(&host, 0, &private, &mut Protect::default()).unwrap();
    assert_eq!(copies.directories.len(), 2);
    for copied in &copies.directories {
        let hooks = copied.private.join("hooks");
        assert!(hooks.join("update").exists() && hooks.join("pre-push").exists());
        assert!(!hooks.join("pre-commit.sample").exists());
    }
}
