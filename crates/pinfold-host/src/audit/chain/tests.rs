use std::fs;
use std::path::{Path, PathBuf};

use super::super::{Audit, Event};
use super::*;

fn record(state: &Path, what: &str) {
    let event = Event::Denial { door: "test", what: what.to_owned(), reason: "because".to_owned() };
    Audit::open(state, None).unwrap().record(&event).unwrap();
}

fn current(state: &Path) -> PathBuf {
    state.join("audit.jsonl")
}

/// Returns a log of five records, in two files.
fn log() -> tempfile::TempDir {
    let state = tempfile::tempdir().unwrap();
    for number in 0..5 {
        if number == 3 {
            Files::of(state.path()).rotate().unwrap();
        }
        record(state.path(), &format!("number {number}"));
    }
    state
}

fn broken(state: &Path) -> Option<u64> {
    verify(state, None).unwrap().broken
}

#[test]
fn records_follow_from_each_other_across_files() {
    let state = log();
    let found = verify(state.path(), None).unwrap();
    assert_eq!((found.records, found.unchained, found.broken), (5, 0, None));
    assert!(!found.begins_late);
    let chain = found.last.unwrap();
    record(state.path(), "later");
    assert!(verify(state.path(), Some(&chain)).unwrap().has_wanted);
    assert!(!verify(state.path(), Some(&"0".repeat(64))).unwrap().has_wanted);
}

#[test]
fn record_that_is_changed_removed_or_put_in_between_is_found() {
    let state = log();
    let path = state.path().join("audit.1.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let changes: [(String, u64); 5] = [
        (text.replace("number 1", "number 9"), 2),
        ([lines[0], lines[2]].concat(), 2),
        ([lines[1], lines[2]].concat(), 1),
        ([lines[0], lines[1], lines[1], lines[2]].concat(), 3),
        ([lines[0], "{}\n", lines[1], lines[2]].concat(), 2),
    ];
    for (changed, number) in changes {
        fs::write(&path, &changed).unwrap();
        assert_eq!(broken(state.path()), Some(number), "{changed}");
    }
    fs::write(&path, text).unwrap();
    assert_eq!(broken(state.path()), None);
}

#[test]
fn end_that_was_cut_off_is_missed_by_those_who_know_its_chain() {
    let state = log();
    let chain = verify(state.path(), None).unwrap().last.unwrap();
    let text = fs::read_to_string(current(state.path())).unwrap();
    fs::write(current(state.path()), text.split_inclusive('\n').next().unwrap()).unwrap();
    let found = verify(state.path(), Some(&chain)).unwrap();
    assert_eq!((found.broken, found.has_wanted), (None, false));
}

#[test]
fn log_of_an_older_pinfold_goes_on_with_a_chain() {
    let state = tempfile::tempdir().unwrap();
    fs::write(current(state.path()), "{\"event\":\"tools\"}\n{\"event\":\"tools\"}\n").unwrap();
    record(state.path(), "new");
    record(state.path(), "newer");
    let found = verify(state.path(), None).unwrap();
    assert_eq!((found.records, found.unchained, found.broken), (4, 2, None));
}

#[test]
fn log_whose_oldest_file_is_gone_is_checked_from_there() {
    let state = log();
    Files::of(state.path()).rotate().unwrap();
    record(state.path(), "last");
    fs::remove_file(state.path().join("audit.1.jsonl")).unwrap();
    let found = verify(state.path(), None).unwrap();
    assert_eq!((found.records, found.broken, found.begins_late), (3, None, true));
}

#[test]
fn text_of_a_record_is_no_chain() {
    let state = tempfile::tempdir().unwrap();
    record(state.path(), &format!("\",\"chain\":\"{}\"}}\n", "0".repeat(64)));
    record(state.path(), "next");
    let found = verify(state.path(), None).unwrap();
    assert_eq!((found.records, found.unchained, found.broken), (2, 0, None));
}

#[test]
fn log_that_is_missing_has_nothing_wrong() {
    let state = tempfile::tempdir().unwrap();
    assert_eq!(verify(state.path(), None).unwrap(), Verified::default());
}

#[test]
fn writers_at_once_make_one_chain_through_many_files() {
    let state = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let state = state.path();
            scope.spawn(move || {
                let audit = Audit { largest: 1500, ..Audit::open(state, None).unwrap() };
                for number in 0..10 {
                    let what = format!("{writer} {number}");
                    let (door, reason) = ("test", "because".to_owned());
                    audit.record(&Event::Denial { door, what, reason }).unwrap();
                }
            });
        }
    });
    let found = verify(state.path(), None).unwrap();
    assert_eq!((found.records, found.unchained, found.broken), (40, 0, None));
}

#[test]
fn chain_goes_on_wherever_a_dying_machine_cuts_the_last_record() {
    let state = log();
    let path = current(state.path());
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in (last..whole.len()).step_by(7) {
        // Blocks that were not written yet are zeros after the next start (ext4(5), delayed allocation).
        for zeros in [0, 4096] {
            fs::write(&path, [&whole[..cut], &vec![0; zeros]].concat()).unwrap();
            record(state.path(), "after the start");
            let found = verify(state.path(), None).unwrap();
            assert_eq!((found.records, found.broken), (5, None), "cut at {cut}");
        }
    }
    // Killed after the full file got its number, and before there was another.
    Files::of(state.path()).rotate().unwrap();
    record(state.path(), "in a new file");
    assert_eq!(broken(state.path()), None);
}

#[test]
fn names_that_only_look_like_files_of_the_log_are_none() {
    let state = log();
    for name in
        ["audit.+9.jsonl", "audit.09.jsonl", "audit.x.jsonl", "audit.99999999999999999999999.jsonl"]
    {
        fs::write(state.path().join(name), "{}\n").unwrap();
    }
    record(state.path(), "next");
    assert_eq!(verify(state.path(), None).unwrap().records, 6);
    // No number comes after this one: the file that is written goes on growing.
    fs::write(state.path().join(format!("audit.{}.jsonl", u64::MAX)), "{}\n").unwrap();
    let audit = Audit { largest: 1, ..Audit::open(state.path(), None).unwrap() };
    audit.record(&Event::Tools).unwrap();
}

#[test]
fn records_put_before_the_first_are_counted_as_unchained() {
    let state = log();
    let path = state.path().join("audit.1.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{{\"event\":\"tools\"}}\n{text}")).unwrap();
    let found = verify(state.path(), None).unwrap();
    assert_eq!((found.unchained, found.broken), (1, None));
    fs::rename(&path, state.path().join("audit.0.jsonl")).unwrap();
    assert_eq!(verify(state.path(), None).unwrap().unchained, 1);
}
