//! Docker and Podman behind the same policy: what is theirs alone.

mod attacks;
mod faults;
mod plugins;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::engines::Room;
use pinfold_testkit::podman::runs_podman;
use pinfold_testkit::{Stage, User, installed, people, skip};
use serde_json::Value;

/// An engine, and who uses it.
struct Scene {
    room: Room,
    stage: Stage,
}

impl Scene {
    /// Docker for everybody, Docker without root, and Podman for root and without root.
    fn all(test: &str) -> Vec<Self> {
        let users =
            |user| [Room::docker(test), Room::users_docker(test, user), Room::rootless(test, user)];
        let rooms = |user: User| {
            if user.is_root() {
                Room::all(test)
            } else {
                users(user).into_iter().flatten().collect()
            }
        };
        let of =
            |user| rooms(user).into_iter().map(move |room| Self { room, stage: Stage::new(user) });
        people().into_iter().flat_map(of).collect()
    }

    fn run(&self, options: &[&str]) -> Command {
        let mut run = self.stage.pinfold(&["run"]);
        self.room.open(&mut run).args(["--engine", self.room.name]).args(options);
        run
    }

    fn shell(&self, script: &str) -> Output {
        self.run(&["--", "sh", "-c", script]).output().unwrap()
    }

    /// The engine itself, as its user calls it.
    fn engine(&self, args: &[&str]) -> String {
        let mut engine = self.stage.command(self.room.name);
        let output = self.room.open(&mut engine).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    /// The names of all containers, those that have ended among them.
    fn containers(&self) -> String {
        self.engine(&["ps", "--all", "--format", "{{.Names}}"])
    }

    /// A run that waits, which has a container of this name.
    fn waiting(&self, options: &[&str]) -> (std::process::Child, String) {
        let mut run = self.run(options);
        run.args(["--", "sh", "-c", "touch runs; sleep 1000"]);
        let run = run.stderr(Stdio::piped()).spawn().unwrap();
        until("it runs", || self.stage.workspace().join("runs").exists());
        let name = self.containers();
        assert!(name.starts_with("pinfold-") && !name.contains('\n'), "{name}");
        (run, name)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn run_behind_a_manager_has_its_streams_status_and_owners_of_files() {
    for scene in Scene::all("it_runs_with_its_streams") {
        let name = scene.room.name;
        let mut run = scene.run(&["--", "sh", "-c"]);
        run.arg("cat; pwd; echo $PINFOLD_HANDLED_BY; echo no >&2; id -u; touch made; exit 7");
        let mut run = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut run.stdin.take().unwrap(), b"in\n").unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{name}: {}", text(&output.stderr));
        let user = scene.stage.user;
        let uid = if user.is_root() { 1000 } else { user.uid };
        let workspace = scene.stage.workspace();
        let said = format!("in\n{}\ncontainer ({name})\n{uid}\n", workspace.display());
        assert_eq!(text(&output.stdout), said);
        assert!(text(&output.stderr).contains("no\n"));
        assert_eq!(fs::metadata(workspace.join("made")).unwrap().uid(), user.uid);
        until("its container is gone", || scene.containers().is_empty());
    }
}

/// Each field by the engine's own account of the container that runs.
#[test]
fn the_engine_itself_says_that_the_container_is_as_safe_as_it_can_be() {
    for scene in Scene::all("the_engine_itself_says") {
        let is_rootless = scene.room.is_rootless();
        let share: &[&str] = if is_rootless { &[] } else { &["--cpus", "1.5"] };
        let limits = [share, &["--memory", "256M"]].concat();
        let (mut run, name) = scene.waiting(&limits);
        let all: Value = serde_json::from_str(&scene.engine(&["inspect", &name])).unwrap();
        let container = &all[0];
        let host = &container["HostConfig"];
        let engine = scene.room.name;
        assert_eq!(host["NetworkMode"], "none", "{engine}");
        assert_eq!(host["ReadonlyRootfs"], true, "{engine}");
        assert_eq!(host["Privileged"], false, "{engine}");
        assert_eq!(host["AutoRemove"], true, "{engine}");
        let number = |name: &str| host[name].as_f64().unwrap_or(0.0);
        let cpus = match engine {
            "docker" => number("NanoCpus") / 1e9,
            _ => number("CpuQuota") / number("CpuPeriod").max(1.0),
        };
        assert!(is_rootless || cpus == 1.5, "{engine}: {cpus}");
        for name in ["Memory", "MemorySwap"] {
            assert!(is_rootless || number(name) == f64::from(256 << 20), "{engine}: {name}");
        }
        match engine {
            "docker" => assert_eq!(host["CapDrop"], serde_json::json!(["ALL"])),
            _ => assert_eq!(container["EffectiveCaps"].as_array().map_or(0, Vec::len), 0),
        }
        let added = match (engine, is_rootless) {
            // Over its own ids alone: init maps the user by it, and has none afterwards.
            ("docker", true) => serde_json::json!(["CAP_SETFCAP"]),
            ("docker", false) => Value::Null,
            _ => serde_json::json!([]),
        };
        assert_eq!(host["CapAdd"], added, "{engine}");
        let options = host["SecurityOpt"].to_string();
        assert!(options.contains("no-new-privileges"), "{engine}: {options}");
        assert!(
            options.contains("seccomp=") && !options.contains("seccomp=unconfined"),
            "{options}"
        );
        for place in ["PidMode", "IpcMode", "UTSMode"] {
            assert_ne!(host[place], "host", "{engine}: {place}");
        }
        assert_eq!(host["Devices"].as_array().map_or(0, Vec::len), 0, "{engine}");
        let image = match engine {
            "docker" => container["Config"]["Image"].as_str(),
            _ => container["ImageName"].as_str().or(container["Image"].as_str()),
        };
        assert!(image.is_some_and(|image| image.len() >= 64), "{engine}: by digest: {image:?}");
        let user = container["Config"]["User"].as_str().unwrap();
        match (engine, is_rootless) {
            // Who runs the daemon, by name root.
            ("docker", true) => assert_eq!(user, "0:0"),
            _ => assert!(!user.is_empty() && !user.starts_with("0"), "{engine}: {user}"),
        }
        let mounts = container["Mounts"].as_array().unwrap();
        for mount in mounts {
            let source = mount["Source"].as_str().unwrap();
            assert!(!source.ends_with(".sock") && !source.contains("docker"), "{engine}: {source}");
            let is_ours = source.starts_with(scene.stage.base().to_str().unwrap())
                || source.starts_with("/run/pinfold-mounts/");
            assert!(is_ours || mount["RW"] == false, "{engine}: {mount}");
        }
        assert_eq!(
            container["Config"]["Labels"]["dev.pinfold.session"].as_str().map(str::len),
            Some(12)
        );
        run.kill().unwrap();
        run.wait().unwrap();
        until("its container is gone", || scene.containers().is_empty());
    }
}

#[test]
fn nothing_is_left_when_the_supervisor_or_the_container_is_killed() {
    for scene in Scene::all("nothing_is_left_when") {
        for victim in ["pinfold", "container"] {
            let _ = fs::remove_file(scene.stage.path("ws/runs"));
            let (mut run, name) = scene.waiting(&[]);
            match victim {
                "pinfold" => run.kill().unwrap(),
                _ => drop(scene.engine(&["kill", &name])),
            }
            let output = run.wait_with_output().unwrap();
            assert_ne!(output.status.code(), Some(0));
            let is_reported =
                text(&output.stderr).contains("the container ended before the command did");
            assert!(is_reported || victim == "pinfold", "{}", text(&output.stderr));
            until("its container is gone", || scene.containers().is_empty());
            if victim == "container" {
                let left = fs::read_dir(scene.stage.state().join("private")).unwrap().count();
                assert_eq!(left, 0, "the supervisor has cleaned up");
            }
            // The next run finds nothing in its way, and takes away what was left.
            assert!(scene.shell("true").status.success());
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            assert!(!mounts.contains(scene.stage.base().to_str().unwrap()), "{mounts}");
        }
    }
}

#[test]
fn ten_at_once_are_ten() {
    for scene in Scene::all("ten_at_once_are_ten") {
        let start = |number| {
            let script = format!("echo {number} > out{number}");
            scene.run(&["--", "sh", "-c", &script]).spawn().unwrap()
        };
        for mut run in (0..10).map(start).collect::<Vec<_>>() {
            assert!(run.wait().unwrap().success());
        }
        let made = (0..10).filter(|number| scene.stage.path(&format!("ws/out{number}")).exists());
        assert_eq!(made.count(), 10, "{}", scene.room.name);
    }
}

/// Masks, a view, files of our own and the doors are those of the embedded boundary.
#[test]
fn hidden_files_are_hidden_and_private_files_are_gone() {
    for scene in Scene::all("what_is_hidden_is_hidden") {
        scene.stage.write("ws/.env", "TOKEN=secret");
        scene.stage.write("ws/sub/.env.local", "TOKEN=secret");
        let script = "cat .env sub/.env.local; echo x > .git/hooks/post-commit; touch ~/here; \
                      ls -A /run/pinfold /home; cat /proc/net/dev | grep -c :";
        let first = scene.shell(script);
        assert!(!text(&first.stdout).contains("secret"), "{}", text(&first.stdout));
        assert!(text(&first.stdout).ends_with("1\n"), "its own loopback alone");
        let second = scene.shell("ls -A ~");
        assert!(!text(&second.stdout).contains("here"), "fresh for each run");
    }
}

/// Podman keeps a user's namespace by a process that no later command ends.
#[test]
fn doctor_leaves_no_process_of_podmans() {
    const TEST: &str = "doctor_leaves_no_process_of_podmans";
    if !installed("podman") {
        return skip(TEST, "podman is not installed");
    }
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let stage = Stage::new(user);
        let mut doctor = stage.pinfold(&["doctor"]);
        doctor.env("XDG_RUNTIME_DIR", stage.path("tmp"));
        let said = text(&doctor.output().unwrap().stdout);
        assert!(said.contains("container (podman): works"), "{said}");
        assert!(!runs_podman(stage.base()), "{said}");
        // One that was there is left alone.
        let mut own = stage.command("podman");
        own.env("XDG_RUNTIME_DIR", stage.path("tmp"));
        assert!(own.args(["ps", "--all"]).output().unwrap().status.success());
        assert!(runs_podman(stage.base()));
        assert!(doctor.output().is_ok() && runs_podman(stage.base()));
    }
}
