//! Names are answered by pinfold, and are no way out.

use std::time::Instant;

use super::World;
use super::world::people_with;

const DNS: &str = r#"
def question(name, kind=1, edns=True, count=1, flags=0x100):
    labels = b"".join(struct.pack("B", len(label)) + label.encode() for label in name.split(".") if label)
    extra = b"\0\0\x29\x04\xd0\0\0\0\0\0\0" if edns else b""
    head = struct.pack("!HHHHHH", 4711, flags, count, 0, 0, 1 if edns else 0)
    return head + (labels + b"\0" + struct.pack("!HH", kind, 1)) * min(count, 2) + extra

def ask(data, at="127.0.0.1", wait=3):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(wait)
    s.connect((at, 53))
    s.send(data)
    return s.recv(4096)

def ask_tcp(data, at="127.0.0.1"):
    s = connect((at, 53))
    s.sendall(struct.pack("!H", len(data)) + data)
    answer = s.recv(4096)
    return answer[2:]

def code(answer):
    return f"{answer[3] & 15} {struct.unpack('!H', answer[6:8])[0]}"
"#;

#[test]
fn only_allowed_names_are_asked_upstream_and_only_for_addresses() {
    let program = format!(
        "{DNS}
began = time.monotonic()
answer = ask(question('denied.example.net'))
took = time.monotonic() - began
print('denied', code(answer), b'no rule allows' in answer and b'denied.example.net' in answer, f'{{took * 1000:.1f}} ms')
for kind in (1, 28, 16, 15, 64, 65, 255, 252, 251, 12, 33, 10, 65535):
    print('kind', kind, code(ask(question('web.example.com', kind))), '|', code(ask(question('leak.example.net', kind))))
print('tcp', code(ask_tcp(question('web.example.com'))), code(ask_tcp(question('leak.example.net'))))
print('far-tcp', attempt(lambda: code(ask_tcp(question('web.example.com'), '8.8.8.8'))), attempt(lambda: code(ask_tcp(question('leak.example.net'), '8.8.8.8'))))
timed('far-udp', lambda: code(ask(question('leak.example.net'), '8.8.8.8')))
print('case', code(ask(question('WEB.eXample.COM'))))
for name in ('c2VjcmV0.web.example.com', 'c2VjcmV0.example.com', 'web.example.com.leak.example.net',
             'a.' * 100 + 'leak.example.net', 'localhost', '127.0.0.1', 'web.example.com\\0.leak'):
    print('name', name[:20], code(ask(question(name))))
print('localhost', socket.gethostbyname('localhost'))
"
    );
    for user in people_with("DNS", &[]) {
        let world = World::new(user, &["web"]);
        let said = world.python(&["--allow-host", "web.example.com"], &program);
        assert!(said.ok, "{said:?}");
        let denied = said.line("denied");
        eprintln!("a refused name was answered in {}", denied.rsplit("True ").next().unwrap());
        assert!(denied.starts_with("3 0 True"), "{denied}");
        for line in said.out.lines().filter_map(|line| line.strip_prefix("kind ")) {
            let kind = line.split(' ').next().unwrap();
            let expected = match kind {
                "1" => "0 1 | 3 0",
                "255" | "252" | "251" => "5 0 | 5 0",
                _ => "0 0 | 3 0",
            };
            assert_eq!(line, format!("{kind} {expected}"));
        }
        assert_eq!((said.line("tcp"), said.line("case")), ("0 1 3 0", "0 1"));
        assert!(!said.line("far-udp").contains("after"), "{}", said.out);
        let asked = world.asked();
        assert!(asked.contains("web.example.com 1\n"), "{asked}");
        for line in asked.lines() {
            assert!(["web.example.com 1", "web.example.com 28"].contains(&line), "{asked}");
        }
    }
}

#[test]
fn malformed_questions_and_floods_of_names_harm_nobody() {
    let program = format!(
        "{DNS}
good = question('web.example.com')
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('127.0.0.1', 53))
bad = [b'', b'x', good[:11], good[:12], good[:20], good[:12] + b'\\xc0\\x0c\\0\\1\\0\\1', good[:12] + b'\\xc0\\xff\\0\\1\\0\\1',
       good[:12] + b'\\x3f' + b'a' * 62, question('web.example.com', count=0), question('web.example.com', count=2),
       question('web.example.com', count=65535), question('web.example.com', flags=0x8180), question('web.example.com', flags=0x2800),
       b'\\xff' * 512, b'\\0' * 1232, b'\\xff' * 4000, good + b'trailing']
for one in bad: s.send(one)
for seed in range(3000):
    noise = bytearray(good)
    noise[seed % len(noise)] ^= seed % 255 + 1
    try: s.send(noise)
    except OSError: pass
for one in bad[1:]:
    def over_tcp():
        t = connect(('127.0.0.1', 53), 1)
        t.sendall(struct.pack('!H', len(one)) + one)
        t.recv(100)
    attempt(over_tcp)
idle = [connect(('127.0.0.1', 53)) for _ in range(200)]
print('after', code(ask(good)), code(ask_tcp(good)))
number = NUMBER
began = time.monotonic()
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood.connect(('127.0.0.1', 53))
flood.settimeout(0.5)
answered = 0
for at in range(number):
    flood.send(question(f'n{{at}}.leak.example.net'))
    if at % 100 == 99:
        for _ in range(100):
            try: flood.recv(2000); answered += 1
            except socket.timeout: break
print('flood', answered, f'{{time.monotonic() - began:.1f}} s')
print('then', code(ask(good)), status(speak(connect(('web.example.com', 80)), 'GET / HTTP/1.0\\r\\n\\r\\n')))
"
    );
    for user in people_with("bad DNS", &[]) {
        let world = World::new(user, &["web"]);
        // All of them once is enough.
        let number = if user.is_root() { 10_000 } else { 100_000 };
        let program = program.replace("NUMBER", &number.to_string());
        let began = Instant::now();
        let said = world.python(&["--allow-host", "web.example.com"], &program);
        assert!(said.ok, "{said:?}");
        assert_eq!((said.line("after"), said.line("then")), ("0 1 0 1", "0 1 200"));
        let answered: u32 = said.line("flood").split(' ').next().unwrap().parse().unwrap();
        // A hundred at a time wait for at most half a second.
        assert!(answered >= number / 20 * 19, "{}", said.out);
        eprintln!("names refused: {}", said.line("flood"));
        // Neither the terminal nor the audit log is filled.
        assert!((20..=25).contains(&said.refusals().len()), "{}", said.err);
        let denials = world.audit().matches("\"event\":\"denial\"").count();
        // After 200, 20 each second, each with the number of those that were left out.
        let most = 250 + 40 * usize::try_from(began.elapsed().as_secs() + 1).unwrap();
        assert!((200..most).contains(&denials), "{denials}");
        assert!(!world.asked().contains("leak"), "a refused name was asked upstream");
    }
}
