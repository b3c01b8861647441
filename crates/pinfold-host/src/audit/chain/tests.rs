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
