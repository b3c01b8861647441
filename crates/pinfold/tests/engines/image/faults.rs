//! Engines that are not there, or do not do what they should.

use pinfold_testkit::engines::Room;
use pinfold_testkit::{Stage, people};

use super::{NEW, Scene, refused};

#[test]
fn missing_or_stopped_engine_is_reported_with_a_hint() {
    for user in people() {
        let stage = Stage::new(user);
        let tag = |engine: &str| {
            stage.pinfold(&["image", "tag", "pi", "--agent-only", "--engine", engine])
        };
        for engine in ["docker", "podman"] {
            let error = refused(&tag(engine).env("PATH", stage.path("tmp")).output().unwrap());
            assert!(
                error.contains(&format!("error: {engine} is not installed\nhint: ")),
                "{error}"
            );
        }
        let mut none = stage.pinfold(&["image", "ls"]);
        let error = refused(&none.env("PATH", stage.path("tmp")).output().unwrap());
        assert!(error.contains("error: neither docker nor podman is installed"), "{error}");
        let mut unknown = tag("rkt");
        assert_eq!(unknown.output().unwrap().status.code(), Some(2));
        // A sandbox may have put a program of that name into the workspace, which is first in PATH.
        let planted = stage.write("ws/bin/docker", "#!/bin/sh\necho planted >&2\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&planted, mode).unwrap();
        let first = planted.parent().unwrap();
        let error = refused(&tag("docker").env("PATH", first).output().unwrap());
        assert!(error.contains("error: docker is not used: PATH leads to "), "{error}");
        let socket = format!("unix://{}/no-socket", stage.base().display());
        let output = tag("docker").env("DOCKER_HOST", &socket).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("docker is not installed") {
            continue;
        }
        assert!(error.contains("error: docker does not run: "), "{error}");
        assert!(error.contains("hint: start it"), "{error}");
    }
}

#[test]
fn podman_is_used_if_docker_does_not_run_and_the_user_did_not_choose() {
    const STOPPED: &str = "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///a. Is it running?' >&2\n\
                           exit 1\n";
    for user in people() {
        let stage = Stage::new(user);
        let answers = "#!/bin/sh\nprintf 'localhost/agent-loop-sandbox-pi:v1\\t1\\t2MB\\tnow\\n'\n";
        for (engine, script) in [("docker", STOPPED), ("podman", answers)] {
            let program = stage.write(&format!("bin/{engine}"), script);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(program, mode).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", stage.path("bin").display());
        let list = |more: &[&str]| {
            let mut list = stage.pinfold(&[&["image", "ls"], more].concat());
            list.env("PATH", &path).env_remove("DOCKER_HOST").env_remove("DOCKER_CONTEXT");
            list
        };
        let output = list(&[]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(String::from_utf8_lossy(&output.stdout).contains("-pi:v1"), "{errors}");
        assert!(errors.contains("note: podman is used, since docker does not run"), "{errors}");
        let mut at_a_socket = list(&[]);
        at_a_socket.env("DOCKER_HOST", "unix:///a");
        for mut chosen in [list(&["--engine", "docker"]), at_a_socket] {
            let error = refused(&chosen.output().unwrap());
            assert!(error.contains("error: docker does not run"), "{error}");
        }
    }
}

#[test]
fn socket_of_another_user_is_reported() {
    let Some(room) = Room::docker("socket_of_another_user_is_reported") else { return };
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let stage = Stage::new(user);
        let mut list = stage.pinfold(&["image", "ls", "--engine", "docker"]);
        let error = refused(&list.env("DOCKER_HOST", room.closed_socket()).output().unwrap());
        assert!(error.contains("error: you may not use docker: permission denied"), "{error}");
        assert!(error.contains("hint: who may use Docker's socket is root"), "{error}");
    }
}

#[test]
fn mistake_in_a_dockerfile_is_reported_before_an_engine_is_asked() {
    let Some(room) = Room::podman("mistake_in_a_dockerfile_is_reported") else { return };
    let scene = Scene::new(&room);
    for (text, says) in
        [("RUN true\n", "has no FROM"), ("FROM ${BASE_IMAGE}\n", "without ARG BASE_IMAGE before")]
    {
        scene.stage.write("files/Dockerfile", text);
        let error = refused(&scene.build(&[]));
        assert!(error.contains(says) && error.contains("\nhint: "), "{error}");
    }
    std::fs::remove_file(scene.stage.path("files/Dockerfile")).unwrap();
    assert!(refused(&scene.build(&[])).contains("files/Dockerfile: No such file"));
    let gemini = scene.stage.pinfold(&["image", "tag", "gemini", "--engine", "podman"]).output();
    let error = refused(&gemini.unwrap());
    assert!(
        error.contains("there is no Dockerfile for agent gemini\nhint: put one into"),
        "{error}"
    );
    let unknown = scene.stage.pinfold(&["image", "tag", "../x", "--engine", "podman"]).output();
    assert!(refused(&unknown.unwrap()).contains("unknown agent"));
}

#[test]
fn full_disk_is_reported_as_such() {
    let Some(room) = Room::podman("full_disk_is_reported_as_such") else { return };
    let scene = Scene::new(&room);
    room.write("base:2", NEW, "two");
    scene.stage.write("files/Dockerfile", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY large /\n");
    scene.stage.write("files/large", vec![1; 40 << 20]);
    // A disk of its own, gone with the processes.
    let script = "mount -t tmpfs -o size=32m none \"$1\" && podman load --input \"$2\" >&2 && shift 2 \
                  && exec \"$@\"";
    let mut full = scene.stage.command("unshare");
    full.args(["--mount", "sh", "-c", script, "sh"])
        .args([room.path("graph"), room.path("image.tar")]);
    let build = scene.image("build", &["--base-image", "base:2"]);
    full.arg(build.get_program()).args(build.get_args());
    let error = refused(&room.open(&mut full).output().unwrap());
    assert!(error.contains("error: podman has no space left on its disk\nhint: "), "{error}");
    assert!(scene.contexts().is_empty());
}
