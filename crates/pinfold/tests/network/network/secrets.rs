//! Secrets that the sandbox has placeholders for.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::memory::{MEMORY_SEARCH, descendants, disguised, search_memory};

use super::World;
use super::world::{Said, people_with};

/// Not a real one. Its last characters are those in which the two alphabets of base64 differ.
const REAL: &str = "ghp_REAL0123456789abcdefghijklmnop~?>~?>~?>";
const ROTATED: &str = "ghp_ROTATED3456789abcdefghijklmnopqrstuv";

const CONFIG: &str = r#"
[network]
allow = ["other.example.org", "web.example.com", "web.example.com:8443"]
[[secrets]]
id = "svc"
env = "SVC"
hosts = ["web.example.com", "h2.example.com"]
where = ["header", "basic", "query", "body-json"]
[[secrets]]
id = "headers-only"
env = "HEADERS_ONLY"
hosts = ["deep.web.example.com"]
[[secrets]]
id = "basic-only"
env = "BASIC_ONLY"
hosts = ["deep.web.example.com"]
where = ["basic"]
"#;

fn with_secrets(user: pinfold_testkit::User, servers: &[&str]) -> World {
    let world = World::new(user, servers);
    world.config(CONFIG);
    for id in ["svc", "headers-only", "basic-only"] {
        world.set_secret(id, &REAL.replace("ghp", if id == "svc" { "ghp" } else { id }));
    }
    world
}

/// Asks on a connection of its own and prints the whole answer under a name.
const ASK: &str = "
import base64, json
SVC = os.environ['SVC']
def ask(name, host, path='/', headers='', body=None, port=443, method=None, secure=True):
    s = connect((host, port), 60) # an emulated machine is slow
    if secure: s = tls(s, host)
    text = f'{method or (\"POST\" if body else \"GET\")} {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n{headers}'
    if body is not None: text += f'Content-Length: {len(body)}\\r\\n'
    said = speak(s, text + '\\r\\n' + (body or ''))
    print(name, json.dumps(said), flush=True)
    return said
BEARER = f'Authorization: Bearer {SVC}\\r\\n'
";

#[test]
fn a_hidden_environment_file_names_what_has_a_placeholder() {
    for user in people_with("hidden environment files", &[]) {
        let world = with_secrets(user, &[]);
        world.stage.write(
            "ws/.env",
            format!("# keys\nSVC={REAL}\nOTHER=private\nexport HEADERS_ONLY=x\n"),
        );
        world.stage.write("ws/.env.local", "OTHER=private\n");
        world.stage.write("ws/svc.pem", format!("SVC={REAL}\n"));
        let script = "cat .env.local svc.pem; grep -c . .env; grep -qx SVC=$SVC .env && echo same
             grep -qx HEADERS_ONLY=$HEADERS_ONLY .env && echo same; stat -c '%F %A' .env
             (echo x >>.env) 2>/dev/null || echo kept; rm -f .env 2>/dev/null || echo kept
             grep -r private . /run/pinfold 2>/dev/null";
        for mode in ["shared_mount", "overlay"] {
            let said = world.shell(&["--workspace", mode], script);
            let expected = "2\nsame\nsame\nregular file -r--r--r--\nkept\nkept\n";
            assert_eq!(said.out, expected, "{mode}: {}", said.err);
            assert!(
                said.err.contains("hidden in the sandbox: .env, .env.local, svc.pem ("),
                "{said:?}"
            );
        }
    }
}

