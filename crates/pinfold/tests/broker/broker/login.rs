//! A push by the host has the user's login for the remote's host, in a scratch sandbox that reaches
//! nothing else.

use crate::ssh::world::{World, people_with_hosts};

/// A world whose user lets git be run on the host.
fn world(user: pinfold_testkit::User) -> World {
    let world = World::new(user);
    let config = world.stage.path("home/.config/pinfold/config.toml");
    let ssh = std::fs::read_to_string(&config).unwrap();
    let text = format!("{ssh}\n[hostExec]\nautoApprove = true\n");
    world.stage.write("home/.config/pinfold/config.toml", text);
    let script = "git config user.name A && git config user.email a@b && echo 1 >f && git add f && git commit -qm one";
    world.outside("sh", &["-c", script]).succeeded();
    world
}

#[test]
fn push_over_ssh_uses_a_key_that_no_scratch_sandbox_has() {
    for user in people_with_hosts("a push over ssh") {
        let world = world(user);
        world.outside("git", &["remote", "add", "origin", &world.url()]).succeeded();
        let said = world.inside("pinfold-host git push origin main && pinfold-host git ls-remote origin && git status -sb").succeeded();
        assert!(said.contains("[new branch]") && said.contains("refs/heads/main"), "{said}");
        let here = world.outside("git", &["rev-parse", "HEAD"]).succeeded();
        let there = world.outside("git", &["-C", "../remote.git", "rev-parse", "main"]).succeeded();
        assert_eq!(here, there);
        let audit = world.audit();
        let sandboxes: Vec<serde_json::Value> = audit
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|one: &serde_json::Value| {
                one["subject"].as_str().is_some_and(|it| it.contains("host-exec"))
            })
            .collect();
        assert_eq!(sandboxes.len(), 2, "{audit}");
        let scratch = sandboxes[0]["session"].as_str().unwrap();
        let count_of = |event: &str| {
            audit.lines().filter(|line| line.contains(scratch) && line.contains(event)).count()
        };
        // The remote is asked what it has before a new branch goes.
        assert_eq!(count_of("ssh-login"), 2, "{audit}");
        assert_eq!(count_of("\"connection\""), 2, "{audit}");
    }
}

#[test]
fn push_without_a_login_for_the_host_is_refused_with_a_hint() {
    let Some(user) = people_with_hosts("no login").pop() else { return };
    let world = world(user);
    for (url, way_out) in [
        ("git@github.com:a/b.git", "hosts = [{ host = \"github.com\" }]"),
        ("ssh://other@git.example.com/x", "name that user in ssh.hosts"),
        ("https://github.com/a/b", "[[secrets]] with hosts = [\"github.com\"]"),
        ("ext::sh -c id", "https, http, ssh and git URLs are opened"),
    ] {
        world.outside("git", &["config", "remote.origin.url", url]).succeeded();
        let said = world.inside("pinfold-host git push origin main").failed();
        assert!(said.contains(way_out), "{url}: {said}");
    }
    assert!(!world.audit().contains("ssh-login"));
}
