//! What the user has to know at once, while a program has the whole screen.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_testkit::{
    Stage, Tmux, User, engine, executable, has_engine, installed, people, run_line, skip,
};

/// An agent whose provider refuses connections.
const AGENT: &str = r#"
name = "probe"
cli_command = "python3"
default_provider = "nobody"
[providers.nobody]
auth_modes = ["api_key"]
default_auth_mode = "api_key"
api = "anthropic"
base_url = "http://127.0.0.1:9"
secret = "nobody"
env = { URL = "{gateway}", KEY = "{key}" }
"#;

/// Asks its model twice, then shows each key until `q`. With an argument it draws on the alternate screen, again when
/// the window changes; without one it writes lines.
const PROGRAM: &str = r#"
import http.client, os, signal, sys, termios, tty
whole, typed = len(sys.argv) > 1, b''
tty.setraw(0, termios.TCSANOW)
def draw(*_):
    os.write(1, (b'\x1b[2J\x1b[1;1H' if whole else b'\r\n') + b'agent screen ' + typed)
if whole:
    signal.signal(signal.SIGWINCH, draw)
    os.write(1, b'\x1b[?1049h')
draw()
connection = http.client.HTTPConnection(os.environ['URL'].split('//')[1])
headers = {'authorization': 'Bearer ' + os.environ['KEY'], 'content-type': 'application/json'}
for _ in range(2):
    connection.request('POST', '/v1/messages', '{}', headers)
    connection.getresponse().read()
while (key := os.read(0, 1)) != b'q':
    typed += key
    draw()
if whole:
    os.write(1, b'\x1b[?1049l')
"#;

/// What is said of it.
const SAID: &str = "pinfold: provider `nobody` at 127.0.0.1:9 did not answer";

/// The argument with which the program draws on the whole screen.
const WHOLE: &str = "whole";

/// How long the notice may take, with the start of the session.
const SOON: Duration = Duration::from_secs(15);

/// When a user may have read it.
const READ: Duration = Duration::from_secs(3);

/// Returns a stage with the agent, its program and its key.
fn stage(user: User) -> Stage {
    let stage = Stage::new(user);
    stage.write("home/.config/pinfold/agents/probe.toml", AGENT);
    stage.write("ws/agent.py", PROGRAM);
    let key = stage.write("tmp/key", "sk-ant-api03-NOT-A-KEY");
    let mut set = stage.pinfold(&["secret", "set", "nobody"]);
    let set = set.stdin(fs::File::open(key).unwrap()).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    stage
}

/// Waits for the notice, and ends it by a key. Keys reach the program all the time, and what it writes is there
/// afterwards: its screen, or a line for each key.
fn read_and_end_notice(tmux: &Tmux, argument: &str) {
    let screen = tmux.wait_for(SAID);
    assert!(!screen.contains("agent screen"), "{screen}");
    // A key that is not typed blindly takes the notice away.
    tmux.text("typed");
    let (shown, mut is_pressed) = (Instant::now(), false);
    let screen = tmux.wait_until("the program's screen", |screen| {
        if !is_pressed && shown.elapsed() > READ {
            tmux.text("!");
            is_pressed = true;
        }
        screen.contains("agent screen typed!") && !screen.contains(SAID)
    });
    assert!(shown.elapsed() < READ * 2, "a key ends it");
    if argument == WHOLE {
        assert_eq!(screen.matches("agent screen").count(), 1, "{screen}");
    }
}

#[test]
fn a_provider_that_fails_is_shown_over_a_full_screen_program_which_gets_its_screen_back() {
    if !installed("tmux") || !installed("python3") {
        return skip("notices over a full screen", "tmux or python3 is not installed");
    }
    for user in people() {
        let gvisor = (engine().is_none() && has_engine("runsc")).then_some(" --engine runsc");
        for options in std::iter::once("").chain(gvisor) {
            for argument in [WHOLE, ""] {
                let stage = stage(user);
                let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
                let run = run_line();
                tmux.line(&format!("clear; {run}{options} probe -- agent.py {argument}"));
                let started = Instant::now();
                tmux.wait_for(SAID);
                assert!(started.elapsed() < SOON);
                read_and_end_notice(&tmux, argument);
                if argument.is_empty() {
                    let screen = tmux.screen();
                    assert_eq!(
                        screen.matches("agent screen").count(),
                        "typed!".len() + 1,
                        "{screen}"
                    );
                }
                tmux.text("q");
                tmux.wait_for_prompt("outer>");
                // Once more where it stays, and not for each request.
                assert_eq!(tmux.screen().matches(SAID).count(), 1, "{}", tmux.screen());
            }
        }
    }
}

#[test]
fn a_provider_that_fails_is_shown_to_clients_that_attach() {
    if !installed("tmux") || !installed("python3") {
        return skip("notices to clients that attach", "tmux or python3 is not installed");
    }
    for user in people() {
        for argument in [WHOLE, ""] {
            let stage = stage(user);
            let options =
                ["run", "--detach", "--tty", "--name", "desk", "probe", "--", "agent.py", argument];
            let run = stage.pinfold(&options).output().unwrap();
            assert!(run.status.success(), "{run:?}");
            // Nobody is there to see it: it waits for the first who comes.
            let failed = || {
                let audit = stage.pinfold(&["audit"]).output().unwrap();
                String::from_utf8_lossy(&audit.stdout).contains("did not answer")
            };
            let begun = Instant::now();
            while !failed() {
                assert!(begun.elapsed() < SOON, "the failure is in the audit log");
                std::thread::sleep(Duration::from_millis(50));
            }
            let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
            let attach = format!("{} attach desk", executable());
            tmux.line(&format!("clear; {attach}"));
            read_and_end_notice(&tmux, argument);
            tmux.keys(&["C-p", "C-q"]);
            tmux.wait_for_prompt("outer>");
            // Where it stays.
            assert_eq!(tmux.screen().matches(SAID).count(), 1, "{}", tmux.screen());

            // It was seen.
            tmux.line(&format!("clear; {attach}"));
            tmux.wait_for("agent screen typed!");
            assert!(!tmux.screen().contains(SAID), "{}", tmux.screen());
            tmux.text("q");
            tmux.wait_for_prompt("outer>");
            assert!(!tmux.screen().contains(SAID), "{}", tmux.screen());
        }
    }
}
