//! The gateway's door, from inside.

use std::fs::File;
use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, User, installed, people, skip};

/// A program with a provider that is not there.
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

/// Runs a Python program that has a gateway.
fn probe(stage: &Stage, program: &str) -> Output {
    stage.write("home/.config/pinfold/agents/probe.toml", AGENT);
    let key = stage.write("tmp/key", "sk-ant-api03-NOT-A-KEY");
    let mut set = stage.pinfold(&["secret", "set", "nobody"]);
    assert!(set.stdin(File::open(key).unwrap()).stderr(Stdio::null()).status().unwrap().success());
    stage.run(&["probe"], &["-c", program])
}

fn with_python(test: &str) -> Vec<User> {
    if installed("python3") {
        return people();
    }
    skip(test, "python3 is not installed");
    Vec::new()
}

#[test]
fn other_ways_to_the_gateways_port_are_answered_at_once() {
    let program = "import errno, os, socket, time\n\
        port = int(os.environ['URL'].rsplit(':', 1)[1])\n\
        def attempt(name, family, kind, address):\n\
        \x20 began = time.monotonic()\n\
        \x20 s = socket.socket(family, kind)\n\
        \x20 s.settimeout(5)\n\
        \x20 try:\n\
        \x20   s.connect((address, port))\n\
        \x20   s.send(b'GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n\
        \x20   said = s.recv(12).decode()\n\
        \x20 except OSError as error: said = errno.errorcode.get(error.errno, str(error))\n\
        \x20 print(name, said, 'at once' if time.monotonic() - began < 1 else 'late')\n\
        attempt('tcp', socket.AF_INET, socket.SOCK_STREAM, '127.0.0.1')\n\
        attempt('udp', socket.AF_INET, socket.SOCK_DGRAM, '127.0.0.1')\n\
        if socket.has_ipv6 and os.path.exists('/proc/net/if_inet6'):\n\
        \x20 attempt('tcp', socket.AF_INET6, socket.SOCK_STREAM, '::1')\n\
        \x20 attempt('udp', socket.AF_INET6, socket.SOCK_DGRAM, '::1')\n";
    for user in with_python("the gateway's port") {
        let stage = Stage::new(user);
        let output = probe(&stage, program);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some("tcp HTTP/1.1 200 at once"), "{errors}");
        assert_eq!(lines.next(), Some("udp ECONNREFUSED at once"));
        assert!(lines.all(|line| line.ends_with("ECONNREFUSED at once")), "{said}");
    }
}

#[test]
fn connections_that_say_nothing_end_with_the_run() {
    let program = "import os, socket\n\
        port = int(os.environ['URL'].rsplit(':', 1)[1])\n\
        held = []\n\
        for number in range(600):\n\
        \x20 s = socket.socket()\n\
        \x20 s.settimeout(0.2)\n\
        \x20 try: s.connect(('127.0.0.1', port)); s.send(b'POST /v1')\n\
        \x20 except OSError: pass\n\
        \x20 held.append(s)\n\
        print(len(held), flush=True)\n";
    for user in with_python("silent connections") {
        let stage = Stage::new(user);
        let started = std::time::Instant::now();
        let output = probe(&stage, program);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "600\n");
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }
}

#[test]
fn refusals_of_the_gateway_are_in_the_audit_log() {
    let program = "import os, socket\n\
        port = int(os.environ['URL'].rsplit(':', 1)[1])\n\
        key = 'x-api-key: ' + os.environ['KEY']\n\
        def ask(*lines):\n\
        \x20 s = socket.create_connection(('127.0.0.1', port))\n\
        \x20 s.sendall('\\r\\n'.join(lines + ('Connection: close', '', '')).encode())\n\
        \x20 print(s.makefile().readline().split(' ')[1])\n\
        ask('GET /v1/models HTTP/1.1', 'Host: localhost')\n\
        ask('GET /v1/models HTTP/1.1', 'Host: example.org', key)\n\
        ask('GET /v1/models HTTP/1.1', 'Host: localhost', key)\n\
        ask('GET /v1/models HTTP/1.1', 'Host: localhost', key, 'no colon')\n";
    for user in with_python("the gateway's refusals") {
        let stage = Stage::new(user);
        let output = probe(&stage, program);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, "401\n403\n502\n400\n", "{}", String::from_utf8_lossy(&output.stderr));
        let audit = stage.pinfold(&["audit", "--json"]).output().unwrap().stdout;
        let audit = String::from_utf8_lossy(&audit);
        let denials = audit.lines().filter(|line| line.contains("\"event\":\"denial\""));
        let reasons: Vec<&str> =
            denials.filter_map(|line| line.split("\"reason\":\"").nth(1)?.get(..3)).collect();
        assert_eq!(reasons, ["401", "403", "502", "400"]);
    }
}