#[test]
fn a_placeholder_becomes_the_secret_at_its_own_hosts_and_spots_alone() {
    let program = format!(
        "{ASK}
JSON = 'Content-Type: application/json\\r\\n'
basic = lambda value, name='Authorization': name + ': Basic ' + base64.b64encode(('me:' + value).encode()).decode() + '\\r\\n'
for host in ('web.example.com', 'other.example.org'):
    ask('x', host, '/header', BEARER + f'X-Key: {{SVC}}\\r\\n')
    ask('x', host, '/basic', basic(SVC))
    ask('x', host, f'/query?key={{SVC}}&b=1')
    ask('x', host, '/json', JSON, json.dumps({{'key': SVC}}))
    ask('x', host, '/text', 'Content-Type: text/plain\\r\\n', SVC)
    ask('x', host, f'/path/{{SVC}}')
ask('x', 'web.example.com', '/clear', BEARER, port=80, secure=False)
ask('x', 'web.example.com', '/port', BEARER, port=8443)
HEADERS, BASIC = os.environ['HEADERS_ONLY'], os.environ['BASIC_ONLY']
ask('x', 'deep.web.example.com', f'/two?key={{HEADERS}}', f'X-Key: {{HEADERS}}\\r\\nX-Other: {{BASIC}}\\r\\n' + basic(BASIC) + basic(BASIC, 'X-Basic'))
ask('x', 'deep.web.example.com', '/foreign', BEARER)
"
    );
    for user in people_with("placeholders", &[]) {
        let world = with_secrets(user, &["web"]);
        let said = world.python(&[], &program);
        assert!(said.ok, "{said:?}");
        assert!(!said.out.contains("REAL"), "{}", said.out);
        let seen = world.seen();
        // A header of Basic is base64.
        let decoded = |line: &str| {
            let coded = line.split("Basic ").skip(1).filter_map(|rest| rest.split('"').next());
            let plain: Vec<Vec<u8>> = coded.map(from_base64).collect();
            plain.iter().filter(|plain| String::from_utf8_lossy(plain).contains("REAL")).count()
        };
        let real = |at: &str, path: &str| {
            let line = seen.lines().find(|line| {
                line.contains(&format!("\"at\": \"{at}\""))
                    && line.contains(&format!("\"path\": \"/{path}"))
            });
            let line = line.unwrap_or_else(|| panic!("no {path} at {at} in {seen}"));
            line.matches("REAL").count() + decoded(line)
        };
        let at = "93.184.216.34:443";
        for (path, expected) in [
            ("header", 2),
            ("basic", 1),
            ("query", 1),
            ("json", 1),
            ("text", 0),
            ("path", 0),
            ("two", 2),
            ("foreign", 0),
        ] {
            assert_eq!(real(at, path), expected, "{path}: {seen}");
            if expected < 2 && path != "foreign" {
                assert_eq!(real("93.184.216.35:443", path), 0, "{path}: {seen}");
            }
        }
        assert_eq!(real("93.184.216.34:80", "clear"), 0, "{seen}");
        assert_eq!(real("93.184.216.34:8443", "port"), 0, "{seen}");
        let uses = world.audit().matches("\"event\":\"credential-use\"").count();
        assert_eq!(uses, 6, "{}", world.audit());
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = text
        .bytes()
        .filter_map(|byte| digits.iter().position(|digit| *digit == byte))
        .flat_map(|value| (0..6).rev().map(move |bit| (value >> bit & 1) as u8))
        .collect();
    bits.chunks_exact(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit)).collect()
}

