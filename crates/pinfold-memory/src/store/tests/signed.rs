//! Signed entries, and files in which somebody changed them.

use rusqlite::Connection;

use super::*;
use crate::sign::Signer;

const FILE: &str =
    r#"{"identity_id":"i","keys":{"private_key":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}}"#;

fn signed() -> (Scene, Entry) {
    let mut scene = Scene::new();
    let signer = Signer::of_identity(FILE.as_bytes()).unwrap();
    scene.diary = open(&scene.directory, &scene.clock).unwrap().signed_by(signer);
    let entry = scene.text("signed", &["a"]);
    (scene, entry)
}

#[test]
fn entry_is_signed_and_read_as_it_was_written() {
    let (scene, entry) = signed();
    assert_eq!(entry.signature.as_ref().unwrap().identity, "i");
    let read = scene.diary.entry(entry.id).unwrap();
    assert_eq!(read.signature, entry.signature);
    let json = crate::entry_to_json(&read, &scene.diary);
    assert_eq!(json.get("creator").unwrap().text_of("fingerprint").unwrap(), "FE81-2C12-F3AB-4CE6");
    // Another process of somebody who does not sign reads it, too.
    let other = open(&scene.directory, &scene.clock).unwrap();
    assert!(other.entry(entry.id).unwrap().signature.is_some());
    assert!(scene.add(NewEntry::new("x")).signature.is_some());
    let plain = other.create(&NewEntry::new("y"), &KnownSecrets::default()).unwrap();
    assert_eq!(plain.signature, None);
}

#[test]
fn signature_that_was_changed_or_moved_is_an_error() {
    for change in [
        "UPDATE entry SET signature = 'AAAA'",
        "UPDATE entry SET signature = NULL",
        "UPDATE entry SET identity = NULL",
        "UPDATE entry SET public_key = 'ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='",
        "UPDATE entry SET signature = (SELECT signature FROM entry WHERE content = 'other')",
    ] {
        let (scene, entry) = signed();
        scene.text("other", &[]);
        let file = Connection::open(scene.path()).unwrap();
        assert!(file.execute(change, []).unwrap() > 0);
        let error = scene.diary.entry(entry.id).unwrap_err().to_string();
        assert!(error.contains("signature"), "{change}: {error}");
        assert!(scene.diary.list(&Filter::default(), 10, 0).is_err());
    }
}

#[test]
fn diary_of_the_first_format_is_read_and_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("diary.db");
    let clock = TestClock::default();
    let old = Format { application: FORMAT.application, steps: &[include_str!("../schema-1.sql")] };
    let file = pinfold_sqlite::open(&path, &old).unwrap();
    let id = "4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11";
    file.execute("INSERT INTO diary (id, created_at) VALUES (?1, 0)", [id]).unwrap();
    let entry = NewEntry::new("old");
    file.execute(
        "INSERT INTO entry (id, content, tags, importance, type, cid, threats, access_count, created_at, updated_at)
         VALUES (?1, 'old', '[]', 5, 'semantic', ?2, '[]', 0, 1, 1)",
        [id, entry.address().as_str()],
    )
    .unwrap();
    drop(file);
    let copy = directory.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    fs::set_permissions(&copy, fs::metadata(&path).unwrap().permissions()).unwrap();
    let repaired = Diary::repair_file(&copy, Box::new(clock.clone())).unwrap();
    assert_eq!((repaired.entries, repaired.lost), (1, 0));
    let diary = open(&directory, &clock).unwrap();
    let read = diary.entry(id.parse().unwrap()).unwrap();
    assert_eq!((&*read.content, read.signature), ("old", None));
}
