//! What an image is built on.

use std::fs;
use std::time::{Duration, SystemTime};

use pinfold_testkit::engines::Room;
use pinfold_testkit::registry::Registry;

use super::{NEW, OLD, Scene, good, refused, said};

#[test]
fn an_override_wins_and_an_unknown_base_is_refused_only_by_a_build() {
    for room in Room::all("an_override_wins") {
        let scene = Scene::new(&room);
        room.load("other:1", NEW, "another");
        let with_default = super::DOCKERFILE.replace("BASE_IMAGE\nFROM", "BASE_IMAGE=base:1\nFROM");
        scene.stage.write("files/Dockerfile", &with_default);
        let built = scene.image("build", &["--base-image", "other:1"]).output().unwrap();
        good(&built);
        assert!(said(&built).contains("another"), "{}", said(&built));
        // Nobody says what this is.
        scene.stage.write("files/Dockerfile", with_default.replace("{BASE_IMAGE}", "{OTHER}"));
        let error = refused(&scene.image("build", &[]).output().unwrap());
        assert!(error.contains("says FROM ${OTHER}, and nothing says what that is"), "{error}");
        assert!(error.contains("hint: name an image with --base-image"), "{error}");
        let tag = scene.tag(&[]);
        assert!(good(&tag).starts_with("agent-loop-sandbox-pi:v"));
        assert!(said(&tag).contains("so the tag is without its digest"), "{}", said(&tag));
        // A name in the Dockerfile needs no override, and has a digest.
        scene.stage.write("files/Dockerfile", "FROM base:1\n");
        let tag = scene.tag(&[]);
        good(&tag);
        assert_eq!(said(&tag), "");
    }
}

#[test]
fn an_image_builds_on_what_its_provider_here_builds_on() {
    let Some(room) = Room::podman("an_image_builds_on_what_its_provider_here") else { return };
    let scene = Scene::new(&room);
    let base = |options: &[&str]| {
        let json = good(&scene.image("tag", options).arg("--json").output().unwrap());
        let shown: serde_json::Value = serde_json::from_str(&json).unwrap();
        shown["base"].as_str().unwrap().to_owned()
    };
    let (plain, claude) = ("node:22-slim", "docker/sandbox-templates:claude-code");
    assert_eq!(base(&[]), plain);
    let ralphs = r#"{"type": "docker-sandbox", "pi": {"provider": "claude-sdk"}}"#;
    scene.stage.write("ws/.agent-loop/config.json", ralphs);
    assert_eq!(base(&[]), plain);
    let trust = || good(&scene.stage.pinfold(&["trust", "--yes"]).output().unwrap());
    trust();
    assert_eq!(base(&[]), claude);
    assert_eq!(base(&["--agent-only"]), plain);
    assert_eq!(base(&["--provider", "openai"]), plain);
    assert_eq!(base(&["--base-image", "own:1"]), "own:1");
    scene.stage.write("ws/.agent-loop/config.json", r#"{"pi": {"provider": "none"}}"#);
    trust();
    let error = refused(&scene.tag(&[]));
    assert!(error.contains("no provider \"none\"; known: "), "{error}");
    scene.stage.write("ws/.agent-loop/config.json", r#"{"pi": 1}"#);
    assert!(refused(&scene.tag(&[])).contains("'pi' section in "));
    scene.stage.write("ws/.agent-loop/config.json", "{}");
    scene.stage.write("home/.config/pinfold/config.toml", "provider = \"claude-sdk\"\n");
    assert_eq!(base(&["--agent-only"]), claude);
}

#[test]
fn base_is_asked_for_again_after_seven_days() {
    const TEST: &str = "base_is_asked_for_again_after_seven_days";
    for room in Room::all(TEST) {
        let Some(registry) = Registry::start(TEST) else { return };
        let scene = Scene::new(&room);
        let name = format!("{}/base:1", registry.address);
        let getting = format!("pinfold: getting {name}");
        let build = |options: &[&str]| {
            let all = [&["--base-image", name.as_str()], options].concat();
            scene.image("build", &all).output().unwrap()
        };
        let error = refused(&build(&["--offline"]));
        assert!(error.contains(&format!("the image {name} is not here")), "{error}");
        let error = refused(&build(&[]));
        assert!(error.contains(&format!("cannot get the image {name}")), "{error}");
        assert!(error.contains("--offline builds on the one that is here"), "{error}");
        let push = |mark: &str| {
            room.load(&name, OLD, mark);
            room.good(&["push", &name]);
            room.good(&["image", "rm", "--force", &name]);
        };
        push("first");
        let first = build(&[]);
        let tag = good(&first);
        assert!(said(&first).contains(&getting) && said(&first).contains("first"));
        push("second");
        room.good(&["pull", &name]);
        room.load(&name, OLD, "first");
        // It was asked for just now, and is not asked for again for being old.
        assert!(!said(&build(&[])).contains(&getting));
        let asked = scene.stage.path("home/.cache/pinfold/images/bases");
        let asked = fs::read_dir(asked).unwrap().next().unwrap().unwrap().path();
        let long_ago = SystemTime::now() - Duration::from_secs(8 * 24 * 60 * 60);
        fs::File::open(&asked).unwrap().set_modified(long_ago).unwrap();
        assert!(!said(&build(&["--offline"])).contains(&getting));
        room.good(&["image", "rm", "--force", &name]);
        room.good(&["pull", &name]);
        let second = build(&[]);
        assert_ne!(good(&second), tag, "another base is another image");
        assert!(said(&second).contains(&getting) && said(&second).contains("second"));
    }
}

#[test]
fn a_base_that_was_made_here_is_used_however_old() {
    for room in Room::all("a_base_that_was_made_here_is_used_however_old") {
        let scene = Scene::new(&room);
        room.load("old:1", OLD, "old");
        let built = scene.image("build", &["--base-image", "old:1"]).output().unwrap();
        good(&built);
        assert!(said(&built).contains("was made on this machine"), "{}", said(&built));
    }
}

#[test]
fn an_image_without_a_base_is_built() {
    for room in Room::all("an_image_without_a_base_is_built") {
        let scene = Scene::new(&room);
        scene.stage.write("files/Dockerfile", "FROM scratch\nCOPY settings.json /\n");
        let tag = good(&scene.image("build", &[]).output().unwrap());
        let expected = scene.tag(&[]);
        assert_eq!((good(&expected), said(&expected).as_str()), (tag, ""));
    }
}
