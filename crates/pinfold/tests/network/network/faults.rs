//! Servers and clients that misbehave: a clear answer, and the session goes on.

use super::World;
use super::world::people_with;

const OPTIONS: [&str; 6] = [
    "--allow-host",
    "faults.example.com:*",
    "--allow-host",
    "web.example.com",
    "--intercept",
    "faults.example.com",
];

#[test]
fn upstream_faults_are_reported_and_the_session_goes_on() {
    let program = "\
import threading
HOST = 'faults.example.com'
def ask(port, secure):
    def act():
        s = connect((HOST, port), 20)
        if secure: s = tls(s, HOST)
        return speak(s, f'GET / HTTP/1.1\\r\\nHost: {HOST}:{port}\\r\\nConnection: close\\r\\n\\r\\n')
    return attempt(act)
def tell(name, port, secure):
    said = ask(port, secure)
    body = said.split('\\r\\n\\r\\n')[-1].strip()[:200]
    print(name, status(said), '|', body.replace('\\n', ' '), flush=True)
threads = [threading.Thread(target=tell, args=one) for one in [
    ('closed', 9, False), ('wrong', 1443, True), ('expired', 2443, True), ('hangs', 3443, True),
    ('resets-tls', 4443, True), ('resets', 4080, False), ('endless', 5080, False),
    ('endless-tls', 5443, True), ('cut', 6080, False), ('good', 7443, True)]]
for one in threads: one.start()
for one in threads: one.join()
print('then', status(ask(7443, True)))
";
    // One user is enough for a server that is waited for until the limit.
    let Some(user) = people_with("upstream faults", &[]).pop() else { return };
    let world = World::new(user, &["web"]);
    let said = world.python(&OPTIONS, program);
    assert!(said.ok, "{said:?}");
    for (name, words) in [
        ("closed", "refused"),
        ("wrong", "not valid for name"),
        ("expired", "expired"),
        ("hangs", "seconds"),
        ("resets-tls", "TLS with faults.example.com:4443 failed"),
        ("resets", "broke the connection"),
        ("endless", "broke the connection"),
        ("endless-tls", "broke the connection"),
    ] {
        let line = said.line(name);
        assert!(line.starts_with("502 | ") && line.contains(words), "{name}: {line}");
        assert!(line.contains("faults.example.com"), "{name}: {line}");
    }
    // The head of this one came in whole; its body ends too early, which the client must see.
    assert!(said.line("cut").starts_with("200 | only this"), "{}", said.out);
    assert!(said.line("good").starts_with("200"), "{}", said.out);
    assert_eq!(said.line("then"), "200");
    assert!(said.refusals().is_empty(), "a fault is no refusal: {}", said.err);
}

#[test]
fn half_closed_connections_pass_both_ends() {
    let program = "\
HOST = 'faults.example.com'
for come in (lambda port: connect((HOST, port)), lambda port: tunnel(f'{HOST}:{port}')[1]):
    s = come(6000)
    for _ in range(30): s.sendall(b'x' * 20000)
    s.shutdown(socket.SHUT_WR)
    print('half', read(s))
    s = come(6001)
    print('first', read(s).strip())
    s.sendall(b'y' * 1000)
    s.close()
time.sleep(0.3)
";
    for user in people_with("half-closed connections", &[]) {
        let world = World::new(user, &["web"]);
        let said = world.python(&OPTIONS, program);
        assert_eq!(said.out, "half had 600000\nfirst bye\n".repeat(2), "{}", said.err);
        assert_eq!(world.seen().matches("\"after_end\": 1000").count(), 2, "{}", world.seen());
    }
}

#[test]
fn clients_that_say_nothing_or_little_are_no_refusal_and_hold_nobody_up() {
    let program = "\
held = []
for port in (80, 443):
    for _ in range(100):
        held.append(connect(('web.example.com', port)))
for _ in range(100):
    s = connect(PROXY); s.send(b'CONN'); held.append(s)
    s = connect(PROXY); s.send(b'GET http://web.exa'); held.append(s)
    s = connect(('web.example.com', 80)); s.send(b'GE'); held.append(s)
    s = connect(('web.example.com', 443)); s.send(b'\\x16\\x03'); held.append(s)
for port in (80, 443): connect(('web.example.com', port)).close()
print(status(tunnel('web.example.com:443')[0]))
timed('served', lambda: status(speak(connect(('web.example.com', 80)), 'GET / HTTP/1.0\\r\\n\\r\\n')))
for s in held[::2]: s.close()
timed('still', lambda: status(speak(connect(('web.example.com', 80)), 'GET / HTTP/1.0\\r\\n\\r\\n')))
time.sleep(0.3)
";
    for user in people_with("silent clients", &[]) {
        let world = World::new(user, &["web"]);
        let said = world.python(&["--allow-host", "web.example.com"], program);
        assert_eq!((said.line("served"), said.line("still")), ("200 at once", "200 at once"));
        assert_eq!(said.err, "");
    }
}

