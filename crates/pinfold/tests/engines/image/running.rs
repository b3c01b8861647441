//! Sessions that run on an image: on its files, and on nothing else that it says.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_testkit::engines::{Room, add, add_link, layer, pack};
use pinfold_testkit::{has_engine, people};

use super::{NEW, Scene, good, said};

/// An image that says and holds what could hurt the user who runs it.
fn hostile(name: &str) -> Vec<u8> {
    const CONFIG: &str = r#"{
        "Entrypoint": ["/bin/evil"], "Cmd": ["evil"], "User": "0:0", "WorkingDir": "/evil",
        "Env": ["PATH=/evil", "LD_PRELOAD=/evil.so", "EVIL=1"],
        "Volumes": {"/workspace": {}, "/evil": {}, "/etc": {}}, "ExposedPorts": {"22/tcp": {}},
        "Labels": {"dev.pinfold.session": "s-evil"}, "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["CMD", "/bin/evil"], "Interval": 1000000000},
        "OnBuild": ["RUN /bin/evil"]}"#;
    let mut lower = layer("hostile");
    add(&mut lower, "bin/evil", 0o6777, b"#!/bin/sh\necho evil\n");
    add(&mut lower, "srv/gone", 0o644, b"lower");
    add(&mut lower, "home/agent/.profile", 0o644, b"export EVIL=2\n");
    add_link(&mut lower, "etc/passwd", "/mark");
    add_link(&mut lower, "proc", "/evil");
    add_link(&mut lower, "workspace", "/");
    let mut device = tar::Header::new_ustar();
    device.set_entry_type(tar::EntryType::Block);
    device.set_size(0);
    device.set_mode(0o666);
    device.set_device_major(254).unwrap();
    device.set_device_minor(0).unwrap();
    lower.append_data(&mut device, "srv/disk", std::io::empty()).unwrap();
    let mut upper = tar::Builder::new(Vec::new());
    add(&mut upper, "srv/.wh.gone", 0o644, b"");
    add(&mut upper, "srv/upper", 0o644, b"upper\n");
    pack(name, NEW, CONFIG, vec![lower, upper])
}

/// Whatever is said of an image, sessions have its files, and everything else of pinfold's.
#[test]
fn of_an_image_a_session_has_the_files_and_nothing_else() {
    const LOOK: &str = "cat /srv/mark /srv/upper; echo $PATH; pwd; env | grep -i evil; \
        stat -c %a /bin/evil; ls -d /srv/gone /srv/disk /evil 2>/dev/null; \
        id -un; grep -c . /etc/passwd; touch /bin/new 2>/dev/null && echo written; true";
    for room in Room::all("of_an_image_a_session_has_the_files") {
        let scene = Scene::new(&room);
        room.load_archive(&hostile("hostile:1"));
        let base = room.base("hostile:1");
        let mut walls = vec![vec!["--boundary", "namespace"], vec!["--engine", room.name]];
        if has_engine("runc") {
            walls.push(vec!["--engine", "runc"]);
        }
        for wall in walls {
            let mut args = vec!["run", "--base", &base];
            args.extend(wall.iter().copied());
            args.extend(["--", "/bin/busybox", "sh", "-c", LOOK]);
            let output = room.open(&mut scene.stage.pinfold(&args)).output().unwrap();
            let shown = good(&output);
            let lines: Vec<&str> = shown.lines().collect();
            let workspace = scene.stage.workspace().display().to_string();
            assert_eq!(lines[..2], ["hostile", "upper"], "{wall:?}: {shown}");
            assert!(lines[2].starts_with("/usr/local/sbin:/usr/local/bin:"), "{wall:?}: {shown}");
            assert_eq!(lines[3], workspace, "{wall:?}: {shown}");
            // No variable, no set-user-ID bit, nothing that was taken away, no device.
            assert_eq!(lines[4..6], ["777", "agent"], "{wall:?}: {shown}");
            assert!(lines[6].parse::<u32>().unwrap() >= 3, "{wall:?}: {shown}");
            // What is written to the system is the session's own.
            assert_eq!(lines.get(7..), Some(&["written"][..]), "{wall:?}: {shown}");
        }
        assert_eq!(room.good(&["ps", "--all", "--quiet"]), "", "no container is left");
        assert_eq!(room.good(&["volume", "ls", "--quiet"]), "", "and no volume");
        let inspected = room.good(&["image", "inspect", "hostile:1"]);
        assert!(inspected.contains("/bin/evil"), "the image is what it was");
    }
}

/// A name means what the engine has under it now, and an id always the same.
#[test]
fn a_name_is_looked_up_at_each_start_and_an_id_stays() {
    for room in Room::all("a_name_is_looked_up_at_each_start") {
        let scene = Scene::new(&room);
        let mark = |base: &str| {
            let args = ["run", "--base", base, "--", "cat", "/srv/mark"];
            room.open(&mut scene.stage.pinfold(&args)).output().unwrap()
        };
        let id = room.good(&["image", "inspect", "--format", "{{.Id}}", "base:1"]);
        let first = mark(&room.base("base:1"));
        assert_eq!(good(&first), "one");
        assert!(said(&first).contains("getting the image from its engine"), "{}", said(&first));
        assert!(!said(&mark(&room.base("base:1"))).contains("getting"), "it is kept");
        room.load("base:1", NEW, "two");
        assert_eq!(good(&mark(&room.base("base:1"))), "two");
        assert_eq!(good(&mark(&room.base(&id))), "one");
        let error = refused_run(&mark(&room.base("none:1")));
        assert!(
            error.contains(&format!("{} has no image none:1\nhint: see `", room.name)),
            "{error}"
        );
    }
}

