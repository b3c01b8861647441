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
fn upstream_faults_are_told_and_the_session_goes_on() {
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
    // One person is enough for a server that is waited for until the limit.
    let Some(person) = people_with("upstream faults", &[]).pop() else { return };
    let world = World::new(person, &["web"]);
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
    for person in people_with("half-closed connections", &[]) {
        let world = World::new(person, &["web"]);
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
    for person in people_with("silent clients", &[]) {
        let world = World::new(person, &["web"]);
        let said = world.python(&["--allow-host", "web.example.com"], program);
        assert_eq!((said.line("served"), said.line("still")), ("200 at once", "200 at once"));
        assert_eq!(said.err, "");
    }
}
