//! Workspaces with a snapshot of a small system.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use crate::archive::Archive;
use crate::{Stage, installed, skip};

/// Returns whether snapshots can be built here, and prints why the test is skipped if not.
pub fn possible(test: &str) -> bool {
    let possible = installed("busybox");
    if !possible {
        skip(test, "it takes busybox-static");
    }
    possible
}

/// Trusts the workspace with settings for its snapshot, and writes `base.tar` next to it.
pub fn repository(stage: &Stage, snapshot: &str) {
    settings(stage, &format!(r#"{{"snapshot": {{{snapshot}}}}}"#));
}

/// Trusts the workspace with the text of a `sandbox.json`, and writes `base.tar` next to it.
pub fn settings(stage: &Stage, text: &str) {
    if !stage.path("base.tar").exists() {
        stage.write("base.tar", Archive::system().bytes());
    }
    stage.write("ws/sandbox.json", text);
    let trusted = stage.pinfold(&["trust", "--yes"]).output().unwrap();
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
}

/// The setting that names `base.tar` as the base.
pub const BASE: &str = r#""base": "../base.tar""#;

/// Trusts the workspace with a snapshot that runs commands on the base.
pub fn commands(stage: &Stage, commands: &[&str]) {
    let quoted: Vec<String> = commands.iter().map(|one| format!("{one:?}")).collect();
    repository(stage, &format!(r#"{BASE}, "setupCommands": [{}]"#, quoted.join(", ")));
}
