//! The spec loop with an agent that does what the specification says in a block of code.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{User, people, processes_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{Scene, printed, until};

/// An agent that runs the code in the specification. `mark N` marks a step as done.
const AGENT: &str = r#"
name = "looper"
cli_command = "sh"
prompt_args = ["-c", """
mark() { sed -i "s/^### Step $1:.*/& [done]/" /tmp/spec.md; }
eval "$(sed -n '/^```sh$/,/^```$/p' /tmp/spec.md | sed '1d;$d')"
""", "sh", "{prompt}"]
"#;

/// A specification with two steps, whose code does the first that is not done.
const TWO_STEPS: &str = "\
if ! grep -q '^### Step 1:.*done' /tmp/spec.md; then echo one >first; git add first; git commit -qm one; mark 1
else echo right >answer; mark 2; fi";

struct Loops {
    scene: Scene,
}

impl Loops {
    fn new(user: User) -> Self {
        let scene = Scene::new(user);
        scene.stage.write("home/.config/pinfold/agents/looper.toml", AGENT);
        Self { scene }
    }

    fn spec(&self) -> PathBuf {
        self.scene.stage.path("home/parser.md")
    }

    /// Writes the specification, with these further lines of front matter.
    fn write(&self, front: &str, code: &str) {
        let text = format!(
            "---\nagent: looper\n{front}---\n# Parser\n\n### Step 1: One\n\n### Step 2: Two\n\n```sh\n{code}\n```\n"
        );
        self.scene.stage.write("home/parser.md", text);
    }

    fn read(&self) -> String {
        std::fs::read_to_string(self.spec()).unwrap()
    }

    fn command(&self, options: &[&str]) -> Command {
        let spec = self.spec();
        self.scene.command(&[&["loop", "--spec", spec.to_str().unwrap()], options].concat())
    }

    fn run(&self, options: &[&str]) -> (i32, String) {
        ended(&self.command(options).output().unwrap())
    }

    fn has_status(&self, status: &str) -> bool {
        self.read().starts_with(&format!("---\nstatus: {status}\n"))
    }

    /// Returns the branches that a loop works on.
    fn kept(&self) -> Vec<String> {
        let (branches, _) = self.scene.left();
        branches.into_iter().filter(|branch| branch.ends_with(".work")).collect()
    }
}

fn ended(output: &Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), printed(output))
}

#[test]
fn one_step_after_the_other_is_done_until_the_result_is_verified() {
    for user in people() {
        let loops = Loops::new(user);
        loops.write("branch: parser\n", TWO_STEPS);
        let verify = ["--verify", "sh tests/check.sh", "--restore", "tests"];
        let (code, said) = loops.run(&verify);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("iteration 2: 1 of 2 steps are done"), "{said}");
        assert!(said.contains("done and verified: branch parser at "), "{said}");
        assert!(loops.has_status("done"), "{}", loops.read());
        assert!(loops.read().contains("### Step 2: Two [done]"));
        let (branches, next) = loops.scene.left();
        assert_eq!(branches, ["main", "parser"]);
        assert_eq!(next, ["repo"]);
        assert_eq!(loops.scene.git(&["show", "parser:answer"]), "right");
        // The first agent left nothing: no session ran to commit it.
        let log = said.lines().find_map(|line| line.split_once("begun; the log is ")).unwrap().1;
        let log = std::fs::read_to_string(log).unwrap();
        assert_eq!(log.matches("commit what is left").count(), 1, "{log}");
        // What is done is not done again by accident.
        let (code, said) = loops.run(&verify);
        assert_eq!((code, said.contains("is done")), (1, true), "{said}");
    }
}

#[test]
fn marks_of_an_agent_decide_nothing_where_there_are_commands() {
    for user in people() {
        let loops = Loops::new(user);
        loops.write("", "mark 1; mark 2; echo wrong >answer");
        let (code, said) = loops.run(&["--verify", "sh tests/check.sh", "--patience", "2"]);
        assert_eq!(code, 4, "{said}");
        assert!(
            said.contains("no progress in 2 iterations: `sh tests/check.sh` still fails"),
            "{said}"
        );
        assert!(loops.has_status("needs-attention"));
        let note = "- Iteration 1: all steps were done; `sh tests/check.sh` failed with 1";
        assert!(loops.read().contains(note), "{}", loops.read());
        assert_eq!(loops.kept().len(), 1, "the work is kept");
        // Tests that earlier iterations committed do not become the base of a later loop.
        loops.write("", "echo true >tests/check.sh; mark 1; mark 2; echo again >answer");
        let options = ["--verify", "sh tests/check.sh", "--restore", "tests", "--patience", "1"];
        assert_eq!(loops.run(&options).0, 4);
        assert_eq!(loops.run(&options).0, 4);
    }
}

