//! Engines that do something else than they say, and names that mean something to them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_testkit::engines::Room;
use pinfold_testkit::{Stage, people};

use super::{Scene, text};

/// A program of the engine's name that comes first, and hands other arguments on.
fn impostor(scene: &Scene, change: &str) -> String {
    let engine = scene.room.name;
    let script = format!(
        "#!/bin/bash\nall=()\nfor word; do\n{change}\nall+=(\"$word\")\ndone\nexec /usr/bin/{engine} \"${{all[@]}}\"\n"
    );
    let program = scene.stage.write(&format!("bin/{engine}"), script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", scene.stage.path("bin").display())
}

#[test]
fn a_container_that_is_not_as_asked_for_is_found_out_before_anything_runs() {
    let cases = [
        ("[[ $word != --network=none ]] || word=--network=host", "it has the network"),
        ("[[ $word != --security-opt=no-new-privileges ]] || continue", "can gain privileges"),
        (
            "[[ $word != --mount=*source=/usr,* ]] || word=${word/source=\\/usr,/source=\\/etc,}",
            "is something else",
        ),
        ("[[ $word != --user=* ]] || word=--user=12345:12345", "runs as user"),
    ];
    for scene in Scene::all("a_container_that_is_not_as_asked_for") {
        // The image is made by the real one.
        assert!(scene.shell("true").status.success());
        // A user's own daemon has no network to give where it has no bridge, and says so itself.
        let no_network = scene.room.name == "docker" && scene.room.is_rootless();
        for (change, expected) in cases.into_iter().skip(no_network.into()) {
            let mut run = scene.run(&["--", "touch", "ran"]);
            let output = run.env("PATH", impostor(&scene, change)).output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{expected}: {errors}");
            assert!(errors.contains(expected), "{}: {expected}: {errors}", scene.room.name);
            assert!(!scene.stage.workspace().join("ran").exists());
            super::until("it is gone", || scene.containers().is_empty());
        }
    }
}

/// It says yes to a limit, and starts the container without.
#[test]
fn a_limit_that_an_engine_forgets_is_refused_or_watched() {
    const GREEDY: &str = "a = b'x' * 200_000_000; import time; time.sleep(20)";
    for scene in Scene::all("a_limit_that_an_engine_forgets") {
        assert!(scene.shell("true").status.success());
        if !scene.room.is_rootless() {
            let mut run = scene.run(&["--cpus", "1", "--", "touch", "ran"]);
            let forgets = impostor(&scene, "[[ $word != --cpu* ]] || continue");
            let output = run.env("PATH", forgets).output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{errors}");
            assert!(errors.contains("cannot enforce the cpus limit"), "{errors}");
            assert!(!scene.stage.workspace().join("ran").exists());
        }
        let mut run = scene.run(&["--memory", "64M", "--", "python3", "-c", GREEDY]);
        let forgets = impostor(&scene, "[[ $word != --memory* ]] || continue");
        let output = run.env("PATH", forgets).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(137), "{errors}");
        assert!(errors.contains("the memory limit"), "{errors}");
        super::until("it is gone", || scene.containers().is_empty());
    }
}

#[test]
fn names_that_mean_something_in_a_list_are_names() {
    for user in people() {
        let Some(room) = Room::docker("names_that_mean_something_in_a_list") else { return };
        let scene = Scene { room, stage: Stage::new(user) };
        for name in ["a,readonly", "a \"b\"", "target=etc", " two  spaces "] {
            let workspace = scene.stage.path(&format!("other/{name}"));
            fs::create_dir(&workspace).unwrap();
            scene.stage.own(&workspace);
            let mut run = scene.run(&["--", "touch", "made"]);
            let output = run.current_dir(&workspace).output().unwrap();
            assert!(output.status.success(), "{name:?}: {}", text(&output.stderr));
            assert!(workspace.join("made").exists(), "{name:?}");
        }
        let odd = std::ffi::OsStr::from_bytes(b"\xff");
        let workspace = scene.stage.path("other").join(odd);
        fs::create_dir(&workspace).unwrap();
        scene.stage.own(&workspace);
        let output = scene.run(&["--", "true"]).current_dir(&workspace).output().unwrap();
        // Root's is mounted by another name.
        if user.is_root() {
            assert!(output.status.success(), "{}", text(&output.stderr))
        } else {
            assert!(text(&output.stderr).contains("not UTF-8"), "{}", text(&output.stderr))
        }
    }
}

/// A workspace whose own environment comes first on PATH: neither to start a container, nor for the doctor,
/// nor to remove what a dead session left.
#[test]
fn an_engine_that_a_sandbox_may_have_written_is_not_taken() {
    for scene in Scene::all("an_engine_that_a_sandbox_may_have_written") {
        let name = scene.room.name;
        let executed = scene.stage.path("other/executed");
        let script = format!("#!/bin/sh\ntouch {}\nexit 1\n", executed.display());
        let planted = scene.stage.write(&format!("ws/bin/{name}"), script);
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin:/usr/sbin", scene.stage.path("ws/bin").display());
        let (mut dead, _) = scene.waiting(&[]);
        dead.kill().unwrap();
        dead.wait().unwrap();
        let output = scene.run(&["--", "true"]).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let mut doctor = scene.stage.pinfold(&["doctor"]);
        scene.room.open(&mut doctor).env("PATH", &path).output().unwrap();
        assert!(!executed.exists(), "{name}");
    }
}
