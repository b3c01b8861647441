use std::io::{self, Write};

use super::files::Files;
use super::{Audit, Event, Reader, write};

fn denial(what: &str) -> Event<'static> {
    Event::Denial { door: "test", what: what.to_owned(), reason: "because".to_owned() }
}

fn whats(state: &std::path::Path) -> Vec<String> {
    let mut reader = Reader::open(state).unwrap().unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        found.push(record["what"].as_str().unwrap().to_owned());
    }
    found
}

#[test]
fn a_half_written_record_is_cut_off_by_the_next_writer() {
    let state = tempfile::tempdir().unwrap();
    let audit = Audit::open(state.path(), None).unwrap();
    audit.record(&denial("first")).unwrap();
    let mut file =
        std::fs::OpenOptions::new().append(true).open(Files::of(state.path()).current()).unwrap();
    file.write_all(&vec![b'x'; 3000]).unwrap();
    assert_eq!(whats(state.path()), ["first"], "a reader passes the tail over");
    audit.record(&denial("second")).unwrap();
    assert_eq!(whats(state.path()), ["first", "second"]);
    let text = std::fs::read_to_string(Files::of(state.path()).current()).unwrap();
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn a_record_is_the_event_with_its_time_and_session() {
    let state = tempfile::tempdir().unwrap();
    let id = crate::SessionId::generate().unwrap();
    Audit::open(state.path(), Some(id.clone())).unwrap().record(&denial("a \"}\n")).unwrap();
    Audit::open(state.path(), None).unwrap().record(&denial("b")).unwrap();
    let mut reader = Reader::open(state.path()).unwrap().unwrap();
    let (first, second) = (reader.next_record().unwrap(), reader.next_record().unwrap());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((&first["event"], &first["what"]), (&"denial".into(), &"a \"}\n".into()));
    assert_eq!(first["session"], id.as_str());
    assert!(humantime::parse_rfc3339(first["time"].as_str().unwrap()).is_ok());
    assert!(second["session"].is_null());
}

#[test]
fn writers_at_once_never_mix_their_records() {
    let state = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let audit = Audit::open(state.path(), None).unwrap();
                for _ in 0..100 {
                    audit.record(&denial(&"y".repeat(2000))).unwrap();
                }
            });
        }
    });
    assert_eq!(whats(state.path()).len(), 400);
}

#[test]
fn a_full_disk_is_an_error_and_named() {
    // /dev/full answers every write with ENOSPC (full(4)).
    let mut full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let error = write(&mut full, 0, b"lost").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let error = Files::of(std::path::Path::new("/state")).named("write", &error);
    assert!(error.to_string().contains("audit log /state/audit.jsonl"), "{error}");
}

/// A log whose files are full after three records.
fn small(state: &std::path::Path) -> Audit {
    Audit { largest: 300, ..Audit::open(state, None).unwrap() }
}

fn full_files(state: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| *path != Files::of(state).current()).collect()
}

#[test]
fn a_full_file_is_kept_as_it_is_and_read_first() {
    let state = tempfile::tempdir().unwrap();
    let audit = small(state.path());
    let mut follower = None;
    let mut followed = Vec::new();
    let mut kept: Option<(std::path::PathBuf, Vec<u8>)> = None;
    for number in 0..8 {
        audit.record(&denial(&number.to_string())).unwrap();
        let follower = follower.get_or_insert_with(|| Reader::open(state.path()).unwrap().unwrap());
        while let Some(record) = follower.next_record().unwrap() {
            followed.push(record["what"].as_str().unwrap().to_owned());
        }
        if let Some(path) = full_files(state.path()).pop().filter(|_| kept.is_none()) {
            kept = Some((path.clone(), std::fs::read(path).unwrap()));
        }
    }
    let all: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    assert_eq!((whats(state.path()), followed), (all.clone(), all));
    let (path, content) = kept.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), content, "a full file is never written again");
}

#[test]
fn of_many_full_files_the_oldest_go() {
    let state = tempfile::tempdir().unwrap();
    let audit = small(state.path());
    let mut slow = None;
    for number in 0..60 {
        audit.record(&denial(&number.to_string())).unwrap();
        slow.get_or_insert_with(|| Reader::open(state.path()).unwrap().unwrap());
    }
    assert_eq!(full_files(state.path()).len(), 4);
    let left = whats(state.path());
    let last: Vec<String> = (60 - left.len()..60).map(|number| number.to_string()).collect();
    assert!(left.len() >= 8);
    assert_eq!(left, last, "in order, and without a gap");
    // Who reads a file that is gone goes on with the oldest that is left.
    let mut read = 0;
    while slow.as_mut().unwrap().next_record().unwrap().is_some() {
        read += 1;
    }
    assert!(read > left.len());
}

#[test]
fn writers_at_once_begin_one_new_file() {
    let state = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let audit =
                        Audit { largest: 8_000, ..Audit::open(state.path(), None).unwrap() };
                    for _ in 0..25 {
                        audit.record(&denial("z")).unwrap();
                    }
                }
            });
        }
    });
    let whole = |path: &std::path::PathBuf| std::fs::metadata(path).unwrap().len() > 7_800;
    let full = full_files(state.path());
    assert!(full.len() >= 2 && full.iter().all(whole), "{full:?}");
    assert_eq!(whats(state.path()).len(), 300);
}

#[test]
fn a_writer_killed_while_it_begins_a_new_file_loses_nothing() {
    let state = tempfile::tempdir().unwrap();
    let other = Audit::open(state.path(), None).unwrap();
    other.record(&denial("before")).unwrap();
    let mut follower = Reader::open(state.path()).unwrap().unwrap();
    // Killed between the two steps: the full file has its number, and no other has the name.
    Files::of(state.path()).rotate().unwrap();
    assert_eq!(follower.next_record().unwrap().unwrap()["what"], "before");
    assert!(follower.next_record().unwrap().is_none());
    other.record(&denial("after")).unwrap();
    assert_eq!(whats(state.path()), ["before", "after"]);
    assert_eq!(follower.next_record().unwrap().unwrap()["what"], "after");
}