#[test]
fn loop_ends_at_what_is_blocked_and_at_what_it_depends_on() {
    let Some(user) = people().pop() else { return };
    let loops = Loops::new(user);
    loops.write("", "mark 1; sed -i 's/^### Step 2:.*/& [blocked: no network]/' /tmp/spec.md");
    let (code, said) = loops.run(&[]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("blocked: Step 2: Two: no network"), "{said}");
    assert!(loops.has_status("needs-attention"));
    loops.scene.stage.write("home/lexer.md", "---\nstatus: in-progress\n---\nLexer\n");
    loops.write("depends: lexer.md\n", TWO_STEPS);
    let (code, said) = loops.run(&[]);
    assert_eq!((code, loops.has_status("blocked")), (3, true), "{said}");
    loops.scene.stage.write("home/lexer.md", "---\nstatus: done\n---\nLexer\n");
    assert_eq!(loops.run(&[]).0, 0);
    loops.write("", "sleep 100");
    let (code, said) = loops.run(&["--timeout", "3s"]);
    assert_eq!(code, 5, "{said}");
    loops.write("unknown: 1\n", "");
    let (code, said) = loops.run(&[]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("parser.md:3: unknown"), "{said}");
}

/// What an agent committed to a result that was accepted does not become what the next loop's result is tested with.
#[test]
fn second_loop_restores_tests_from_where_the_first_began() {
    for user in people() {
        let loops = Loops::new(user);
        let code = "echo 'exit 0' >tests/check.sh
if ! grep -q '^### Step 2:.*done' /tmp/spec.md; then echo right >answer; mark 1; mark 2
else echo wrong >answer; sed -i 's/^### Step 3:.*/& [done]/' /tmp/spec.md; fi";
        loops.write("branch: parser\n", code);
        let verify = ["--verify", "sh tests/check.sh", "--restore", "tests", "--patience", "2"];
        let (ended, said) = loops.run(&verify);
        assert_eq!(ended, 0, "{said}");
        assert_eq!(loops.scene.git(&["show", "parser:tests/check.sh"]), "exit 0");
        let first = loops.scene.git(&["rev-parse", "parser"]);
        let again = loops.read().replace("status: done", "status: ready");
        let again = again.replace("### Step 2", "### Step 3: Three\n\n### Step 2");
        loops.scene.stage.write("home/parser.md", again);
        let (ended, said) = loops.run(&verify);
        assert_eq!(ended, 4, "{said}");
        assert!(said.contains("`sh tests/check.sh` still fails"), "{said}");
        assert_eq!(loops.scene.git(&["rev-parse", "parser"]), first);
    }
}

#[test]
fn second_loop_is_refused_if_its_branch_no_longer_has_where_the_first_began() {
    let Some(user) = people().pop() else { return };
    let loops = Loops::new(user);
    loops.write("branch: parser\n", "echo right >answer; mark 1; mark 2");
    assert_eq!(loops.run(&[]).0, 0);
    let orphan = loops.scene.git(&["commit-tree", "-m", "other", "parser^{tree}"]);
    loops.scene.git(&["branch", "-f", "parser", &orphan]);
    let again = loops.read().replace("status: done", "status: ready");
    loops.scene.stage.write("home/parser.md", again.replace(" [done]", ""));
    let (ended, said) = loops.run(&[]);
    assert_eq!(ended, 1, "{said}");
    assert!(said.contains("no longer in it") && said.contains("`base`"), "{said}");
    let (ended, said) = loops.run(&["--base", "parser"]);
    assert_eq!(ended, 0, "{said}");
}

