use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{AfterDead, SessionName, SessionState, is_same, writable};
use crate::directories::Places;
use crate::placeholder::{COMMONDIR, Placeholder};
use crate::session_id::SessionId;

fn places(at: &Path) -> Places {
    let inside = |name: &str| at.join(name);
    Places { home: at.into(), config: inside("c"), state: inside("s"), cache: inside("x") }
}

fn wanted(at: &Path) -> Vec<Placeholder> {
    vec![
        Placeholder { path: at.join("d"), content: None },
        Placeholder { path: at.join("f"), content: Some(COMMONDIR) },
    ]
}

#[test]
fn placeholders_go_with_the_last_session_that_uses_them() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    let mut first = SessionState::create(&places).unwrap();
    first.make_placeholders(&wanted(dir.path())).unwrap();
    let mut second = SessionState::create(&places).unwrap();
    second.make_placeholders(&wanted(dir.path())).unwrap();
    drop(first);
    assert!(dir.path().join("d").is_dir() && dir.path().join("f").is_file());
    drop(second);
    assert!(!dir.path().join("d").exists() && !dir.path().join("f").exists());
}

#[test]
fn existing_or_refilled_directory_stays() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    fs::write(dir.path().join("f"), b"mine").unwrap();
    let mut state = SessionState::create(&places).unwrap();
    state.make_placeholders(&wanted(dir.path())).unwrap();
    fs::write(dir.path().join("d/new"), b"").unwrap();
    drop(state);
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"mine");
    assert!(dir.path().join("d/new").exists());
}

#[test]
fn a_killed_session_is_cleaned_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    let mut dead = SessionState::create(&places).unwrap();
    dead.make_placeholders(&wanted(dir.path())).unwrap();
    let left = dead.private().to_owned();
    // What SIGKILL does: the lock goes, nothing else happens.
    rustix::fs::flock(&dead.record, rustix::fs::FlockOperation::Unlock).unwrap();
    std::mem::forget(dead);
    let next = SessionState::create(&places).unwrap();
    next.clean_dead(&|_, _| {}, &|_, _| Ok(AfterDead::Settled)).unwrap();
    assert!(!left.exists() && !dir.path().join("d").exists() && !dir.path().join("f").exists());
    drop(next);
    let names: Vec<_> = fs::read_dir(places.state.join("sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["lock"], "no record is left");
}

/// Leaves a session as SIGKILL does: the lock goes, nothing else happens.
fn killed(places: &Places) {
    let dead = SessionState::create(places).unwrap();
    rustix::fs::flock(&dead.record, rustix::fs::FlockOperation::Unlock).unwrap();
    std::mem::forget(dead);
}

#[test]
fn two_starts_at_once_settle_a_killed_session_once() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    killed(&places);
    killed(&places);
    let settled = RefCell::new(Vec::new());
    let [first, second] = [(), ()].map(|()| SessionState::create(&places).unwrap());
    let not_again = |id: &SessionId, _: &Path| {
        assert!(
            !settled.borrow().contains(&id.to_string()),
            "it was settled, and is not removed yet"
        );
        Ok(AfterDead::Waits)
    };
    let settle = |id: &SessionId, _: &Path| {
        second.clean_dead(&|_, _| {}, &not_again).unwrap();
        settled.borrow_mut().push(id.to_string());
        Ok(AfterDead::Settled)
    };
    first.clean_dead(&|_, _| {}, &settle).unwrap();
    assert_eq!(settled.borrow().len(), 2);
    drop((first, second));
    let left = fs::read_dir(places.state.join("private")).unwrap().count();
    assert_eq!(left, 0, "nothing is left of them");
}

/// A start that found one would lock it and wait for the common lock, which the new session holds while it waits for its record.
#[test]
fn record_that_can_be_seen_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    drop(SessionState::create(&places).unwrap());
    let is_over = AtomicBool::new(false);
    let lock = rustix::fs::FlockOperation::NonBlockingLockShared;
    let is_free = |record: &Path| {
        let Ok(opened) = fs::File::open(record) else { return false };
        rustix::fs::flock(&opened, lock).is_ok() && is_same(&opened, record)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..1000).for_each(|_| drop(SessionState::create(&places).unwrap()));
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            for entry in fs::read_dir(places.state.join("sessions")).unwrap().flatten() {
                let is_record = entry.file_name() != "lock";
                assert!(!is_record || !is_free(&entry.path()), "a record is not locked");
            }
        }
    });
}

#[test]
fn a_name_is_never_what_could_be_an_id() {
    let accepted = |name: &str| name.parse::<SessionName>().is_ok();
    for name in ["a", "0", "cafe", "DEADBEEF", "0123456789ab", ".", "..", "lock", "", "-x", "a/b"] {
        assert!(!accepted(name), "{name}");
    }
    for name in ["night.1", "box", "0123456789abc", "cafe-1", "locks", "..x", "x"] {
        assert!(accepted(name), "{name}");
    }
}

#[test]
fn directories_of_a_session_are_known_until_it_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    let state = SessionState::create(&places).unwrap();
    let directories = [Path::new("/a b"), Path::new("/c:d\ne")];
    state.set_writable(&directories).unwrap();
    assert_eq!(writable(&places), directories);
    rustix::fs::flock(&state.record, rustix::fs::FlockOperation::Unlock).unwrap();
    std::mem::forget(state);
    assert_eq!(writable(&places), directories, "nobody has looked at what it left");
    let next = SessionState::create(&places).unwrap();
    next.clean_dead(&|_, _| {}, &|_, _| Ok(AfterDead::Settled)).unwrap();
    assert_eq!(writable(&places), Vec::<std::path::PathBuf>::new());
}
