//! Rules for live sessions, and presets.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use pinfold_testkit::{Stage, people};

use super::World;
use super::world::{Said, people_with};

#[test]
fn a_host_is_allowed_in_a_live_session_that_had_none() {
    for person in people_with("a_host_is_allowed_in_a_live_session_that_had_none", &[]) {
        let world = World::new(person, &["web"]);
        let call = |args: &[&str]| Said::of(world.pinfold(args).output().unwrap());
        assert!(call(&["run", "--detach", "--idle", "--name", "dev"]).ok);
        let get = |options: &[&str]| {
            let curl = ["exec", "dev", "--", "curl", "-sS", "-m", "10"];
            call(&[&curl[..], options, &["https://web.example.com/x"]].concat())
        };
        assert!(!get(&[]).ok);
        let allowed = call(&["allow", "web.example.com"]);
        assert!(allowed.ok && !allowed.err.contains("note"), "{}", allowed.err);
        // By the proxy, and without it.
        for options in [&[][..], &["--noproxy", "*"]] {
            let said = get(options);
            assert!(said.out.starts_with("GET /x"), "{options:?}: {}{}", said.out, said.err);
        }
        assert!(call(&["forbid", "web.example.com"]).ok);
        assert!(!get(&[]).ok);
        assert!(call(&["stop", "dev"]).ok);
    }
}

#[test]
fn a_host_is_allowed_for_programs_with_a_proxy_in_a_session_that_is_waited_for() {
    let test = "a_host_is_allowed_for_programs_with_a_proxy_in_a_session_that_is_waited_for";
    for person in people_with(test, &[]) {
        let world = World::new(person, &["web"]);
        let script = "echo ready; read line; curl -sS -m 10 https://web.example.com/x";
        let mut run = world.pinfold(&["run", "--", "sh", "-c", script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        run.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let allowed = Said::of(world.pinfold(&["allow", "web.example.com"]).output().unwrap());
        assert!(allowed.ok && allowed.err.contains("HTTPS_PROXY"), "{}", allowed.err);
        run.stdin.take().unwrap().write_all(b"\n").unwrap();
        let said = Said::of(run.wait_with_output().unwrap());
        assert!(said.out.starts_with("GET /x"), "{}", said.out);
    }
}

#[test]
fn a_preset_is_a_list_of_rules() {
    for person in people() {
        let stage = Stage::new(person);
        let config = stage.pinfold(&["config", "--allow", "pypi"]).output().unwrap();
        let said = Said::of(config);
        said.has(&["pypi.org", "files.pythonhosted.org"]);
        let unknown = Said::of(stage.run(&["--allow", "maven"], &["true"]));
        assert!(!unknown.ok && unknown.err.contains("npm, pypi, crates"), "{}", unknown.err);
        let call = |args: &[&str]| Said::of(stage.pinfold(args).output().unwrap());
        assert!(call(&["run", "--detach", "--idle", "--name", "dev"]).ok);
        call(&["allow", "crates"]).has(&["index.crates.io by pinfold allow", "static.crates.io"]);
        assert!(!call(&["forbid", "crates"]).out.contains("crates.io"));
        assert!(call(&["stop", "dev"]).ok);
    }
}