#[test]
fn an_upstream_that_echoes_the_secret_is_scrubbed() {
    let program = format!(
        "{ASK}
HOST = 'web.example.com'
for coding in ('identity', 'gzip', 'br', 'zstd', 'deflate', 'gzip, gzip', 'GZIP'):
    ask('coded-' + coding.replace(' ', ''), HOST, '/encoded?as=' + coding.replace(' ', '%20'), BEARER)
for coding in ('gzip', 'br'):
    ask('head-' + coding, HOST, '/encoded?as=' + coding, BEARER, method='HEAD')
    ask('empty-' + coding, HOST, '/empty?as=' + coding, BEARER)
for coding in ('chunked', 'gzip, chunked', 'GZIP,chunked', 'gzip'):
    ask('transfer-' + coding.replace(' ', ''), HOST, '/transfer?as=' + coding.replace(' ', '%20'), BEARER)
for path in ('headers', 'reason', 'trailers'):
    ask(path, HOST, '/' + path, BEARER + 'TE: trailers\\r\\n')
for after in range(3):
    ask(f'base64-{{after}}', HOST, f'/base64?after={{after}}', BEARER)
    ask(f'base64url-{{after}}', HOST, f'/base64?after={{after}}&url=1', BEARER)
s = tls(connect((HOST, 443)), HOST)
print('websocket', websocket(s, HOST, BEARER + 'Sec-WebSocket-Extensions: permessage-deflate\\r\\n')[:12], frame(s), frame(s, 'still'))
s = tls(connect((HOST, 443)), HOST)
s.sendall(f'GET /stream HTTP/1.1\\r\\nHost: {{HOST}}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
begun = b''
while b'begun' not in begun: begun += s.recv(1000)
ask('tell', HOST, '/tell', BEARER)
print('stream', read(s).replace('\\r\\n', ' '))
print('placeholder', SVC)
"
    );
    for user in people_with("scrubbing", &[]) {
        let world = with_secrets(user, &["web"]);
        let said = world.python(&[], &program);
        assert!(said.ok, "{said:?}");
        let placeholder = said.line("placeholder");
        for part in ["REAL", "0123456789abcdef"] {
            assert!(!said.out.contains(part), "{}", said.out);
        }
        // Any nine bytes of the secret would show in one of these.
        for coded in ["UkVBTDAxMjM0NTY3", "FTDAxMjM0NTY3ODlh", "SRUFMMDEyMzQ1Njc4"] {
            assert!(!said.out.contains(coded), "{}", said.out);
        }
        for name in [
            "coded-identity",
            "coded-gzip",
            "coded-br",
            "coded-GZIP",
            "transfer-chunked",
            "headers",
            "stream",
            "trailers",
        ] {
            assert!(said.line(name).contains(placeholder), "{name}: {}", said.line(name));
        }
        let transfers = ["gzip,chunked", "GZIP,chunked", "gzip"].map(|it| format!("transfer-{it}"));
        let unread = ["coded-zstd", "coded-deflate", "coded-gzip,gzip"].map(str::to_owned);
        for name in unread.iter().chain(&transfers) {
            let line = said.line(name);
            assert!(line.contains("HTTP/1.1 502") && line.contains("cannot be searched"), "{line}");
        }
        for name in ["head-gzip", "head-br", "empty-gzip", "empty-br", "reason", "trailers", "tell"]
        {
            assert!(said.line(name).contains("HTTP/1.1 200"), "{name}: {}", said.line(name));
            assert!(!said.line(name).contains("<reset>"), "{name}: {}", said.line(name));
        }
        for name in ["head-gzip", "head-br"] {
            // Of a body that is not sent nobody knows the length.
            assert!(!said.line(name).to_lowercase().contains("content-length: 0"), "{}", said.out);
        }
        let frames = said.line("websocket");
        assert_eq!(frames, format!("HTTP/1.1 101 Bearer {placeholder} none echo still"));
        assert!(world.seen().contains(REAL), "the server never had it");
    }
}

#[test]
fn http2_is_scrubbed_in_headers_and_trailers() {
    let node = r#"
const http2 = require("node:http2");
const session = http2.connect("https://h2.example.com", { ca: require("fs").readFileSync("/etc/ssl/certs/ca-certificates.crt") });
const stream = session.request({ ":path": "/", authorization: process.env.SVC });
stream.on("response", (headers) => console.log("header", headers["x-echo"] === process.env.SVC));
stream.on("trailers", (headers) => console.log("trailer", headers["x-last"] === process.env.SVC));
stream.on("close", () => session.close());
stream.resume();
"#;
    for user in people_with("secrets by HTTP/2", &["node"]) {
        let world = with_secrets(user, &["h2"]);
        let said = world.run(&[], &["node", "-e", node]);
        assert_eq!(said.out, "header true\ntrailer true\n", "{said:?}");
        assert!(world.seen().contains(REAL), "{}", world.seen());
    }
}

#[test]
fn a_redirect_to_another_host_carries_the_placeholder_alone() {
    for user in people_with("redirects", &[]) {
        let world = with_secrets(user, &["web"]);
        let said = world.shell(
            &[],
            "curl -sS -m10 --location-trusted -H \"Authorization: Bearer $SVC\" \
             'https://web.example.com/redirect?to=https://other.example.org/landed'",
        );
        said.has(&["GET /landed at 93.184.216.35:443", "Authorization: Bearer ghp_"]);
        let seen = world.seen();
        let mut lines = seen.lines();
        assert!(lines.next().unwrap().contains(REAL));
        assert!(!lines.next().unwrap().contains(REAL), "{seen}");
    }
}

/// Waits until the program inside has made a file.
pub(super) fn await_file(world: &World, name: &str) {
    let began = Instant::now();
    while !world.stage.workspace().join(name).exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no {name}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn rotation_and_revocation_act_on_the_next_request_of_an_open_connection() {
    let program = "
s = tls(connect(('web.example.com', 443)), 'web.example.com')
def ask(path):
    s.sendall(f'GET {path} HTTP/1.1\\r\\nHost: web.example.com\\r\\nAuthorization: Bearer {os.environ[\"SVC\"]}\\r\\n\\r\\n'.encode())
    head = b''
    while not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1)
    length = int(head.lower().split(b'content-length:')[1].split(b'\\r')[0]) if b'content-length' in head.lower() else None
    body = b''
    while length is None and not body.endswith(b'0\\r\\n\\r\\n') or length is not None and len(body) < length: body += s.recv(1000)
    print(path, status(head.decode()), body.decode().replace('\\r\\n', ' ').replace('\\n', ' '))
for step in ('first', 'second', 'third'):
    ask('/' + step)
    open('did-' + step, 'w').close()
    while step != 'third' and not os.path.exists('go-' + step): time.sleep(0.01)
";
    for user in people_with("rotation", &[]) {
        let world = with_secrets(user, &["web"]);
        let program = format!("{}\n{program}", include_str!("inside.py"));
        let mut run = world.pinfold(&["run", "--", "python3", "-c", &program]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "did-first");
        world.set_secret("svc", ROTATED);
        world.stage.write("ws/go-first", "");
        await_file(&world, "did-second");
        let removed = world.pinfold(&["secret", "rm", "svc"]).output().unwrap();
        assert!(removed.status.success(), "{removed:?}");
        world.stage.write("ws/go-second", "");
        let output = run.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = out.lines().collect();
        assert!(
            lines[0].starts_with("/first 200") && lines[1].starts_with("/second 200"),
            "{output:?}"
        );
        assert!(lines[2].starts_with("/third 403"), "{out}");
        assert!(lines[2].contains("`pinfold secret set svc`"), "{out}");
        assert!(!out.contains("REAL") && !out.contains("ROTATED"), "{out}");
        let seen = world.seen();
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines.len(), 2, "{seen}");
        assert!(lines[0].contains(REAL) && lines[1].contains(ROTATED), "{seen}");
    }
}

