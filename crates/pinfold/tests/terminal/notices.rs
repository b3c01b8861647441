//! What the user has to know at once, while a program has the whole screen.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, Tmux, installed, people, run_line, skip};

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
import http.client, os, signal, sys, tty
whole, typed = len(sys.argv) > 1, b''
tty.setraw(0)
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

/// How long the notice may take, with the start of the session.
const SOON: Duration = Duration::from_secs(15);

/// When a user may have read it.
const READ: Duration = Duration::from_secs(3);

#[test]
fn a_provider_that_fails_is_shown_over_a_full_screen_program_which_gets_its_screen_back() {
    if !installed("tmux") || !installed("python3") {
        return skip("notices over a full screen", "tmux or python3 is not installed");
    }
    for user in people() {
        for argument in ["whole", ""] {
            let stage = Stage::new(user);
            stage.write("home/.config/pinfold/agents/probe.toml", AGENT);
            stage.write("ws/agent.py", PROGRAM);
            let key = stage.write("tmp/key", "sk-ant-api03-NOT-A-KEY");
            let mut set = stage.pinfold(&["secret", "set", "nobody"]);
            let set = set.stdin(fs::File::open(key).unwrap()).output().unwrap();
            assert!(set.status.success(), "{set:?}");

            let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
            tmux.line(&format!("clear; {} probe -- agent.py {argument}", run_line()));
            let started = Instant::now();
            let said = "pinfold: provider `nobody` at 127.0.0.1 did not answer";
            let screen = tmux.wait_for(said);
            assert!(started.elapsed() < SOON);
            assert!(!screen.contains("agent screen"), "{screen}");

            // Keys reach the program all the time, and what it writes is there afterwards. One that is not typed blindly
            // takes the notice away.
            tmux.text("typed");
            let (shown, mut is_pressed) = (Instant::now(), false);
            let screen = tmux.wait_until("the program's screen", |screen| {
                if !is_pressed && shown.elapsed() > READ {
                    tmux.text("!");
                    is_pressed = true;
                }
                screen.contains("agent screen typed!") && !screen.contains(said)
            });
            assert!(shown.elapsed() < READ * 2, "a key ends it");
            let copies = if argument.is_empty() { "typed!".len() + 1 } else { 1 };
            assert_eq!(screen.matches("agent screen").count(), copies, "{screen}");

            tmux.text("q");
            tmux.wait_for_prompt("outer>");
            // Once more where it stays, and not for each request.
            assert_eq!(tmux.screen().matches(said).count(), 1, "{}", tmux.screen());
        }
    }
}
