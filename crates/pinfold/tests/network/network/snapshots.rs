//! What set-up commands can reach.

use pinfold_testkit::archive::Archive;

use super::World;
use super::world::{Said, people_with};

#[test]
fn set_up_commands_reach_registries_and_the_hosts_that_the_snapshot_names() {
    const TEST: &str = "set_up_commands_reach_registries_and_the_hosts_that_the_snapshot_names";
    for user in people_with(TEST, &["busybox"]) {
        let world = World::new(user, &["web"]);
        // What sessions may reach is not what builds may.
        world.config("[network]\nallow = [\"other.example.org:80\"]\n");
        world.stage.write("base.tar", Archive::system().bytes());
        world.stage.write(
            "ws/sandbox.json",
            r#"{"snapshot": {"base": "../base.tar", "allowedHosts": ["web.example.com:80"],
                "setupCommands": [
                    "wget -qO /opt/page http://web.example.com/",
                    "! wget -O- http://other.example.org/",
                    "! wget -O- http://web.example.com:8080/",
                    "! wget -O- http://deb.debian.org/",
                    "unset http_proxy; ! wget -T 5 -O- http://93.184.216.35/",
                    "unset http_proxy; ! wget -T 5 -O- http://127.0.0.1/"]}}"#,
        );
        let said = |args: &[&str]| Said::of(world.pinfold(args).output().unwrap());
        assert!(said(&["trust", "--yes"]).ok);
        let built = said(&["snapshot", "build"]);
        assert!(built.ok, "{built:?}");
        let seen = world.seen();
        assert!(seen.contains("web.example.com") && !seen.contains("other.example.org"), "{seen}");
        let asked = world.asked();
        assert!(asked.contains("deb.debian.org"), "a registry is looked for: {asked}");
        assert!(!asked.contains("other.example.org"), "{asked}");
        assert!(world.shell(&[], "test -s /opt/page").ok);
    }
}
