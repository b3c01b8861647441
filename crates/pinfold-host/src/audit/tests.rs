use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use super::files::Files;
use super::{Audit, Event, Purpose, Reader, write};

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
    let text = std::fs::read_to_string(Files::of(state.path()).current()).unwrap();
    let begin = r#"{"event":"denial","door":"test","what":"first","reason":"because","session""#;
    assert!(text.starts_with(begin), "the order of members is kept: {text}");
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
    let id = crate::session_id::SessionId::generate().unwrap();
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

/// Returns a log whose files are full after three records.
fn small(state: &std::path::Path) -> Audit {
    Audit { largest: 600, ..Audit::open(state, None).unwrap() }
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

/// Makes full files look as if they were written so long ago.
fn age(state: &std::path::Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    for path in full_files(state) {
        std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn of_many_full_files_the_oldest_go_once_they_are_old() {
    let state = tempfile::tempdir().unwrap();
    let audit = small(state.path());
    let mut slow = None;
    for number in 0..24 {
        audit.record(&denial(&number.to_string())).unwrap();
        slow.get_or_insert_with(|| Reader::open(state.path()).unwrap().unwrap());
    }
    assert_eq!(whats(state.path()).len(), 24, "nothing written lately is removed");
    age(state.path(), 29);
    (24..28).for_each(|number| audit.record(&denial(&number.to_string())).unwrap());
    assert_eq!(whats(state.path()).len(), 28);
    age(state.path(), 31);
    (28..32).for_each(|number| audit.record(&denial(&number.to_string())).unwrap());
    assert!(full_files(state.path()).len() <= 5, "{:?}", full_files(state.path()));
    let left = whats(state.path());
    let last: Vec<String> = (32 - left.len()..32).map(|number| number.to_string()).collect();
    assert!(left.len() >= 8);
    assert_eq!(left, last, "in order, and without a gap");
    // A reader of a file that is gone goes on with the oldest that is left.
    let mut read = 0;
    while slow.as_mut().unwrap().next_record().unwrap().is_some() {
        read += 1;
    }
    assert!(read > left.len());
}

#[test]
fn the_log_is_bounded_even_if_all_of_it_is_new() {
    let state = tempfile::tempdir().unwrap();
    let audit = Audit { largest: 1, ..Audit::open(state.path(), None).unwrap() };
    (0..100).for_each(|number| audit.record(&denial(&number.to_string())).unwrap());
    assert_eq!(full_files(state.path()).len(), 16);
}

fn of_session(state: &std::path::Path) -> (Audit, crate::session_id::SessionId) {
    let id = crate::session_id::SessionId::generate().unwrap();
    (Audit::open(state, Some(id.clone())).unwrap(), id)
}

fn events(
    state: &std::path::Path,
    session: &crate::session_id::SessionId,
) -> Vec<serde_json::Value> {
    let mut reader = Reader::open(state).unwrap().unwrap();
    let records = std::iter::from_fn(|| reader.next_record().unwrap());
    records.filter(|record| record["session"] == session.as_str()).collect()
}

fn size(state: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(state).unwrap();
    files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn a_session_that_provokes_70_mb_of_records_loses_only_its_own_surplus() {
    let state = tempfile::tempdir().unwrap();
    let (earlier, one) = of_session(state.path());
    (0..100).for_each(|number| earlier.record(&denial(&number.to_string())).unwrap());
    let (flood, other) = of_session(state.path());
    let (quiet, third) = of_session(state.path());
    let kept = |what: String| Event::Kept { what, reason: "a".repeat(100) };
    let connection = |to: String| Event::Connection { to, rule: "b".repeat(100) };
    for number in 0..150_000 {
        flood.record(&connection(format!("{number}.example"))).unwrap();
        flood.record(&denial(&number.to_string())).unwrap();
    }
    (0..4500).for_each(|_| flood.record(&kept("\u{1}".repeat(3500))).unwrap());
    quiet.record(&denial("quiet")).unwrap();
    flood.record(&Event::End { status: 0, limit: None }).unwrap();
    assert!(size(state.path()) < 10 << 20, "{}", size(state.path()));
    assert_eq!(events(state.path(), &one).len(), 100);
    assert_eq!(events(state.path(), &third).len(), 1);
    let found = events(state.path(), &other);
    let [.., dropped, end] = &found[..] else { panic!("{} records", found.len()) };
    assert_eq!((&dropped["event"], &end["event"]), (&"dropped".into(), &"end".into()));
    let counts = found.iter().filter(|record| record["event"] == "dropped").count();
    let lost = dropped["records"].as_u64().unwrap();
    assert_eq!(found.len() as u64 - counts as u64 + lost, 304_501, "each is written or counted");
    assert!(counts < 24, "{counts}");
}

#[test]
fn records_of_a_session_are_found_without_the_others() {
    let state = tempfile::tempdir().unwrap();
    let (one, id) = of_session(state.path());
    let (other, _) = of_session(state.path());
    let forged = format!("\",\"session\":\"{}\",\"time\":\"x\"}}", id.as_str());
    other.record(&denial(&forged)).unwrap();
    one.record(&denial("mine")).unwrap();
    Audit::open(state.path(), None).unwrap().record(&denial(&forged)).unwrap();
    other.record(&denial("its")).unwrap();
    let mut reader = Reader::open(state.path()).unwrap().unwrap();
    let mut next = || reader.next_of(|session| session == id.as_str()).unwrap();
    assert_eq!(next().unwrap()["what"], "mine");
    assert!(next().is_none());
    let mut reader = Reader::open(state.path()).unwrap().unwrap();
    reader.skip_all().unwrap();
    one.record(&denial("new")).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap()["what"], "new");
}

#[test]
fn notes_of_what_was_kept_are_few_and_their_names_short() {
    let state = tempfile::tempdir().unwrap();
    let (audit, id) = of_session(state.path());
    let name = format!("a{}z", "\u{1}é".repeat(2000));
    for _ in 0..200 {
        let kept = Event::Kept { what: name.clone(), reason: "why".to_owned() };
        audit.record(&kept).unwrap();
    }
    let found = events(state.path(), &id);
    let kept: Vec<_> = found.iter().filter(|record| record["event"] == "kept").collect();
    assert_eq!(kept.len(), 64);
    let what = kept[0]["what"].as_str().unwrap();
    assert!(what.len() <= 256 && what.starts_with('a') && what.ends_with('z'), "{what}");
    assert_eq!(found.last().unwrap()["records"], 128, "one that is killed has a count, too");
}

#[test]
fn event_that_must_be_recorded_is_refused_beyond_the_reserve() {
    let state = tempfile::tempdir().unwrap();
    let (audit, id) = of_session(state.path());
    let signature =
        || Event::Signature { purpose: "ssh-login", key: "k".repeat(1000), login: None };
    let signed = (0..20_000).take_while(|_| audit.record(&signature()).is_ok()).count();
    let recorded = events(state.path(), &id).len();
    assert!((10_000..12_000).contains(&signed), "{signed}");
    assert_eq!(recorded, signed, "none is made without a record");
    // What users do, and the end, are recorded all the same.
    audit.record(&Event::PolicyChange { what: "allow", rule: "r".to_owned() }).unwrap();
    audit.record(&Event::End { status: 0, limit: None }).unwrap();
    assert_eq!(events(state.path(), &id).len(), signed + 2);
}

#[test]
fn a_request_to_the_host_is_recorded_whole_unless_it_is_huge() {
    let state = tempfile::tempdir().unwrap();
    let (audit, id) = of_session(state.path());
    for length in [30_000, 960_000] {
        let args = vec!["x".repeat(length), "y".repeat(200)];
        let (executable, cwd) = ("gh".to_owned(), "/w".to_owned());
        audit.record(&Event::HostExecRequest { id: 1, executable, args, cwd }).unwrap();
    }
    let args = vec!["x".to_owned(); 70_000];
    let (executable, cwd) = ("gh".to_owned(), "/w".to_owned());
    audit.record(&Event::HostExecRequest { id: 2, executable, args, cwd }).unwrap();
    let (argv, handled_by) = (vec!["z".repeat(960_000)], Vec::new());
    let (purpose, cwd, number) = (Purpose::Host, "/".to_owned(), None);
    let launch = Event::Launch { purpose, argv, cwd, handled_by, number };
    audit.record(&launch).unwrap();
    let found = events(state.path(), &id);
    assert!(found[3].to_string().len() < 1000);
    let lengths = found[..3].iter().map(|record| record["args"][0].as_str().unwrap().len());
    assert_eq!(lengths.collect::<Vec<_>>(), [30_000, 255, 1]);
    assert_eq!(found[2]["args"].as_array().unwrap().len(), 65);
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