/// An agent's image is built when it is not there, and the agent in it is the one that runs.
#[test]
fn an_agent_runs_in_its_own_image() {
    for room in Room::all("an_agent_runs_in_its_own_image") {
        let scene = Scene::new(&room);
        let home = scene.stage.path("home/.config/pinfold");
        let write = |name: &str, text: &str| {
            scene.stage.write(&format!("home/.config/pinfold/{name}"), text);
        };
        write("agents/own.toml", "name = \"own\"\ncli_command = \"own\"\n");
        write("images/own/Dockerfile", "FROM base:1\nCOPY own /usr/local/bin/own\n");
        write("images/own/own", "#!/bin/sh\ncat /srv/mark; echo own \"$@\"\n");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(home.join("images/own/own"), mode).unwrap();
        let run = |options: &[&str]| {
            let mut args = vec!["run", "--agent-image", "--engine", room.name];
            args.extend(options);
            args.extend(["own", "--", "a b"]);
            room.open(&mut scene.stage.pinfold(&args)).output().unwrap()
        };
        let first = run(&[]);
        assert_eq!(good(&first), "one\nown a b");
        assert!(said(&first).contains("building agent-loop-sandbox-own:v"), "{}", said(&first));
        let second = run(&["--boundary", "container"]);
        assert_eq!(good(&second), "one\nown a b");
        assert!(!said(&second).contains("building"), "{}", said(&second));
        // What the repository adds waits until somebody has looked at it.
        let layer = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY more /more\n";
        scene.stage.write("ws/.agent-loop/Dockerfile.sandbox", layer);
        scene.stage.write("ws/.agent-loop/more", "more");
        let error = refused_run(&run(&[]));
        assert!(error.contains("Dockerfile.sandbox is not trusted as it is now"), "{error}");
        good(&scene.stage.pinfold(&["trust", "--image", "--yes"]).output().unwrap());
        let layered = run(&[]);
        assert!(
            said(&layered).contains("building agent-loop-sandbox-own-ws:v"),
            "{}",
            said(&layered)
        );
        assert_eq!(good(&layered), "one\nown a b");
        // An image that lacks its agent is no reason to run another program of that name.
        write("images/own/Dockerfile", "FROM base:1\n");
        let error = refused_run(&run(&[]));
        assert!(error.contains("the image has no program own in /usr/local/sbin:"), "{error}");
    }
}

/// An engine is believed that it has an image, and not what is in it.
#[test]
fn saved_image_is_checked_against_the_engines_listing() {
    let user = people().remove(0);
    let stage = pinfold_testkit::Stage::new(user);
    let image = pack("lie:1", NEW, "{}", vec![layer("lie")]);
    let archive = stage.write("image.tar", &image);
    let digest = "0".repeat(64);
    let fake = |said: &str, saves: &str| {
        let script = format!(
            "#!/bin/sh\ncase $1 in\nimage) printf '%s' '{said}';;\n\
             save) for last; do :; done; case $2 in --output=*) out=${{2#--output=}};; esac\n{saves};;\nesac\n"
        );
        let program = stage.write("bin/docker", script);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut run =
            stage.pinfold(&["run", "--base", "docker-daemon:lie:1", "--", "cat", "/srv/mark"]);
        let path = format!("{}:/usr/bin:/bin", stage.path("bin").display());
        refused_run(&run.env("PATH", path).output().unwrap())
    };
    let says = |layers: &str| {
        format!(r#"[{{"Id": "sha256:{digest}", "RootFS": {{"Layers": [{layers}]}}}}]"#)
    };
    let one = format!("\"sha256:{digest}\"");
    let copy = format!("cat {} >\"$out\"", archive.display());
    for (said, saves, error) in [
        (says(&one), copy.as_str(), "it has a layer of another content"),
        (says(&format!("{one}, {one}")), &copy, "it has another number of layers"),
        (says(""), &copy, "does not say what the layers of the image lie:1 are"),
        (says(&one), "echo no image >\"$out\"", "the archive is damaged"),
        (says(&one), "exit 0", "it has written nothing"),
        (says(&one), "echo broken >&2; exit 1", "docker cannot save the image"),
        ("[]".to_owned(), &copy, "docker has no image lie:1"),
        ("{".to_owned(), &copy, "its answer is not understood"),
    ] {
        let listed = fake(&said, saves);
        assert!(listed.contains(error), "{error}: {listed}");
        let kept = fs::read_dir(stage.path("home/.cache/pinfold/bases"));
        let trees =
            kept.into_iter().flatten().flatten().filter(|one| one.path().join("tree").exists());
        assert_eq!(trees.count(), 0, "{error}: nothing is kept");
    }
}

/// What a run said that did not start.
fn refused_run(output: &std::process::Output) -> String {
    assert_eq!(output.status.code(), Some(125), "{}", said(output));
    said(output)
}
