//! Tests of coming to a session.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_host::directories::Places;
use pinfold_host::ipc;

use super::Attendance;

/// The name of a session's control socket.
const CONTROL: &str = "control";

#[test]
fn session_that_takes_no_notice_keeps_nobody_who_attends_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let private = places.state.join("private/0123456789ab");
    fs::create_dir_all(&private).unwrap();
    // Nobody accepts, as in a session that is frozen.
    let _listener = ipc::listen(&private, CONTROL).unwrap();
    let began = Instant::now();
    let _attendance = Attendance::begin(&places, "0123456789ab").unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
