//! Files with a secret's name that appear in a live checkout while a session works on it.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use pinfold_testkit::{Session, Stage, people};

const MADE: &str = "made while the sandbox ran, by the host or by the sandbox";
const BELOW: &str = "made on the host while the sandbox ran";

fn host(stage: &Stage, script: &str) {
    let output = stage.command("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn start<'a>(stage: &'a Stage, before: &str, options: &[&str]) -> Session<'a> {
    host(stage, before);
    let mut run = stage.pinfold(&["run"]);
    run.args(options).args(["--", "sh", "-c", "echo ready; read line"]).stderr(Stdio::piped());
    Session::of(stage, run)
}

fn said(mut session: Session<'_>) -> String {
    let mut stderr = session.process.stderr.take().unwrap();
    session.end();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    said
}

/// Returns the names in the workspace that are said to be new, and by whom.
fn named<'s>(said: &'s str, verdict: &str) -> Vec<&'s str> {
    let lines = said.lines().filter_map(|line| line.split_once(verdict)?.1.strip_prefix(": "));
    let names = lines.flat_map(|line| line.split(": ").next().unwrap().split(", "));
    names.map(|name| name.rsplit_once("/ws/").map_or(name, |(_, name)| name)).collect()
}

#[test]
fn new_secrets_in_a_live_checkout_are_named_at_the_end() {
    for user in people() {
        let stage = Stage::new(user);
        let before = "mkdir sub node_modules; echo KEY= >.env.example; echo SECRET >sub/id_rsa; \
                      git init -q --template= .; echo public >test.pem; git add test.pem";
        let session = start(&stage, before, &[]);
        let own = "cp .env.example .env.local && : >sub/.env && cat .env.local";
        let made = session.shell(own);
        assert_eq!(String::from_utf8_lossy(&made.stdout), "KEY=\n");
        std::thread::sleep(Duration::from_millis(1500));
        host(
            &stage,
            "echo SECRET >.env; mkdir new; echo SECRET >new/.ENV; echo SECRET >node_modules/x.pem; \
             mkdir .aws; echo SECRET >.aws/credentials; echo public >test.pem",
        );
        assert_eq!(String::from_utf8_lossy(&session.shell("cat .env").stdout), "SECRET\n");
        let said = said(session);
        assert_eq!(
            named(&said, MADE),
            [".aws", ".env", ".env.local", "new/.ENV", "sub/.env"],
            "{said}"
        );
    }
}

/// What git and templates hold counts as it was at the start.
#[test]
fn session_cannot_keep_a_new_secret_from_being_named() {
    for user in people() {
        let stage = Stage::new(user);
        let before = "git init -q --template= -b main .; git config user.name n; git config user.email e; \
                      mkdir t; echo key >t/old.pem; git add .; git commit -qm old; git checkout -qb new; \
                      git rm -q t/old.pem; git commit -qm new";
        let session = start(&stage, before, &[]);
        host(&stage, "echo SECRET >.env");
        let script = "cp .env .env.example; git add -f .env; git commit -qm mine; git checkout -q main -- t; cat t/old.pem";
        assert_eq!(String::from_utf8_lossy(&session.shell(script).stdout), "key\n");
        let said = said(session);
        // A branch had the other one at the start.
        assert_eq!(named(&said, MADE), [".env"], "{said}");
    }
}

#[test]
fn many_new_secrets_are_counted() {
    for user in people() {
        let stage = Stage::new(user);
        let session = start(&stage, "mkdir sub", &[]);
        session.shell("for n in $(seq 100); do : >$n.pem; done");
        let said = said(session);
        assert!(said.contains(".pem, ") && said.contains(" more"), "{said}");
        assert!(said.lines().count() < 8 && said.len() < 4096, "{said}");
    }
}

#[test]
fn each_of_two_sessions_names_a_new_secret() {
    for user in people() {
        let stage = Stage::new(user);
        let sessions = [start(&stage, "mkdir sub", &[]), start(&stage, "true", &[])];
        host(&stage, "echo SECRET >sub/.env");
        for session in sessions {
            assert_eq!(named(&said(session), MADE), ["sub/.env"]);
        }
        // It was there at the start.
        let said = said(start(&stage, "true", &[]));
        assert_eq!(named(&said, MADE), Vec::<&str>::new(), "{said}");
    }
}

#[test]
fn next_start_names_a_new_secret_of_a_killed_session() {
    for user in people() {
        for (options, verdict) in [(&[][..], MADE), (&["--workspace", "overlay"], BELOW)] {
            let stage = Stage::new(user);
            let mut session = start(&stage, "mkdir sub; echo SECRET >old.pem", options);
            host(&stage, "echo SECRET >sub/.env");
            session.process.kill().unwrap();
            session.end();
            let said = said(start(&stage, "true", &[]));
            assert_eq!(named(&said, verdict), ["sub/.env"], "{said}");
        }
    }
}
