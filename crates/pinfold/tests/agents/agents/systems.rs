//! A real agent on systems that are not this machine's.

use pinfold_testkit::agent::{AgentScene, ready};
use pinfold_testkit::archive::Archive;
use pinfold_testkit::{Script, Stage, installed, people, skip};

use super::{headless, refusal};

/// What the work takes: the agent's own needs, and the model's commands.
const PROGRAMS: &str = "sh bash env node git rg find cat ls grep sed head tail cp mv rm mkdir chmod \
    sort tr uname id";

/// A tarball of these programs of this machine, with the libraries that they ask for.
fn small_debian(stage: &Stage) {
    let line = "set -e; cd /; for name in $1; do command -v $name; done >$2.list; \
        echo /bin/sh >>$2.list; \
        ldd $(cat $2.list) 2>/dev/null | grep -o '/[^ ]*' | grep -v : >>$2.list; \
        echo /usr/share/git-core >>$2.list; sort -u $2.list | sed s,^/,, >$2.names; \
        tar -chf $2 --mtime=@0 --owner=0 --group=0 -T $2.names";
    let tarball = stage.path("system.tar");
    let mut shell = stage.command("sh");
    let output = shell.args(["-c", line, "sh", PROGRAMS]).arg(tarball).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Trusts a snapshot for the scene's repository.
fn on(scene: &AgentScene, snapshot: &serde_json::Value) {
    let settings = serde_json::json!({ "snapshot": snapshot }).to_string();
    let path = scene.repo.path().join("sandbox.json");
    std::fs::write(&path, settings).unwrap();
    scene.stage.own(&path);
    let mut trust = scene.stage.pinfold(&["trust", "--yes"]);
    assert!(trust.current_dir(scene.repo.path()).status().unwrap().success());
}

#[test]
fn pi_works_on_a_snapshot_of_another_system() {
    const TEST: &str = "pi_works_on_a_snapshot_of_another_system";
    if ready(TEST).is_none() {
        return;
    }
    if let Some(lacking) = PROGRAMS.split(' ').find(|name| !name.is_empty() && !installed(name)) {
        return skip(TEST, &format!("{lacking} is not installed"));
    }
    for user in people() {
        let scene = AgentScene::new(user, Script::fix_the_bug());
        small_debian(&scene.stage);
        let base = scene.stage.path("system.tar");
        let setup = ["mkdir -p /usr/local/share; node --version >/usr/local/share/mark"];
        on(&scene, &serde_json::json!({ "base": base, "setupCommands": setup }));
        let output = scene.run("pi", headless("pi")).output().unwrap();
        scene.assert_done("pi", &output);
        let mut run = scene.stage.pinfold(&["run", "--", "sh", "-c"]);
        run.arg("cat /usr/local/share/mark; ls -d /usr/share/doc /var/lib/dpkg || echo none");
        run.current_dir(scene.repo.path())
            .env("XDG_CACHE_HOME", pinfold_testkit::agent::cache(user));
        let said = String::from_utf8(run.output().unwrap().stdout).unwrap();
        assert!(said.starts_with('v') && said.ends_with("\nnone\n"), "{said}");
    }
}

#[test]
fn pi_is_refused_where_its_node_does_not_run() {
    const TEST: &str = "pi_is_refused_where_its_node_does_not_run";
    if ready(TEST).is_none() {
        return;
    }
    if !installed("busybox") {
        return skip(TEST, "it takes busybox-static");
    }
    for user in people() {
        let scene = AgentScene::new(user, Script::fix_the_bug());
        // A shell that asks for musl's loader, as Alpine's does.
        let musl = Archive::system().file("bin/ash", "/lib/ld-musl-x86_64.so.1\0");
        let glibc = "which the session's system lacks\nhint: name a base that has it (debian";
        let other = "musl\nhint: the session's system is built on musl: name a base with glibc";
        for (name, archive, says) in [
            ("busybox.tar", Archive::system(), glibc),
            ("musl.tar", musl.symlink("bin/sh", "ash"), other),
        ] {
            let base = scene.stage.write(name, archive.bytes());
            on(&scene, &serde_json::json!({ "base": base }));
            let errors = refusal(scene.run("pi", headless("pi")));
            assert!(errors.contains(says), "{name}: {errors}");
        }
    }
}
