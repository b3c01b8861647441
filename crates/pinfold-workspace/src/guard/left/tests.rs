use std::fs;

use super::*;

const ONE: &str = "111111111111";
const TWO: &str = "222222222222";

#[test]
fn a_session_whose_record_is_damaged_keeps_others_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let roots = [PathBuf::from("/work")];
    let found = |own: &str| others(&places, own, &roots).map(|others| others.len());
    assert!(matches!(found(ONE), Ok(0)), "nothing has started yet");
    let private = SessionState::all_private(&places);
    for session in [ONE, TWO] {
        fs::create_dir_all(private.join(session)).unwrap();
    }
    fs::write(private.join("file"), "").unwrap();
    // Without a record it has not started.
    fs::write(private.join(TWO).join(NEW_RECORD), "{").unwrap();
    assert!(matches!(found(ONE), Ok(0)));
    fs::write(private.join(TWO).join(LEFT), "{").unwrap();
    let error = found(ONE).unwrap_err().to_string();
    assert!(error.contains("what session 222222222222 may write"), "{error}");
    // Its own is not read.
    assert!(matches!(found(TWO), Ok(0)));
}

/// The git directory that is kept of an ended session, of which a sandbox wrote every file.
#[test]
fn a_kept_git_directory_is_no_record_of_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let kept = SessionState::all_private(&places).join(format!("kept-{ONE}-0"));
    fs::create_dir_all(&kept).unwrap();
    let record = kept.join(LEFT);
    let forged = r#"{"roots":[[47]],"readable":[[47]],"known":[],"opt_in":[],"hidden":[],"tops":[],"copied":[]}"#;
    let none = |what: &str| {
        let found = others(&places, TWO, &[PathBuf::from("/work")]);
        assert!(found.is_ok_and(|found| found.is_empty()), "{what}");
        fs::remove_file(&record).unwrap();
    };
    fs::write(&record, "{").unwrap();
    none("garbage");
    fs::write(&record, forged).unwrap();
    none("a record of all directories");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &record, fifo, 0o600.into(), 0).unwrap();
    none("a FIFO");
}

#[test]
fn a_record_that_is_no_file_of_its_own_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join(LEFT);
    std::os::unix::fs::symlink("/dev/zero", &record).unwrap();
    assert!(try_read(dir.path()).is_err());
    fs::remove_file(&record).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &record, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(try_read(dir.path()).is_err());
}
