//! A refusal explains itself, to the program, to the person and to the audit log.

use super::World;
use super::world::people_with;

#[test]
fn each_refusal_is_told_once_and_recorded_each_time() {
    let program = "\
def act(host, port, text):
    return lambda: status(speak(connect((host, port)), text))
timed('direct', act('93.184.216.34', 80, 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))
timed('direct-tls', act('93.184.216.34', 443, '\\x16\\x03\\x01'))
timed('direct-ssh', act('93.184.216.34', 22, ''))
timed('port', act('web.example.com', 8080, 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))
timed('connect', lambda: status(tunnel('registry.example.org:443')[0]))
timed('connect-again', lambda: status(tunnel('registry.example.org:443')[0]))
timed('name', lambda: socket.gethostbyname('other.example.org'))
print(tunnel('registry.example.org:443')[1].recv(1000).decode())
print(speak(connect(('93.184.216.34', 80)), 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))
";
    for person in people_with("refusals", &[]) {
        let world = World::new(person, &["web", "registry"]);
        let said = world.python(&["--allow-host", "web.example.com"], program);
        assert!(said.ok, "{said:?}");
        eprintln!("{}", said.out);
        for (name, expected) in [
            ("direct", "403"),
            ("port", "403"),
            ("connect", "403"),
            ("connect-again", "403"),
            ("name", "gaierror"),
        ] {
            assert_eq!(said.line(name), format!("{expected} at once"));
        }
        for name in ["direct-tls", "direct-ssh"] {
            assert_eq!(said.line(name), "<reset> at once");
        }
        said.has(&[
            "x-pinfold-refusal: network",
            "no rule allows registry.example.org. ",
            "`pinfold run --allow-host registry.example.org`",
            "no rule allows the address 93.184.216.34:80",
        ]);
        let refusals = said.refusals();
        let expected = [
            "no rule allows the address 93.184.216.34:80",
            "no rule allows the address 93.184.216.34:443",
            "no rule allows the address 93.184.216.34:22",
            "no rule allows port 8080 of web.example.com",
            "no rule allows registry.example.org (--allow-host registry.example.org)",
            "no rule allows other.example.org (--allow-host other.example.org)",
        ];
        assert_eq!(refusals.len(), expected.len(), "{}", said.err);
        for (refusal, expected) in refusals.iter().zip(expected) {
            assert!(refusal.starts_with(expected), "{refusal}");
        }
        let audit = world.audit();
        let denials = |what: &str| {
            let denial = |line: &&str| line.contains("\"event\":\"denial\"") && line.contains(what);
            audit.lines().filter(denial).count()
        };
        assert_eq!(denials("registry.example.org:443"), 3, "{audit}");
        assert_eq!(denials("93.184.216.34:80"), 2, "{audit}");
        assert_eq!(denials("web.example.com:8080"), 1, "{audit}");
        // The resolver asks for both families.
        assert!((1..=2).contains(&denials("other.example.org:443")), "{audit}");
    }
}

#[test]
fn curl_shows_the_refusal_with_and_without_the_proxy() {
    for person in people_with("curl's refusals", &[]) {
        let world = World::new(person, &["web"]);
        let said = world.shell(
            &["--allow-host", "web.example.com"],
            "curl -s -m5 http://other.example.org/; curl -s -m5 --noproxy '*' http://93.184.216.35/; \
             curl -sS -m5 https://other.example.org/ 2>&1",
        );
        said.has(&[
            "pinfold run --allow-host other.example.org`",
            "names decide, so use the name",
            "403",
        ]);
        let nothing = world.shell(&[], "curl -s -m5 http://web.example.com/");
        nothing.has(&["pinfold run --allow-host web.example.com`"]);
    }
}
