//! Requests that say one thing and mean another, and a hostile sandbox.

use super::World;
use super::world::people_with;

/// Request texts for one allowed connection; `/smuggled` must never arrive.
const REQUESTS: &str = include_str!("requests.py");

#[test]
fn no_request_reaches_another_host_on_an_allowed_connection() {
    let program = format!(
        "{REQUESTS}
from concurrent.futures import ThreadPoolExecutor
WAYS = {{'clear': lambda: connect(('web.example.com', 80), 2),
        'ended': lambda: tls(connect(('web.example.com', 443), 2), 'web.example.com'),
        'connect': lambda: tls(tunnel('web.example.com:443', 2)[1], 'web.example.com')}}
def one(case):
    way, name, text = case
    said = attempt(lambda: speak(WAYS[way](), text))
    codes = [part[:3] for part in said.split('HTTP/1.1 ')[1:]]
    return ' '.join([way, name, *codes, '|'])
cases = [(way, name, text) for way in WAYS for name, text in CASES.items()]
# A connection that may go on is waited for, so all at once.
with ThreadPoolExecutor(96) as pool: print('\\n'.join(pool.map(one, cases)))
"
    );
    for user in people_with("smuggling", &[]) {
        let world = World::new(user, &["web"]);
        let control = world.python_outside(&format!(
            "{REQUESTS}\nfor name in ('other-host', 'pipelined', 'leading-crlf'):\n  \
             print(speak(connect(('web.example.com', 80)), CASES[name]).count('GET /smuggled'))"
        ));
        assert_eq!(control.out, "1\n1\n1\n", "{control:?}");
        let before = world.seen().len();
        let options = ["--allow-host", "web.example.com", "--intercept", "web.example.com"];
        let said = world.python(&options, &program);
        assert!(said.ok, "{said:?}");
        for way in ["clear", "ended", "connect"] {
            assert!(said.line(&format!("{way} honest")).starts_with("200"), "{}", said.out);
        }
        let seen = world.seen().split_off(before);
        for line in seen.lines() {
            assert!(!line.contains("\"path\": \"/smuggled\""), "{line}\n{}", said.out);
            assert!(!line.contains("[\"Host\", \"other"), "{line}");
        }
        for line in said.out.lines().filter(|line| !line.contains("honest")) {
            // The outer request may be served, since it is for the host; nothing after it is.
            let codes = line.split(' ').skip(2).take_while(|word| *word != "|");
            let served = codes.filter(|code| *code == "200").count();
            assert!(served == 0 || (served == 1 && seen.contains("/outer")), "{line}");
        }
    }
}

#[test]
fn a_rule_on_requests_is_not_evaded_by_another_beginning() {
    let program = format!(
        "{REQUESTS}
TEXTS = {{
  'allowed': 'GET /free/x HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'denied': 'GET /closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'method': 'POST /free/x HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\nContent-Length: 0\\r\\n' + END,
  'dots': 'GET /free/../closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'coded': 'GET /free/%2e%2e/closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'overlong': 'GET /free/%c0%ae%c0%ae/closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'wide': 'GET /free/%ef%bc%8e%ef%bc%8e/closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'percent-u': 'GET /free/%u002e%u002e/closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'tab': 'GET /free/..%09/closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'blank': 'GET /free/..%20/closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'override': 'GET /free/x HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\nX-HTTP-Method-Override: POST\\r\\n'
      'X-HTTP-Method: POST\\r\\nX_Method_Override: POST\\r\\nX-Original-URL: /closed\\r\\nX-Rewrite-URL: /closed\\r\\n' + END,
  'leading-crlf': '\\r\\nGET /closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'leading-lf': '\\nGET /closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
  'long-method': 'A' * 40 + ' /closed HTTP/1.1\\r\\nHost: web.example.com:8080\\r\\n' + END,
}}
for name, text in TEXTS.items():
    print('clear', name, status(attempt(lambda: speak(connect(('web.example.com', 8080), 3), text))))
    text = text.replace(':8080', '')
    print('ended', name, status(attempt(lambda: speak(tls(connect(('web.example.com', 443), 2), 'web.example.com'), text))))
"
    );
    for user in people_with("rules on requests", &[]) {
        let world = World::new(user, &["web"]);
        world.config(
            "[network]\nrequests = [{ host = \"web.example.com:8080\", methods = [\"GET\"], \
             paths = [\"/free/**\"] }, { host = \"web.example.com\", methods = [\"GET\"], \
             paths = [\"/free/**\"] }]\n",
        );
        let control = world.python_outside(
            "print(status(speak(connect(('web.example.com', 8080)), '\\r\\nGET /closed HTTP/1.0\\r\\n\\r\\n')))",
        );
        assert_eq!(control.out, "200\n");
        let before = world.seen().len();
        let said = world.python(&[], &program);
        for way in ["clear", "ended"] {
            for name in ["allowed", "override"] {
                assert_eq!(said.line(&format!("{way} {name}")), "200", "{said:?}");
            }
            let paths = ["dots", "coded", "overlong", "wide", "percent-u", "tab", "blank"];
            for name in ["denied", "method"].iter().chain(&paths) {
                assert_eq!(said.line(&format!("{way} {name}")), "403", "{said:?}");
            }
        }
        let seen = world.seen().split_off(before);
        assert!(!seen.contains("closed") && !seen.contains("POST"), "{seen}\n{}", said.out);
    }
}

