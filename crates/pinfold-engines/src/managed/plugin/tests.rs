//! Plug-ins that hang, fail or lie.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use pinfold_host::wrappers::Wrappers;

use super::*;

/// A plug-in, whose file lies in a directory of its own.
struct Scene {
    plugin: Plugin,
    _directory: tempfile::TempDir,
}

impl Scene {
    fn new(content: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugin");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let plugin =
            Plugin::new(&Launcher::new(Wrappers::none()), HostPath::new(&path).unwrap(), &[]);
        Self { plugin, _directory: directory }
    }

    /// What is said of its limits.
    fn lacks(&self) -> Result<Lacks, String> {
        loop {
            let said = self.plugin.lacks().map_err(|error| match error {
                LaunchError::Engine { said, .. } => said,
                other => panic!("{other}"),
            });
            // A child of another test may have the file open still, until it is another program.
            if !said.as_ref().is_err_and(|said| said.contains("Text file busy")) {
                return said;
            }
        }
    }
}

fn answering(rest: &str) -> String {
    format!("#!/bin/sh\ncat >/dev/null\n{rest}\n")
}

#[test]
fn a_plugin_that_fails_or_lies_is_an_error_in_its_words() {
    for (program, said) in [
        (answering("exit 3"), "it fails and says nothing"),
        (answering("echo first >&2; echo reason >&2; exit 1"), "reason"),
        (answering("echo no json"), "its answer is not JSON: "),
        (answering("echo '{\"version\":2}'"), "its answer is not of version 1"),
        (answering("echo '{\"version\":1,\"error\":\"not today\"}'"), "not today"),
        (answering("echo '{\"version\":1}'"), "its answer lacks something: "),
        (answering("printf '\\033]0;title\\007words\\n' >&2; exit 1"), "]0;titlewords"),
        (answering("head -c 10000000 /dev/zero"), "it says more than 64 KiB"),
        ("#!/bin/sh\nexec 0<&-\nexit 0\n".to_owned(), "its answer is not JSON: "),
        // A shell reads what is no program (execvp(3)), and says what it cannot find.
        ("no program".to_owned(), ""),
    ] {
        let scene = Scene::new(&program);
        let error = scene.lacks().unwrap_err();
        let expected = format!("{}, asked to capabilities: {said}", scene.plugin.program.escaped());
        assert!(error.starts_with(&expected), "{program}: {error}");
    }
    let scene = Scene::new(&answering("echo '{\"version\":1,\"cpus\":true,\"memory\":true}'"));
    assert_eq!(scene.lacks(), Ok(Lacks::default()));
}

#[test]
fn a_plugin_that_hangs_is_not_waited_for() {
    let mut scene = Scene::new(&answering("sleep 1000"));
    assert!(scene.plugin.patience.quick <= Duration::from_secs(10));
    assert!(scene.plugin.patience.long <= Duration::from_secs(60));
    let short = Duration::from_millis(100);
    scene.plugin.patience = Patience { quick: short, long: short };
    let began = Instant::now();
    let error = scene.lacks().unwrap_err();
    assert!(error.ends_with("asked to capabilities: it does not answer"), "{error}");
    let findings = scene.plugin.probe();
    assert!(findings.len() == 1 && findings[0].fatal, "{findings:?}");
    assert!(findings[0].what.ends_with("asked to is_available: it does not answer"));
    let container = Container {
        name: "name".to_owned(),
        session: "session".to_owned(),
        mounts: Vec::new(),
        user: (0, 0),
        argv: Vec::new(),
        seccomp: scene.plugin.program.clone(),
        cpus: None,
        memory: None,
    };
    let error = scene.plugin.start(&container).unwrap_err().to_string();
    assert!(error.contains("asked to ensure_running: it does not answer"), "{error}");
    scene.plugin.remove(&container);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
