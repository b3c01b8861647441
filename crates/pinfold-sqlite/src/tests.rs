use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use fifo::make_fifo;
use tempfile::TempDir;

use super::*;

const FIRST: Format = Format { application: 0x7066_5430, steps: &["CREATE TABLE one (x)"] };
const SECOND: Format =
    Format { application: 0x7066_5430, steps: &["CREATE TABLE one (x)", "CREATE TABLE two (x)"] };
const OTHER: Format = Format { application: 0x7066_5431, steps: &["CREATE TABLE one (x)"] };

mod fifo {
    use std::path::Path;
    use std::process::Command;

    #[expect(clippy::disallowed_methods, reason = "a test makes a FIFO")]
    pub(super) fn make_fifo(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

#[test]
fn older_file_is_brought_to_the_newer_format_and_then_refused_by_the_older_program() {
    let (_directory, path) = place();
    let first = open(&path, &FIRST).unwrap();
    first.execute("INSERT INTO one VALUES (1)", []).unwrap();
    drop(first);
    let second = open(&path, &SECOND).unwrap();
    second.execute("INSERT INTO two SELECT x FROM one", []).unwrap();
    drop(second);
    let error = open(&path, &FIRST).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    assert!(matches!(open(&path, &OTHER), Err(OpenError::Foreign { .. })));
}

#[test]
fn step_that_fails_changes_nothing() {
    let (_directory, path) = place();
    drop(open(&path, &FIRST).unwrap());
    let broken =
        Format { application: FIRST.application, steps: &["", "CREATE TABLE two (x); nonsense"] };
    assert!(open(&path, &broken).is_err());
    drop(open(&path, &SECOND).unwrap());
}

#[test]
fn link_fifo_and_directory_in_place_of_the_file_are_refused() {
    let (directory, path) = place();
    let target = directory.path().join("target");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(open(&path, &FIRST).is_err());
    assert!(!target.exists());
    fs::remove_file(&path).unwrap();
    // Opening a FIFO would wait for a writer.
    make_fifo(&path);
    assert!(open(&path, &FIRST).is_err());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(open(&path, &FIRST).is_err());
}

#[test]
fn file_that_was_cut_off_is_refused_and_its_log_stays() {
    let (_directory, path) = place();
    let first = open(&path, &FIRST).unwrap();
    first.execute("INSERT INTO one VALUES (1)", []).unwrap();
    fs::write(&path, "").unwrap();
    let error = open(&path, &FIRST).unwrap_err();
    assert!(error.to_string().contains("it was cut off"), "{error}");
    assert!(fs::metadata(with_ending(&path, "-wal")).unwrap().len() > 0);
    drop(first);
}

#[test]
fn processes_that_make_a_file_at_once_make_one() {
    let (directory, path) = place();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let own = open(path, &FIRST).unwrap();
                own.execute("INSERT INTO one VALUES (?1)", [number]).unwrap();
            });
        }
    });
    let own = open(&path, &FIRST).unwrap();
    let count: i64 = own.query_row("SELECT count(*) FROM one", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 8);
    drop(own);
    let names: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["store.db"]);
}

#[test]
fn file_that_others_can_write_to_is_refused() {
    let (_directory, path) = place();
    drop(open(&path, &FIRST).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o606)).unwrap();
    assert!(matches!(open(&path, &FIRST), Err(OpenError::NotOwned(_))));
}

#[test]
fn triggers_and_views_of_a_file_do_not_run() {
    let (_directory, path) = place();
    drop(open(&path, &FIRST).unwrap());
    let foreign = Connection::open(&path).unwrap();
    foreign
        .execute_batch(
            "CREATE TRIGGER twice AFTER INSERT ON one BEGIN INSERT INTO one VALUES ('evil'); END;
             CREATE VIEW seen AS SELECT x FROM one;",
        )
        .unwrap();
    drop(foreign);
    let own = open(&path, &FIRST).unwrap();
    own.execute("INSERT INTO one VALUES ('own')", []).unwrap();
    let count: i64 = own.query_row("SELECT count(*) FROM one", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
    assert!(own.prepare("SELECT x FROM seen").is_err());
}
