//! Tests of coming to a session.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_host::directories::Places;
use pinfold_host::ipc;

use super::Attendance;

/// The name of a session's control socket.
const CONTROL: &str = "control";

/// Makes the places of a user with a session that takes no notice, as one that is frozen, and passes them on.
fn with_frozen_session(act: impl FnOnce(&Places, &str)) {
    let session = "0123456789ab";
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let private = places.state.join("private").join(session);
    fs::create_dir_all(&private).unwrap();
    // Nobody accepts.
    let _listener = ipc::listen(&private, CONTROL).unwrap();
    let began = Instant::now();
    act(&places, session);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn session_that_takes_no_notice_keeps_nobody_who_attends_to_others() {
    with_frozen_session(|places, session| {
        Attendance::begin(places, session).unwrap();
    });
}

#[test]
fn session_that_takes_no_notice_is_named_to_callers_who_ask_for_its_requests() {
    with_frozen_session(|places, session| {
        let list = Attendance::list(places, Some(session)).map(drop);
        let watch = Attendance::watch(places, Some(session)).map(drop);
        for asked in [list, watch] {
            let why = asked.unwrap_err().to_string();
            assert_eq!(why, format!("session {session} does not answer"));
        }
    });
}