#[test]
fn clients_that_say_too_much_harm_nobody() {
    let program = "\
def endless(s, beginning, piece):
    # Until it is refused; more than any bound must not be taken.
    sent = 0
    try:
        s.sendall(beginning)
        while sent < 8 << 20:
            s.sendall(piece); sent += len(piece)
    except OSError:
        return 'ended'
    return f'took {sent}'
def hello(name):
    entry = b'\\0' + struct.pack('!H', len(name)) + name
    names = struct.pack('!H', len(entry)) + entry
    extensions = struct.pack('!HH', 0, len(names)) + names
    body = b'\\3\\3' + b'r' * 32 + b'\\0\\0\\2\\x13\\1\\1\\0' + struct.pack('!H', len(extensions)) + extensions
    handshake = b'\\1' + struct.pack('!I', len(body))[1:] + body
    return b'\\x16\\3\\1' + struct.pack('!H', len(handshake)) + handshake
header = b'X-Long: ' + b'a' * 65536 + b'\\r\\n'
for name, to in (('clear', ('web.example.com', 80)), ('proxy', PROXY)):
    print(name, endless(connect(to), b'GET http://web.example.com/ HTTP/1.1\\r\\nHost: web.example.com\\r\\n', header))
print('connect', endless(connect(PROXY), b'CONNECT web.example.com:443 HTTP/1.1\\r\\n', header))
print('tls', endless(tls(connect(('web.example.com', 443)), 'web.example.com'), b'GET / HTTP/1.1\\r\\nHost: web.example.com\\r\\n', header))
for length in (0, 254, 300, 15000):
    print('sni', length, speak(connect(('web.example.com', 443), 3), hello(b'a' * length)))
for _ in range(2000): tunnel('no.example.net:443')[1].close()
print('then', status(speak(connect(('web.example.com', 80)), 'GET / HTTP/1.0\\r\\n\\r\\n')))
";
    for user in people_with("clients that say too much", &[]) {
        let world = World::new(user, &["web"]);
        let options = ["--allow-host", "web.example.com", "--intercept", "web.example.com"];
        let said = world.python(&options, program);
        assert!(said.ok, "{said:?}");
        for name in ["clear", "proxy", "connect", "tls"] {
            assert_eq!(said.line(name), "ended", "{}", said.out);
        }
        for line in said.out.lines().filter(|line| line.starts_with("sni ")) {
            assert!(line.ends_with("<reset>"), "{line}");
        }
        assert_eq!(said.line("then"), "200");
        assert!(said.refusals().len() < 10, "{}", said.err);
        let denials = world.audit().matches("\"event\":\"denial\"").count();
        assert!(denials < 2000, "{denials}");
    }
}

#[test]
fn a_hundred_thousand_names_are_a_start_and_lookups_as_usual() {
    let program = "\
def refused(): return status(tunnel('no.example.net:443')[0])
timed('first', lambda: status(speak(connect(('web.example.com', 80)), 'GET / HTTP/1.0\\r\\n\\r\\n')))
timed('refused', refused)
timed('unknown', lambda: socket.gethostbyname('no.example.net'))
began = time.monotonic()
for _ in range(20): refused()
print('each', f'{(time.monotonic() - began) / 20 * 1000:.1f} ms')
";
    for user in people_with("a hundred thousand names", &[]) {
        let world = World::new(user, &["web"]);
        let names: Vec<String> = (0..100_000)
            .map(|number| format!("\"n{number}.example{}.org\"", number % 1000))
            .collect();
        world.config(&format!("[network]\nallow = [{}, \"web.example.com\"]\n", names.join(",")));
        let began = std::time::Instant::now();
        let said = world.python(&[], program);
        eprintln!("{:?} in all, a refusal {}", began.elapsed(), said.line("each"));
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
        assert_eq!(said.line("first"), "200 at once", "{said:?}");
        assert_eq!(said.line("refused"), "403 at once");
        assert_eq!(said.line("unknown"), "gaierror at once");
    }
}