#[test]
fn a_value_that_is_set_while_an_answer_is_under_way_is_scrubbed_from_it() {
    let program = format!(
        "{ASK}
HOST = 'web.example.com'
def begun(s):
    said = b''
    while b'begun' not in said: said += s.recv(1000)
ask('old', HOST, '/headers', BEARER)
stream = tls(connect((HOST, 443)), HOST)
stream.sendall(f'GET /stream HTTP/1.1\\r\\nHost: {{HOST}}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
begun(stream)
open('did-begin', 'w').close()
while not os.path.exists('go-on'): time.sleep(0.01)
ask('tell', HOST, '/tell', BEARER)
print('stream', read(stream).replace('\\r\\n', ' '))
print('placeholder', SVC)
"
    );
    for user in people_with("rotation in a stream", &[]) {
        let world = with_secrets(user, &["web"]);
        let program = format!("{}\n{program}", include_str!("inside.py"));
        let mut run = world.pinfold(&["run", "--", "python3", "-c", &program]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "did-begin");
        world.set_secret("svc", ROTATED);
        world.stage.write("ws/go-on", "");
        let said = Said::of(run.wait_with_output().unwrap());
        assert!(said.ok && !said.out.contains("ROTATED") && !said.out.contains("REAL"), "{said:?}");
        assert!(said.line("stream").contains(said.line("placeholder")), "{said:?}");
        assert!(world.seen().contains(ROTATED), "{}", world.seen());
    }
}

#[test]
fn the_real_value_is_nowhere_inside() {
    for user in people_with("a secret inside", &[]) {
        let world = with_secrets(user, &["web"]);
        world.stage.write("ws/search.py", MEMORY_SEARCH);
        let script = format!(
            "curl -sS -m10 -H \"Authorization: Bearer $SVC\" 'https://web.example.com/headers' -D - >/dev/null && \
             python3 search.py {}; mkfifo go; (echo > searched; exec cat go); true",
            disguised(REAL)
        );
        let mut run = world.pinfold(&["run", "--", "sh", "-c", &script]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "searched");
        if rustix::process::geteuid().is_root() {
            let inside = descendants(run.id());
            assert!(inside.len() >= 3, "{inside:?}");
            let mut found = 0;
            for pid in inside {
                let own = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let (searched, at) = search_memory(pid, REAL);
                assert!(searched > 0 && at.is_empty(), "{}: {at:?}", own.escape_ascii());
                found += searched;
            }
            eprintln!("searched {} MB of the sandbox from outside", found >> 20);
        }
        std::fs::write(world.stage.path("ws/go"), "").unwrap();
        let output = run.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains("and found []"), "{output:?}");
        assert!(world.seen().contains(REAL));
    }
}

