//! Files with a secret's name that the host makes while a session works in a view.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::{Session, Stage, people};

use super::{host, pinfold, sessions};

/// Far longer than a change needs to be seen.
const PATIENCE: Duration = Duration::from_secs(10);
const REPOSITORY: &str = "git init -q --template= -b main .; git config user.name n; git config user.email e; \
                          git commit -q --allow-empty -m start";
const MADE: &str = "made on the host while the sandbox ran: ";

/// Starts a session in a view on a workspace that the host has prepared, and waits until that is watched.
fn watched<'a>(stage: &'a Stage, options: &[&str], before: &str) -> Session<'a> {
    host(stage, REPOSITORY);
    host(stage, before);
    let mut run = stage.pinfold(&["run", "--workspace", "overlay"]);
    run.args(options).args(["--", "sh", "-c", "echo ready; read line"]).stderr(Stdio::piped());
    let session = Session::of(stage, run);
    std::thread::sleep(Duration::from_millis(1500));
    session
}

fn shell(session: &Session<'_>, script: &str) -> String {
    let output = session.shell(script);
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until the sandbox sees what the host has made last.
fn await_file(session: &Session<'_>, name: &str) {
    let begun = Instant::now();
    while !session.shell(&format!("test -e {name}")).status.success() {
        assert!(begun.elapsed() < PATIENCE, "{name}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends a session and returns what it said.
fn said(mut session: Session<'_>) -> String {
    let mut stderr = session.process.stderr.take().unwrap();
    session.end();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    said
}

/// Returns the names in the workspace that are said to be new.
fn named(said: &str) -> Vec<&str> {
    let lines = said.lines().filter_map(|line| Some(line.split_once(MADE)?.1));
    let names = lines.flat_map(|line| line.split(": ").next().unwrap().split(", "));
    names.map(|name| name.rsplit_once("/ws/").map_or(name, |(_, name)| name)).collect()
}

#[test]
fn new_secrets_of_the_host_are_masked_and_named_at_the_end() {
    for user in people() {
        let stage = Stage::new(user);
        let session = watched(
            &stage,
            &[],
            "mkdir sub .config; echo SECRET >../key; mkdir -p ../moved/in; echo SECRET >../moved/in/id_rsa",
        );
        let names =
            ".env sub/.env sub/.ENV sub/own.pem moved/in/id_rsa .config/gh/hosts.yml .aws/x other";
        // The view remembers them as missing.
        shell(&session, &format!("cat {names}"));
        let script = "echo SECRET >.env; echo SECRET >t; mv t sub/.env; echo SECRET >sub/.ENV; ln ../key sub/own.pem; \
                      mv ../moved moved; mkdir .config/gh; echo SECRET >.config/gh/hosts.yml; mkdir .aws; \
                      echo SECRET >.aws/x; echo SECRET >a.pem; sleep 0.3; mv a.pem other; echo >seen";
        host(&stage, script);
        await_file(&session, "seen");
        std::thread::sleep(Duration::from_millis(100));
        let shown = shell(&session, &format!("cat {names}; git status --porcelain -uall"));
        assert!(!shown.contains("SECRET"), "{shown}");
        let is_of_git = |line: &&str| line.starts_with("?? ") && !line.ends_with("seen");
        assert_eq!(shown.lines().find(is_of_git), None, "{shown}");
        let said = said(session);
        let expected = [
            ".aws",
            ".config/gh",
            ".env",
            "a.pem",
            "moved/in/id_rsa",
            "other",
            "sub/.ENV",
            "sub/.env",
            "sub/own.pem",
        ];
        assert_eq!(named(&said), expected, "{said}");
    }
}

/// A mask is in no layer: the review takes nothing of the host's for the session's change.
#[test]
fn what_the_host_makes_stays_as_it_is_when_changes_are_applied() {
    for user in people() {
        let stage = Stage::new(user);
        let before = "mkdir sub; mkdir -p ../old/in; echo SECRET >../old/in/data; sleep 0.1";
        let session = watched(&stage, &[], before);
        let script = "echo SECRET >sub/.env; mv ../old .env; sleep 0.3; chmod 700 sub; mkdir id_rsa; echo >seen";
        host(&stage, script);
        await_file(&session, "seen");
        let script = "rm -rf .env sub/.env; echo x >.env/x; mv .env e; git add -A; git -c user.name=n -c user.email=e commit -qm all; echo 1 >change";
        shell(&session, script);
        session.end();
        let [id] = sessions(&stage).try_into().unwrap();
        let (shown, _) = pinfold(&stage, &["diff", &id]).unwrap();
        assert!(shown.contains("change"), "{shown}");
        assert!(!shown.contains(".env") && !shown.contains("id_rsa"), "{shown}");
        pinfold(&stage, &["apply", &id]).unwrap();
        let script = "cat .env/in/data sub/.env change; stat -c %a sub; ls -d id_rsa; git ls-tree -r HEAD --name-only | grep -c env || true";
        assert_eq!(host(&stage, script), "SECRET\nSECRET\n1\n700\nid_rsa\n0\n");
    }
}

#[test]
fn own_files_of_a_session_are_neither_masked_nor_named() {
    for user in people() {
        let stage = Stage::new(user);
        let session = watched(&stage, &[], "mkdir sub");
        let made = shell(
            &session,
            "echo own >.env; mkdir .aws .ssh; echo own >.aws/credentials; cat .env",
        );
        assert_eq!(made, "own\n");
        host(
            &stage,
            "mkdir .aws .ssh; echo SECRET >.ssh/id_ed25519; echo SECRET >.aws/credentials; echo >seen",
        );
        await_file(&session, "seen");
        std::thread::sleep(Duration::from_millis(100));
        let shown = shell(&session, "cat .env .aws/credentials .ssh/id_ed25519; echo more >>.env");
        assert!(shown.starts_with("own\nown\n") && !shown.contains("SECRET"), "{shown}");
        let said = said(session);
        assert_eq!(named(&said), [".aws", ".ssh"], "{said}");
    }
}

/// A session that is over before its workspace is watched.
#[test]
fn new_secret_in_a_short_session_is_named() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, REPOSITORY);
        host(&stage, "mkdir sub; echo key >old.pem; git add old.pem; git commit -qm old");
        host(&stage, "git rm -q old.pem; git commit -qm none");
        let script = "echo ready; read line";
        let mut run = stage.pinfold(&["run", "--workspace", "overlay", "--", "sh", "-c", script]);
        run.stderr(Stdio::piped());
        let session = Session::of(&stage, run);
        host(
            &stage,
            "echo SECRET >sub/.env; echo SECRET >.env; mkdir node_modules; echo >node_modules/x.pem",
        );
        let said = said(session);
        assert_eq!(named(&said), [".env", "sub/.env"], "{said}");
    }
}

/// What cannot be masked is named all the same.
#[test]
fn session_goes_on_where_a_new_secret_cannot_be_masked() {
    for user in people() {
        let stage = Stage::new(user);
        let session = watched(&stage, &[], "mkdir sub");
        let deep = "d=$(printf %0250d 0); for n in $(seq 18); do mkdir $d; cd -P $d; done; echo SECRET >.env";
        host(
            &stage,
            &format!(
                "({deep}) || true; echo SECRET >.env; rm .env; mkdir .env; rmdir .env; echo >seen"
            ),
        );
        await_file(&session, "seen");
        assert_eq!(shell(&session, "echo goes on"), "goes on\n");
        let said = said(session);
        assert!(named(&said).contains(&".env"), "{said}");
    }
}