/// An agent that is started for work that is done costs money, and can only make it worse.
#[test]
fn steps_that_are_all_done_are_verified_before_another_agent_works() {
    for user in people() {
        let loops = Loops::new(user);
        loops.write("branch: parser\niterations: 1\n", "date +%N >>answer; mark 1; mark 2");
        let (code, said) = loops.run(&["--verify", "false"]);
        assert_eq!(code, 4, "{said}");
        let (code, said) = loops.run(&["--verify", "false"]);
        assert_eq!(code, 4, "{said}");
        assert!(said.contains("iteration 1: 2 of 2 steps are done; the agent works"), "{said}");
        assert!(loops.read().contains("- Before: all steps were done; `false` failed with 1"));
        let work = loops.kept().remove(0);
        let before = loops.scene.git(&["rev-parse", &work]);
        let (code, said) = loops.run(&["--verify", "true"]);
        assert_eq!((code, said.contains("the agent works")), (0, false), "{said}");
        assert_eq!(loops.scene.git(&["rev-parse", "parser"]), before);
        // Also if it was lost between its result and its status.
        let again = loops.read().replace("status: done", "status: in-progress");
        loops.scene.stage.write("home/parser.md", again);
        let (code, said) = loops.run(&["--verify", "true"]);
        assert_eq!((code, said.contains("the agent works")), (0, false), "{said}");
        assert_eq!(loops.scene.git(&["rev-parse", "parser"]), before);
        // Marks without any work are nobody's result.
        let untouched = loops.read().replace("status: done", "status: ready");
        loops.scene.stage.write("home/other.md", untouched.replace("branch: parser\n", ""));
        let other = loops.scene.stage.path("home/other.md");
        let options = ["loop", "--spec", other.to_str().unwrap(), "--verify", "true"];
        let (code, said) = ended(&loops.scene.run(&options));
        assert_eq!((code, said.contains("iteration 1: ")), (0, true), "{said}");
    }
}

/// What a hostile agent leaves where the specification is.
const HOSTILE: &[(&str, &str)] = &[
    ("rm /tmp/spec.md", "it is missing"),
    ("ln -sf /etc/passwd /tmp/spec.md", "it is a symbolic link"),
    ("rm /tmp/spec.md; mkdir /tmp/spec.md", "it is not a regular file"),
    ("rm /tmp/spec.md; mkfifo /tmp/spec.md", "it is not a regular file"),
    ("head -c 10485760 /dev/zero >/tmp/spec.md", "it is too large"),
    ("head -c 1500000 /dev/zero | tr '\\0' x >>/tmp/spec.md", "it has more than 1088 KiB"),
    ("head -c 1000 /dev/urandom >>/tmp/spec.md", "it is not UTF-8 text"),
    ("printf 'a\\033]0;owned\\007b' >>/tmp/spec.md", "has a control character"),
    ("printf '%s\\nno end' --- >/tmp/spec.md", "it has front matter that does not end"),
    (": >/tmp/spec.md", "the specification is empty"),
    ("sed -i 's/^agent: .*/agent: pi\\nverify: [true]/' /tmp/spec.md", "changed the front matter"),
    ("(while :; do echo more >>/tmp/spec.md; done) & sleep 0.3", ""),
];

#[test]
fn hostile_specification_changes_nothing_on_the_host() {
    let Some(user) = people().pop() else { return };
    let loops = Loops::new(user);
    for (code, expected) in HOSTILE {
        loops.write("", code);
        let before = loops.read();
        let began = Instant::now();
        let (ended, said) = loops.run(&["--patience", "1"]);
        assert!(began.elapsed() < Duration::from_secs(60), "{code}");
        assert_eq!(ended, 4, "{code}: {said}");
        assert!(said.contains(expected), "{code}: {said}");
        assert!(!said.contains('\u{1b}'), "{code}: {said}");
        if !expected.is_empty() {
            let status = "---\nstatus: needs-attention\n";
            assert_eq!(loops.read(), before.replacen("---\n", status, 1), "{code}");
        }
    }
}

/// Starts a loop whose code sleeps, and waits until it does.
fn sleeping(loops: &Loops, code: &str, options: &[&str]) -> (std::process::Child, String) {
    let marker = format!("300{}.{}", std::process::id(), loops.scene.stage.user.uid);
    loops.write("", &code.replace("SLEEP", &format!("sleep {marker}")));
    let options: Vec<String> =
        options.iter().map(|it| it.replace("SLEEP", &format!("sleep {marker}"))).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let child = loops.command(&options).stderr(Stdio::piped()).spawn().unwrap();
    let sleeps = format!("sleep\0{marker}");
    until("the loop sleeps", || !processes_with(&sleeps).is_empty());
    (child, sleeps)
}

