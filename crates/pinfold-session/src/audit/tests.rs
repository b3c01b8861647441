use std::io::Write;

use super::{Audit, Event, FILE, Reader};

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
    let mut file = std::fs::OpenOptions::new().append(true).open(state.path().join(FILE)).unwrap();
    file.write_all(&vec![b'x'; 3000]).unwrap();
    assert_eq!(whats(state.path()), ["first"], "a reader passes the tail over");
    audit.record(&denial("second")).unwrap();
    assert_eq!(whats(state.path()), ["first", "second"]);
    let text = std::fs::read_to_string(state.path().join(FILE)).unwrap();
    assert_eq!(text.lines().count(), 2);
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
fn a_full_disk_is_an_error_and_leaves_whole_records() {
    // /dev/full answers every write with ENOSPC (full(4)).
    let state = tempfile::tempdir().unwrap();
    let audit = Audit::open(state.path(), None).unwrap();
    *audit.file.lock().unwrap() =
        std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let error = audit.record(&denial("lost")).unwrap_err();
    assert!(error.to_string().contains("audit"), "{error}");
}
