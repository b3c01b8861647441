//! Engines that are not there, or do not serve.

use pinfold_testkit::engines::Room;
use pinfold_testkit::{Stage, people};

use super::{Scene, text};

#[test]
fn missing_or_unreachable_engine_is_reported_with_a_hint() {
    let Some(room) = Room::docker("who_is_not_there") else { return };
    let closed = room.closed_socket();
    for user in people() {
        let stage = Stage::new(user);
        let case = |host: &str, expected: &str, out: &str| {
            let mut run = stage.pinfold(&["run"]);
            run.args(["--engine", "docker", "--", "touch", "ran"]).env("DOCKER_HOST", host);
            let output = run.output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{errors}");
            assert!(errors.contains(expected) && errors.contains(out), "{errors}");
            assert_eq!(std::fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
        };
        case("unix:///nonexistent/socket", "docker does not run", "systemctl start docker");
        if !user.is_root() {
            case(&closed, "you may not use docker", "is root on this machine");
        }
        let mut run = stage.pinfold(&["run"]);
        run.args(["--engine", "podman", "--", "true"]).env("PATH", "/nonexistent");
        let errors = text(&run.output().unwrap().stderr);
        assert!(
            errors.contains("podman is not installed") && errors.contains("apt install"),
            "{errors}"
        );
    }
}

#[test]
fn a_daemon_that_is_stopped_half_way_leaves_the_session_or_ends_it() {
    let Some(room) = Room::docker("a_daemon_that_is_stopped_half_way") else { return };
    let scene = Scene { room, stage: Stage::new(people().remove(0)) };
    let (mut run, _) = scene.waiting(&[]);
    // It ends its containers with it.
    drop(scene.room);
    assert_ne!(run.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(scene.stage.state().join("private")).unwrap().count(), 0);
}

/// At whatever time: before there is a container, while it starts, while the command runs.
#[test]
fn a_supervisor_that_is_killed_at_any_time_leaves_nothing_for_long() {
    for scene in Scene::all("a_supervisor_that_is_killed_at_any_time") {
        assert!(scene.shell("true").status.success());
        for time in (0..10).map(|step| std::time::Duration::from_millis(step * 60)) {
            let mut run = scene.run(&["--", "sleep", "1000"]).spawn().unwrap();
            // It is the time that is tried.
            std::thread::sleep(time);
            run.kill().unwrap();
            run.wait().unwrap();
        }
        // What an engine was kept from removing, the next run removes.
        assert!(scene.shell("true").status.success());
        super::until("its containers are gone", || scene.containers().is_empty());
        let name = scene.room.name;
        assert_eq!(std::fs::read_dir(scene.stage.state().join("private")).unwrap().count(), 0);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(scene.stage.base().to_str().unwrap()), "{name}: {mounts}");
    }
}

/// By the engine's control group where it has one, else by init.
#[test]
fn command_over_its_memory_limit_ends_with_the_limits_name() {
    for scene in Scene::all("what_needs_more_memory") {
        let name = scene.room.name;
        // tail keeps a line whole, and nothing here ends one.
        let script = "head -c 400M /dev/zero | tail -n 1 | wc -c; sleep 20";
        let options = ["--memory", "128M", "--", "sh", "-c", script];
        let output = scene.run(&options).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(137), "{name}: {errors}");
        assert!(errors.contains("the memory limit ended the run"), "{name}: {errors}");
        super::until("its container is gone", || scene.containers().is_empty());
    }
}

/// A machine that lost its power comes back with what lay on its disk: the session's files, and a container that
/// nobody runs.
#[test]
fn leftovers_of_a_power_failure_are_swept_by_the_next_run() {
    let Some(room) = Room::docker("what_a_power_failure_left") else { return };
    let mut scene = Scene { room, stage: Stage::new(people().remove(0)) };
    let (mut run, name) = scene.waiting(&[]);
    let pid = scene.engine(&["inspect", "--format", "{{.State.Pid}}", &name]);
    let init = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    scene.room.lose_power(|| {
        run.kill().unwrap();
        rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    });
    run.wait().unwrap();
    scene.room.come_back();
    assert_eq!(text(&scene.shell("echo works").stdout), "works\n");
    super::until("its container is gone", || scene.containers().is_empty());
    assert_eq!(std::fs::read_dir(scene.stage.state().join("private")).unwrap().count(), 0);
    let ps = scene.stage.pinfold(&["ps", "--json"]).output().unwrap();
    assert!(
        !text(&ps.stdout).contains(name.trim_start_matches("pinfold-")),
        "{}",
        text(&ps.stdout)
    );
}

/// Podman itself warns and goes on.
#[test]
fn a_share_of_the_cpu_that_an_engine_would_leave_out_is_refused() {
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let Some(room) = Room::rootless("a_share_of_the_cpu", user) else { continue };
        let scene = Scene { room, stage: Stage::new(user) };
        let own = format!("/sys/fs/cgroup/user.slice/user-{0}.slice/user@{0}.service", user.uid);
        if std::path::Path::new(&own).exists() {
            pinfold_testkit::skip("a_share_of_the_cpu", "systemd delegates control groups here");
            continue;
        }
        let errors = text(&scene.run(&["--cpus", "1", "--", "true"]).output().unwrap().stderr);
        assert!(errors.contains("cannot enforce the cpus limit"), "{errors}");
        assert!(scene.shell("true").status.success(), "the default share is left out");
    }
}
