use std::fs;

use super::*;

#[test]
fn a_session_whose_record_is_damaged_keeps_others_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let roots = [PathBuf::from("/work")];
    let found = |own: &str| others(&places, own, &roots).map(|others| others.len());
    assert!(matches!(found("one"), Ok(0)), "nothing has started yet");
    let private = SessionState::all_private(&places);
    for session in ["one", "two"] {
        fs::create_dir_all(private.join(session)).unwrap();
    }
    fs::write(private.join("file"), "").unwrap();
    // Without a record it has not started.
    fs::write(private.join("two").join(NEW_RECORD), "{").unwrap();
    assert!(matches!(found("one"), Ok(0)));
    fs::write(private.join("two").join(RECORD), "{").unwrap();
    let error = found("one").unwrap_err().to_string();
    assert!(error.contains("what session two may write"), "{error}");
    // Its own is not read.
    assert!(matches!(found("two"), Ok(0)));
}