#[test]
fn edit_of_a_user_is_never_lost() {
    let Some(user) = people().pop() else { return };
    let loops = Loops::new(user);
    let code = "mark 1; touch x; SLEEP & wait $!";
    let (child, sleeps) = sleeping(&loops, code, &["--patience", "1"]);
    let edited = loops.read().replace("Two", "Two, and better");
    std::fs::write(loops.spec(), &edited).unwrap();
    for pid in processes_with(&sleeps) {
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM).unwrap();
    }
    let (code, said) = ended(&child.wait_with_output().unwrap());
    assert_eq!(code, 4, "{said}");
    assert_eq!(loops.read(), edited.replace("in-progress", "needs-attention"));
    let kept = said.split("version is kept in ").nth(1).unwrap().lines().next().unwrap();
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(kept.contains("### Step 1: One [done]") && !kept.contains("better"), "{kept}");
}

#[test]
fn loop_that_is_interrupted_gives_the_specification_back_and_the_next_one_goes_on() {
    for user in people() {
        let loops = Loops::new(user);
        let code = "test -e half || { echo >half; git add half; git commit -qm half; SLEEP; }; mark 1; mark 2";
        let (child, sleeps) = sleeping(&loops, code, &[]);
        assert!(loops.has_status("in-progress"));
        let (status, said) = loops.run(&[]);
        assert_eq!((status, said.contains("another loop works on")), (1, true), "{said}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let (status, said) = ended(&child.wait_with_output().unwrap());
        assert_eq!(status, 130, "{said}");
        assert!(processes_with(&sleeps).is_empty());
        assert!(loops.has_status("ready"), "{}", loops.read());
        let kept = loops.kept();
        assert_eq!(kept.len(), 1, "{said}");
        assert_eq!(loops.scene.git(&["log", "-1", "--format=%s", &kept[0]]), "half");
        let (status, said) = loops.run(&[]);
        assert_eq!(status, 0, "{said}");
        assert_eq!(loops.scene.left().1, ["repo"]);
        assert!(loops.kept().is_empty(), "{said}");
    }
}

#[test]
fn loop_that_is_killed_in_any_phase_is_continued_by_the_next_one() {
    let Some(user) = people().pop() else { return };
    for (phase, code, options) in [
        (
            "agent",
            "test -e half || { echo >half; git add half; git commit -qm half; SLEEP; }; mark 1; mark 2",
            [].as_slice(),
        ),
        ("verification", "date >>half; mark 1; mark 2", &["--verify", "SLEEP"]),
    ] {
        let loops = Loops::new(user);
        let (mut child, sleeps) = sleeping(&loops, code, options);
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        until("all is gone", || processes_with(&sleeps).is_empty());
        assert!(loops.has_status("in-progress"), "{phase}");
        let verify = if phase == "agent" { &[][..] } else { &["--verify", "test -e half"] };
        let mut tried = loops.run(verify);
        // The kernel ends what the loop started a moment after it.
        while tried.1.contains("a session works in it") {
            tried = loops.run(verify);
        }
        assert_eq!(tried.0, 0, "{phase}: {}", tried.1);
        assert!(tried.1.contains("an earlier loop was lost"), "{}", tried.1);
        assert_eq!(loops.scene.left().1, ["repo"], "{phase}");
    }
}

/// A gh that goes on could still edit the issue while the next loop works on it.
#[test]
fn gh_of_a_loop_that_is_killed_ends_with_it() {
    for user in people() {
        let loops = Loops::new(user);
        let scene = &loops.scene;
        let marker = format!("500{}.{}", std::process::id(), scene.stage.user.uid);
        let gh = scene.stage.write("bin/gh", format!("#!/bin/sh\nexec sleep {marker}\n"));
        std::fs::set_permissions(&gh, std::fs::Permissions::from_mode(0o755)).unwrap();
        scene.git(&["remote", "add", "origin", "https://github.com/ada/parser"]);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", gh.parent().unwrap().display());
        let mut looped = scene.command(&["loop", "--issue", "1"]);
        let mut looped = looped.env("PATH", path).stderr(Stdio::null()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        until("gh runs", || !processes_with(&sleeps).is_empty());
        looped.kill().unwrap();
        looped.wait().unwrap();
        until("gh ends", || processes_with(&sleeps).is_empty());
    }
}