#[test]
fn http_on_another_port_is_http_however_it_begins() {
    let program = "\
END = 'Host: other.example.org\\r\\nConnection: close\\r\\n\\r\\n'
def slowly(parts):
    s = connect(('web.example.com', 8080), 3)
    for part in parts:
        s.sendall(part.encode())
        time.sleep(0.2)
    return read(s)
for name, parts in {
    'plain': ['GET /smuggled HTTP/1.1\\r\\n' + END],
    'crlf': ['\\r\\nGET /smuggled HTTP/1.1\\r\\n' + END],
    'lines': ['\\n' * 30000, 'GET /smuggled HTTP/1.1\\r\\n' + END],
    'blanks': [' \\t\\r\\n GET /smuggled HTTP/1.1\\r\\n' + END],
    'small': ['get /smuggled HTTP/1.1\\r\\n' + END],
    'slow': ['\\r', '\\n', 'G', 'e', 't', ' ', '/smuggled HT', 'TP/1.1\\r\\n', END],
    'token': ['x1~ /smuggled http/1.1\\r\\n' + END],
}.items():
    print(name, status(attempt(lambda: slowly(parts))))
s = connect(('web.example.com', 8080), 3)
s.sendall(b'get key\\r\\n')
print('other', 'Error code: 400' in read(s))
";
    for user in people_with("HTTP on another port", &[]) {
        let world = World::new(user, &["web"]);
        let before = world.seen().len();
        let said = world.python(&["--allow-host", "web.example.com:8080"], program);
        assert!(said.ok, "{said:?}");
        for name in ["plain", "crlf", "small", "slow"] {
            assert_eq!(said.line(name), "421", "{}", said.out);
        }
        for name in ["lines", "blanks", "token"] {
            assert_ne!(said.line(name), "200", "{}", said.out);
        }
        // What is no HTTP is the server's to answer.
        assert_eq!(said.line("other"), "True", "{}", said.out);
        let seen = world.seen().split_off(before);
        assert!(!seen.contains("smuggled"), "{seen}\n{}", said.out);
    }
}

#[test]
fn an_http2_request_for_another_host_is_misdirected() {
    let node = r#"
const http2 = require("node:http2"), fs = require("node:fs");
const session = http2.connect("https://h2.example.com", { ca: fs.readFileSync("/etc/ssl/certs/ca-certificates.crt") });
const ask = (headers) => new Promise((done) => {
  const stream = session.request({ ":path": "/x", ...headers });
  stream.on("response", (said) => done(said[":status"]));
  stream.on("error", (error) => done(error.code));
  stream.resume(); stream.end();
});
(async () => {
  console.log("own", await ask({}));
  console.log("other", await ask({ ":authority": "other.example.org", ":path": "/smuggled" }));
  console.log("host", await ask({ host: "other.example.org", ":path": "/smuggled" }));
  console.log("again", await ask({}));
  session.close();
})();
"#;
    for user in people_with("HTTP/2 coalescing", &["node"]) {
        let world = World::new(user, &["h2", "web"]);
        let options = [
            "--allow-host",
            "h2.example.com",
            "--allow-host",
            "other.example.org",
            "--intercept",
            "*",
        ];
        let said = world.run(&options, &["node", "-e", node]);
        assert_eq!(
            (said.line("own"), said.line("other"), said.line("again")),
            ("200", "421", "200"),
            "{said:?}"
        );
        assert_ne!(said.line("host"), "200", "{said:?}");
        assert!(!world.seen().contains("smuggled"), "{}", world.seen());
    }
}
