use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Writes a file as git does.
fn put(host: &Path, name: &str, content: &str) {
    let lock = format!("{name}.lock");
    fs::write(host.join(&lock), content).unwrap();
    fs::rename(host.join(lock), host.join(name)).unwrap();
}

/// Makes one reference after the other and packs it as git does, until `most` are made.
fn make_and_pack(host: &Path, made: &AtomicUsize, most: usize) {
    let (object, mut packed) = ("a".repeat(40), String::new());
    while made.load(Ordering::Relaxed) < most {
        let name = format!("refs/heads/b{}", made.load(Ordering::Relaxed));
        put(host, &name, &object);
        made.fetch_add(1, Ordering::Relaxed);
        packed.push_str(&format!("{object} {name}\n"));
        put(host, "packed-refs", &packed);
        fs::remove_file(host.join(name)).unwrap();
    }
}

#[test]
fn references_that_the_host_packs_during_a_copy_are_all_copied() {
    const MOST: usize = 1000;
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("objects")).unwrap();
    fs::create_dir_all(host.join("refs/heads")).unwrap();
    fs::write(host.join("HEAD"), b"ref: refs/heads/main\n").unwrap();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let packs = scope.spawn(|| make_and_pack(&host, &made, MOST));
        for number in 0.. {
            let private = dir.path().join(number.to_string());
            let (mut copies, before) = (Copies::default(), made.load(Ordering::Relaxed));
            let copied = copies.make(&host, 0, &private, &mut Protect::default());
            let found = copies.directories.first().map(|copied| copied.start.refs().len());
            if copied.is_err() || found < Some(before) || private.join("packed-refs.lock").exists()
            {
                made.store(MOST, Ordering::Relaxed);
                panic!("{copied:?}: {found:?} of {before}");
            }
            fs::remove_dir_all(private).unwrap();
            if packs.is_finished() {
                break;
            }
        }
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

/// Git need not be asked then, which takes longer than the whole rest of a session.
#[test]
fn repository_without_commits_is_known_to_be_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (host, private) = (dir.path().join("host"), dir.path().join("private"));
    fs::create_dir_all(host.join("objects")).unwrap();
    fs::create_dir_all(host.join("refs/heads")).unwrap();
    fs::write(host.join("HEAD"), b"ref: refs/heads/main\n").unwrap();
    let mut copies = Copies::default();
    copies.make(&host, 0, &private, &mut Protect::default()).unwrap();
    copies.note_stamps();
    let [copied] = &copies.directories[..] else { panic!("{copies:?}") };
    assert!(copied.own_stamps.is_some() && copied.is_unchanged());
    fs::write(private.join("index"), b"DIRC").unwrap();
    assert!(!copied.is_unchanged());
}