#[test]
fn a_secret_comes_back_in_none_of_the_forms_that_servers_write() {
    const ODD: &str = "Pa55/w+rd&<x>\"q\\z_R3AL-s3cret~99";
    let program = format!(
        "{ASK}
KEY = SVC
said = ask('x', 'web.example.com', '/forms', 'Content-Type: application/json\\r\\n', json.dumps({{'key': KEY}}))
print('forms', json.dumps(said.replace(KEY, 'KEY')))
short = ask('y', 'web.example.com', '/forms', 'Content-Type: application/json\\r\\n', json.dumps({{'key': os.environ['SHORT']}}))
print('short', json.dumps(short.replace(os.environ['SHORT'], 'KEY')))
"
    );
    for user in people_with("forms of secrets", &[]) {
        let world = World::new(user, &["web"]);
        let rule = |id: &str, env: &str| {
            format!(
                "[[secrets]]\nid = \"{id}\"\nenv = \"{env}\"\nhosts = [\"web.example.com\"]\n\
                 where = [\"body-json\"]\n"
            )
        };
        world.config(&(rule("odd", "SVC") + &rule("short", "SHORT")));
        world.set_secret("odd", ODD);
        world.set_secret("short", "hunter2!");
        let said = world.python(&[], &program);
        assert!(said.ok, "{said:?}");
        let seen = world.seen();
        assert!(seen.contains("R3AL-s3cret") && seen.contains("hunter2!"), "{seen}");
        for part in ["s3cret", "R3AL", "hunter2", "%50%61", "aHVudGVy", "h1bnRlcj"] {
            assert!(!said.out.contains(part), "{part} in {}", said.out);
        }
        // All but base64 have the placeholder instead.
        for name in ["forms", "short"] {
            assert_eq!(said.line(name).matches("KEY").count(), 7, "{}", said.line(name));
        }
    }
}

#[test]
fn a_required_secret_that_is_not_there_refuses_the_start() {
    for user in people_with("required secrets", &[]) {
        let world = World::new(user, &["web"]);
        world.config("[[secrets]]\nid = \"svc\"\nenv = \"SVC\"\nhosts = [\"web.example.com\"]\nrequired = true\n");
        let said = world.shell(&[], "echo ran");
        assert!(!said.ok && said.out.is_empty(), "{said:?}");
        assert!(said.err.contains("pinfold secret set svc"), "{}", said.err);
        world.config("[[secrets]]\nid = \"svc\"\nenv = \"SVC\"\nhosts = [\"web.example.com\"]\n");
        let said = world.shell(&[], "echo ran ${SVC-unset}");
        assert_eq!(said.out, "ran unset\n");
        assert!(said.err.contains("pinfold secret set svc"), "{}", said.err);
    }
}
